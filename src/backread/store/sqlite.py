"""The embedded store: one SQLite file, standard library only. Tables and rules are in `schema.md` beside this file."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

from backread import forking
from backread.arrays import NDArray, np
from backread.errors import NotFoundError, StoreBusyError, StoreCorruptError
from backread.store import entries as entry_rows
from backread.store import verify as proof
from backread.store.agreement import agree_on_users
from backread.store.ann import ANN_BYTES, AnnIndexes, corpus_keys
from backread.store.attachment_names import AttachmentNames
from backread.store.backup import copied, placed, sha256_of
from backread.store.base import TURNS, Appended, BuiltIndex, Cosines, PendingDoc, Postings, Progress, TurnSize
from backread.store.connection import ConnectionPool
from backread.store.erase import erase
from backread.store.file import loose
from backread.store.indexing import TermHasher, indexed_text, passage_header, passage_text
from backread.store.layout import Layout
from backread.store.migrations import meta_sum
from backread.store.reading import (
    corpora_of,
    count_all,
    count_from,
    count_user,
    docs_of,
    read_sessions,
    read_turns,
    read_users,
    size_of,
    turn_sizes,
)
from backread.store.replies import StoredTexts
from backread.store.rows import DamagedRowError, dec, enc, of_kinds
from backread.store.scrubbing import SCRUB_ROW, SCRUB_WAIT_S, Scrubber, due_step, note_erased
from backread.store.turns import (
    MAX_TURN_BYTES,
    Quota,
    StoredTurn,
    append,
    find_corpus,
    hash_terms,
    prepare,
    prepare_stored,
    read_layout,
    take_back,
    user_row,
)
from backread.store.vector_cache import CachedVectors, VectorCache
from backread.store.vectors import (
    ACTIVE,
    PREVIOUS,
    activate,
    append_vectors,
    drop_embedder,
    embedder_in,
    embedder_pk,
    newest_row,
    progress_sum,
    read_progress,
    read_vectors,
)
from backread.text.analysis import analyzer_version, index_terms
from backread.types import (
    Attachments,
    BackupReceipt,
    DeleteReceipt,
    Entry,
    EntryDraft,
    Fault,
    Session,
    Stats,
    Turn,
    TurnDraft,
    VerifyReport,
)

__all__ = ["SqliteStore"]

_CACHED_ROWS = 1_000_000  # layouts kept in memory, about 40 bytes a row


_TF_BITS = 20
_MOST_TF = (1 << _TF_BITS) - 1
# One string of numbers: making a Python tuple for each posting takes four times as long.
_POSTINGS = (
    f"SELECT group_concat((doc << {_TF_BITS}) | min(tf, {_MOST_TF})) FROM"
    " (SELECT doc, tf FROM postings WHERE corpus_pk = ? AND term = ? ORDER BY doc)"
)


@cache
def _no_turns() -> Layout:
    return Layout(
        docs=np.empty(0, np.int64),
        session=np.empty(0, np.int32),
        length=np.empty(0, np.float32),
        said_us=np.empty(0, np.int64),
        cues=np.empty(0, np.int8),
        role=np.empty(0, np.int32),
        speaker=np.empty(0, np.int32),
        session_ids=(),
        roles=(),
        speakers=(),
    )


class SqliteStore:
    """`TurnStore` on one SQLite file. Thread-safe; any number of processes may have the file open.

    Attributes:
        replies: of chat models; `backread.models.stored_replies.StoredReplies` makes a cache of it.

    Args:
        path: the file; made with mode 0600 when missing.
        vector_cache_bytes: vectors kept in memory between searches, those used last; 0 reads them from the file.
        ann_bytes: vectors of a corpus that isn't kept in memory from which a search uses the index of `build_ann`.
        turn_bytes: text of one turn at most.
        user_bytes: texts and attachments that one user may store; 0 is no quota.

    Raises:
        SchemaTooNewError, StoreCorruptError, StoreError: the file can't be used, and why.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        vector_cache_bytes: int = 256 * 1024 * 1024,
        ann_bytes: int = ANN_BYTES,
        turn_bytes: int = MAX_TURN_BYTES,
        user_bytes: int = 0,
    ) -> None:
        self._pool = ConnectionPool(Path(path))
        self.path = self._pool.path
        self._turn_bytes = turn_bytes
        self._quota = Quota(user_bytes)
        self._names = AttachmentNames()
        self._ann = AnnIndexes(self.path, cached=vector_cache_bytes, least=ann_bytes)
        self._vectors = VectorCache(vector_cache_bytes)
        self._scrubber = Scrubber(self._pool, self._ann.folder)
        self.replies = StoredTexts(self._pool)
        self._layouts: OrderedDict[tuple[int, str], tuple[int, Layout]] = OrderedDict()
        self._users_agree = False
        self._layouts_lock = forking.Lock()
        try:
            self._secret, self._analyzer = self._settings()
        except BaseException:
            self._pool.close()
            raise
        self._scrubber.tried(all_of_it=False, wait_s=0)  # what a crash or a reader left to be done

    def _settings(self) -> tuple[bytes, str]:
        """(secret, analyzer); a fresh file gets this version's analyzer."""
        with self._pool.read() as db:
            rows = db.execute("SELECT name, value, sum FROM meta WHERE name != ?", (SCRUB_ROW,)).fetchall()
            if not all(of_kinds(row, (str, bytes)) and meta_sum(*row[:2]) == row[2] for row in rows):
                raise DamagedRowError("a setting of the store does not match its checksum")
            meta: dict[str, bytes] = {name: value for name, value, _ in rows}
        if "secret" not in meta:
            raise StoreCorruptError(
                f"{self.path}: the secret of the text index is missing", hint="restore the file from a backup"
            )
        if "analyzer" not in meta:
            with self._pool.write() as db:
                _set_meta(db, "analyzer", analyzer_version().encode())
        analyzer = meta["analyzer"] if "analyzer" in meta else analyzer_version().encode()
        return meta["secret"], analyzer.decode("utf-8", "replace")

    # --- writing turns

    def append(self, user_id: str, drafts: Sequence[TurnDraft]) -> list[Appended]:
        """See `TurnStore.append`. Analysis runs before the write lock is taken."""
        hasher = self._hasher(user_id, TURNS)
        items = [prepare(draft, hasher, self._turn_bytes) for draft in drafts]
        if all(item.problem is not None for item in items):
            return [Appended(None, problem=item.problem) for item in items]
        try:
            with self._pool.write() as db:
                return append(db, user_id, items, self._quota)
        except BaseException:
            self._quota.forget()
            raise

    def take_back(self, user_id: str, turns: Sequence[StoredTurn], appended: int) -> None:
        """Store turns of a damaged file as they were stored there; `appended` is how many the user ever had, or 0."""
        hasher = self._hasher(user_id, TURNS)
        items = [prepare_stored(turn, hasher) for turn in turns]
        with self._pool.write() as db:
            take_back(db, user_id, items, appended)

    def backup(self, path: Path, *, overwrite: bool = False) -> BackupReceipt:
        """See `TurnStore.backup`."""
        with placed(path, (self.path,), overwrite=overwrite) as new:
            with self._pool.read() as db:
                copied(db, new)
            with closing(SqliteStore(new)) as copy:
                faults, stats = copy.verify().faults, copy.stats()
            if faults:
                raise StoreCorruptError(
                    f"{self.path}: the copy has {len(faults)} faults, the first: {faults[0].what}: {faults[0].detail}",
                    hint="`backread verify` names them, `backread rescue` saves what can be read; nothing was written",
                )
            size, digest = new.stat().st_size, sha256_of(new)
        return BackupReceipt(path, stats.users, stats.sessions, stats.turns, stats.entries, size, digest)

    def delete(
        self,
        user_id: str,
        *,
        turn_ids: Sequence[str] | None = None,
        session_id: str | None = None,
        scrub: bool = True,
    ) -> DeleteReceipt:
        """See `TurnStore.delete`."""
        if self.stale_analyzer:
            self.rebuild_text_index(user_id)  # postings are erased by their terms, which must be those of this version
        with self._pool.write() as db:
            user = user_row(db, user_id)
            receipt = DeleteReceipt(user_id, 0, 0, 0, 0, 0, 0)
            if user is not None:
                corpora = corpus_keys(db, user[0])
                receipt = erase(db, self._secret, (user[0], user_id), turn_ids, session_id)
                self._ann.remove(corpora if receipt.turns or receipt.vectors else ())
                whole_user = turn_ids is None and session_id is None  # its id and replies go, turns or not
                if receipt.turns or whole_user:
                    note_erased(db, asked=scrub)
        done = self._scrubber.tried(all_of_it=scrub, wait_s=SCRUB_WAIT_S if scrub else 0)
        return replace(receipt, pending_scrub=not done)

    def scrub(self) -> None:
        """See `TurnStore.scrub`."""
        if not self._scrubber.rewrite(SCRUB_WAIT_S):
            raise StoreBusyError(
                f"{self.path}: a reader keeps the log, which may still hold what was erased; the scrub stays due",
                hint="it is finished when the reader is gone, by the next scrub, delete or open of the store",
            )

    # --- reading turns

    def layout(self, user_id: str, corpus: str = TURNS) -> Layout:
        """See `TurnStore.layout`. Kept in memory until the user's history changes."""
        with self._pool.read() as db:
            return self._layout(db, user_id, corpus)

    def _user(self, db: sqlite3.Connection, user_id: str) -> tuple[int, int] | None:
        """As `user_row`; before the first time that None is believed, the index of users is compared with them all."""
        user = user_row(db, user_id)
        if user is None and not self._users_agree:
            agree_on_users(db)
            self._users_agree = True
        return user

    def _pk(self, db: sqlite3.Connection, user_id: str | None) -> int | None:
        """Key of a user, 0 for an unknown one; None for everyone."""
        return None if user_id is None else (self._user(db, user_id) or (0,))[0]

    def _layout(self, db: sqlite3.Connection, user_id: str, corpus: str) -> Layout:
        user = self._user(db, user_id)
        if user is None:
            return _no_turns()
        user_pk, version = user
        with self._layouts_lock:
            cached = self._layouts.get((user_pk, corpus))
            if cached is not None and cached[0] == version:
                self._layouts.move_to_end((user_pk, corpus))
                return cached[1]
        # What was compared once in this process isn't compared again when turns are added.
        proved = int(cached[1].docs.max(initial=0)) if cached is not None else 0
        if corpus == TURNS:
            layout = read_layout(db, user_pk, proved)
        else:
            pk = find_corpus(db, user_id, corpus)
            layout = _no_turns() if pk is None else entry_rows.read_entry_layout(db, pk, proved)
        with self._layouts_lock:
            self._layouts[user_pk, corpus] = (version, layout)
            self._layouts.move_to_end((user_pk, corpus))
            rows = sum(kept.size for _, kept in self._layouts.values())
            while rows > _CACHED_ROWS and len(self._layouts) > 1:
                rows -= self._layouts.popitem(last=False)[1][1].size
        return layout

    def turns_by_doc(self, user_id: str, docs: Sequence[int], *, attachments: Attachments = "full") -> list[Turn]:
        """See `TurnStore.turns_by_doc`."""
        with self._pool.read() as db:
            return read_turns(db, self._layout(db, user_id, TURNS), user_id, docs, attachments, self._names)

    def turn_sizes(self, user_id: str, docs: Sequence[int], *, attachments: Attachments = "full") -> list[TurnSize]:
        """See `TurnStore.turn_sizes`."""
        with self._pool.read() as db:
            user = self._user(db, user_id)
            return [] if user is None else turn_sizes(db, user[0], docs, attachments)

    def docs_of_turns(self, user_id: str, turn_ids: Sequence[str]) -> dict[str, int]:
        """See `TurnStore.docs_of_turns`."""
        with self._pool.read() as db:
            user = self._user(db, user_id)
            return docs_of(db, user[0], turn_ids) if user else {}

    def offsets(self, user_id: str, corpus: str, docs: NDArray[np.int64]) -> NDArray[np.int64]:
        """See `TurnStore.offsets`."""
        table = "turns" if corpus == TURNS else "entries"
        sql = f"SELECT said_offset FROM {table} JOIN users USING(user_pk) WHERE doc = ? AND user_id = ?"
        with self._pool.read() as db:
            rows = [db.execute(sql, (doc, enc(user_id))).fetchone() for doc in docs.tolist()]
        return np.array([(row[0] if row else None) or 0 for row in rows], dtype=np.int64)

    def sessions(self, user_id: str) -> list[Session]:
        """See `TurnStore.sessions`."""
        with self._pool.read() as db:
            return read_sessions(db, self._layout(db, user_id, TURNS), user_id)

    def size(self, user_id: str) -> tuple[int, int]:
        """See `TurnStore.size`."""
        with self._pool.read() as db:
            user = self._user(db, user_id)
            return (0, 0) if user is None else size_of(db, user[0])

    def users(self) -> list[str]:
        """See `TurnStore.users`."""
        with self._pool.read() as db:
            return read_users(db)

    # --- text index

    @property
    def stale_analyzer(self) -> str | None:
        """See `TurnStore.stale_analyzer`."""
        return None if self._analyzer == analyzer_version() else self._analyzer

    def _hasher(self, user_id: str, corpus: str) -> TermHasher:
        return TermHasher(self._secret, enc(user_id) or b"", corpus)

    def postings(self, user_id: str, corpus: str, terms: Sequence[str]) -> list[Postings]:
        """See `TurnStore.postings`."""
        hasher = self._hasher(user_id, corpus)
        found = []
        with self._pool.read() as db:
            layout = self._layout(db, user_id, corpus)
            pk = find_corpus(db, user_id, corpus)
            for term in terms:
                text = db.execute(_POSTINGS, (pk, hasher(term))).fetchone()[0] or ""
                pairs = np.fromstring(text, dtype=np.int64, sep=",")
                docs, tf = pairs >> _TF_BITS, pairs & _MOST_TF
                if len(docs) and not ((np.diff(docs) > 0).all() and (layout.rows(docs) >= 0).all()):
                    raise DamagedRowError(f"where {term!r} occurs is out of order, or names what isn't there")
                found.append(Postings(docs, tf.astype(np.float32)))
        return found

    def document_frequencies(self, user_id: str, corpus: str, terms: Sequence[str]) -> list[int]:
        """See `TurnStore.document_frequencies`."""
        hasher = self._hasher(user_id, corpus)
        with self._pool.read() as db:
            size = self._layout(db, user_id, corpus).size
            pk = find_corpus(db, user_id, corpus)
            sql = "SELECT count(*) FROM postings WHERE corpus_pk = ? AND term = ?"
            counts = [db.execute(sql, (pk, hasher(term))).fetchone()[0] for term in terms]
            if max(counts, default=0) > size:
                raise DamagedRowError("a word occurs in more turns than there are")
        return counts

    def lookup(self, user_id: str, corpus: str, term: str, docs: NDArray[np.int64]) -> NDArray[np.float32]:
        """See `TurnStore.lookup`."""
        key = self._hasher(user_id, corpus)(term)
        with self._pool.read() as db:
            pk = find_corpus(db, user_id, corpus)
            sql = "SELECT tf FROM postings WHERE corpus_pk = ? AND term = ? AND doc = ?"
            rows = [db.execute(sql, (pk, key, doc)).fetchone() for doc in docs.tolist()]
            if not all(row is None or isinstance(row[0], int) for row in rows):
                raise DamagedRowError(f"how often {term!r} occurs is not a number")
        return np.array([row[0] if row else 0 for row in rows], dtype=np.float32)

    def rebuild_text_index(self, user_id: str | None = None) -> int:
        """See `TurnStore.rebuild_text_index`. One transaction a user."""
        done = sum(self._rebuild_user(name) for name in (self.users() if user_id is None else [user_id]))
        if user_id is None:
            with self._pool.write() as db:
                _set_meta(db, "analyzer", analyzer_version().encode())
            self._analyzer = analyzer_version()
        return done

    def _rebuild_user(self, user_id: str) -> int:
        units = 0
        with self._pool.write() as db:
            user = user_row(db, user_id)
            pks = db.execute("SELECT corpus_pk, name FROM corpora WHERE user_pk = ?", (user[0] if user else 0,))
            for pk, name in pks.fetchall():
                hasher = TermHasher(self._secret, enc(user_id) or b"", dec(name))
                db.execute("DELETE FROM postings WHERE corpus_pk = ?", (pk,))
                table = "turns" if dec(name) == TURNS else "entries"
                rows: list[tuple[int, int, int, int]] = []
                for doc, text in _indexed_texts(db, user[0] if user else 0, pk, dec(name)):
                    terms, length = index_terms(text)
                    db.execute(f"UPDATE {table} SET length = ? WHERE doc = ?", (length, doc))
                    rows.extend((pk, term, doc, tf) for term, tf in hash_terms(terms, hasher).items())
                    units += 1
                db.executemany("INSERT INTO postings VALUES (?, ?, ?, ?)", sorted(rows))
            db.execute("UPDATE users SET version = version + 1 WHERE user_id = ?", (enc(user_id),))
        return units

    # --- vectors

    def vectors(self, user_id: str, corpus: str, fingerprint: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """See `TurnStore.vectors`."""
        with self._pool.read() as db:
            pk = find_corpus(db, user_id, corpus)
            embedder = embedder_pk(db, fingerprint)
            if pk is None or embedder is None:
                return np.empty(0, np.int64), np.empty((0, 0), np.float32)
            reached = _progress(db, user_id, corpus, fingerprint)
            layout = self._layout(db, user_id, corpus)
            known = self._vectors.get((pk, embedder))
            if known is not None and known.layout is not layout:
                if (layout.rows(known.vectors.docs) >= 0).all():
                    known = self._vectors.put((pk, embedder), replace(known, layout=layout))
                else:
                    known = None  # some were deleted
            # Rows may have come without a step of progress: of units that were passed over before.
            end = newest_row(db, pk, embedder)
            if known is None or known.reached != reached or (known.vectors.block_pk, known.vectors.row) != end:
                vectors = read_vectors(db, pk, embedder, known.vectors if known and reached > known.reached else None)
                known = self._vectors.put((pk, embedder), CachedVectors(reached, vectors, layout))
        return known.vectors.docs, known.vectors.matrix

    def cosines(
        self,
        user_id: str,
        corpus: str,
        fingerprint: str,
        query: NDArray[np.float32],
        *,
        wanted: int | None = None,
        also: Callable[[], NDArray[np.int64]] | None = None,
    ) -> Cosines:
        """See `TurnStore.cosines`; the rule is in `store.ann`."""
        with self._pool.read() as db:
            place = (find_corpus(db, user_id, corpus) or 0, embedder_pk(db, fingerprint) or 0)
            found = self._ann.cosines(db, place, fingerprint, query, wanted, also)
        if found is None:
            docs, matrix = self.vectors(user_id, corpus, fingerprint)
            found = Cosines(docs, matrix @ query if len(docs) else np.empty(0, np.float32), len(docs))
        return found

    def build_ann(
        self,
        user_id: str,
        corpus: str,
        fingerprint: str,
        *,
        min_bytes: int | None = None,
        newer: float = 0.0,
        on_progress: Callable[[int], None] | None = None,
    ) -> BuiltIndex | None:
        """See `TurnStore.build_ann`."""
        with self._pool.read() as db:
            place = (find_corpus(db, user_id, corpus) or 0, embedder_pk(db, fingerprint) or 0)
        names = (corpus, fingerprint)
        return self._ann.build(self._pool, place, names, min_bytes=min_bytes, newer=newer, on_progress=on_progress)

    def progress(self, user_id: str, corpus: str, fingerprint: str) -> Progress:
        """See `TurnStore.progress`."""
        with self._pool.read() as db:
            return _progress(db, user_id, corpus, fingerprint)

    def pending(self, user_id: str, corpus: str, fingerprint: str, limit: int) -> list[PendingDoc]:
        """See `TurnStore.pending`."""
        with self._pool.read() as db:
            reached = _progress(db, user_id, corpus, fingerprint)
            docs = self._layout(db, user_id, corpus).docs
            due = np.sort(docs[docs >= reached.doc])[:limit].tolist()
            if corpus == TURNS:
                rows = [
                    db.execute("SELECT doc, speaker, text, caption FROM turns WHERE doc = ?", (d,)).fetchone()
                    for d in due
                ]
                return [
                    PendingDoc(doc, passage_header(dec(speaker)), passage_text(dec(text), dec(caption)))
                    for doc, speaker, text, caption in rows
                ]
            rows = [db.execute("SELECT doc, index_text FROM entries WHERE doc = ?", (d,)).fetchone() for d in due]
            return [PendingDoc(doc, "", dec(text)) for doc, text in rows]

    def pending_count(self, user_id: str | None, fingerprint: str) -> int:
        """See `TurnStore.pending_count`."""
        count = 0
        with self._pool.read() as db:
            embedder = embedder_pk(db, fingerprint) or 0
            for user_pk, _, corpus_pk, corpus in corpora_of(db, self._pk(db, user_id)):
                count += count_from(db, user_pk, corpus_pk, corpus, read_progress(db, corpus_pk, embedder).doc)
        return count

    def put_vectors(
        self,
        user_id: str,
        corpus: str,
        fingerprint: str,
        expected: Progress,
        docs: NDArray[np.int64],
        matrix: NDArray[np.float32],
        reached: Progress,
    ) -> bool:
        """See `TurnStore.put_vectors`."""
        with self._pool.write() as db:
            pk = find_corpus(db, user_id, corpus)
            if pk is None or _progress(db, user_id, corpus, fingerprint) != expected:
                return False
            embedder = embedder_pk(db, fingerprint, matrix.shape[1])
            there = self._layout(db, user_id, corpus).rows(docs) >= 0
            append_vectors(db, pk, embedder or 0, docs[there], matrix[there])
            place = (pk, embedder or 0, reached.doc, reached.offset)
            row = (*place, progress_sum(*place))
            db.execute("INSERT OR REPLACE INTO vector_progress VALUES (?, ?, ?, ?, ?)", row)
        return True

    @property
    def active_embedder(self) -> str | None:
        """See `TurnStore.active_embedder`."""
        with self._pool.read() as db:
            found = embedder_in(db, ACTIVE)
        return found[1] if found else None

    @property
    def previous_embedder(self) -> str | None:
        """See `TurnStore.previous_embedder`."""
        with self._pool.read() as db:
            found = embedder_in(db, PREVIOUS)
        return found[1] if found else None

    def activate_embedder(self, fingerprint: str, *, dimension: int | None = None, keep_previous: bool = False) -> None:
        """See `TurnStore.activate_embedder`."""
        with self._pool.write() as db:
            embedder = embedder_pk(db, fingerprint, dimension)
            if embedder is None:
                raise NotFoundError(f"no vectors of embedder {fingerprint!r} are stored")
            activate(db, embedder, keep_previous=keep_previous)
            self._ann.keep_known(db)

    def drop_previous_embedder(self) -> bool:
        """See `TurnStore.drop_previous_embedder`."""
        with self._pool.write() as db:
            found = embedder_in(db, PREVIOUS)
            if found is not None:
                drop_embedder(db, found[0])
                self._ann.keep_known(db)
        return found is not None

    def corpora(self, user_id: str | None = None) -> list[tuple[str, str]]:
        """See `TurnStore.corpora`."""
        with self._pool.read() as db:
            return [(dec(owner), corpus) for _, owner, _, corpus in corpora_of(db, self._pk(db, user_id))]

    # --- entries

    def entries_by_doc(self, user_id: str, docs: Sequence[int]) -> list[Entry]:
        """See `TurnStore.entries_by_doc`."""
        with self._pool.read() as db:
            user = user_row(db, user_id)
            found = entry_rows.read_entries(db, user[0], docs=docs) if user else []
        return found

    def entries(self, user_id: str, strategy: str, kind: str | None = None) -> list[Entry]:
        """See `TurnStore.entries`."""
        with self._pool.read() as db:
            user = user_row(db, user_id)
            return entry_rows.read_entries(db, user[0], strategy=strategy, kind=kind) if user else []

    def strategy_state(self, user_id: str, strategy: str) -> tuple[int, bytes | None]:
        """See `TurnStore.strategy_state`."""
        with self._pool.read() as db:
            user = user_row(db, user_id)
            return entry_rows.strategy_state(db, user[0], strategy) if user else (0, None)

    def turns_to_rebuild(self, user_id: str, strategy: str) -> list[str]:
        """See `TurnStore.turns_to_rebuild`."""
        with self._pool.read() as db:
            user = user_row(db, user_id)
            rows = db.execute(
                "SELECT turn_id FROM rebuilds JOIN turns ON doc = turn_doc WHERE rebuilds.user_pk = ? AND strategy = ?"
                " ORDER BY doc",
                (user[0] if user else 0, enc(strategy)),
            ).fetchall()
        return [row[0] for row in rows]

    def commit(
        self,
        user_id: str,
        strategy: str,
        expected_version: int,
        put: Iterable[EntryDraft] = (),
        drop: Iterable[str] = (),
        state: bytes | None = None,
        rebuilt: Iterable[str] = (),
    ) -> int:
        """See `TurnStore.commit`."""
        with self._pool.write() as db:
            user = user_row(db, user_id)
            if user is None:
                raise NotFoundError(f"there is no user {user_id!r}")
            return entry_rows.commit(
                db, self._secret, (user[0], user_id), strategy, expected_version, put, drop, state, rebuilt
            )

    # --- the whole store

    def verify(self, user_id: str | None = None) -> VerifyReport:
        """See `TurnStore.verify`."""
        faults: list[Fault] = []
        checked: dict[str, int] = {}
        with self._pool.read() as db:
            db.text_factory = proof.readable
            try:
                for check in (proof.verify_file, proof.verify_schema, proof.verify_owners):
                    faults.extend(proof.guarded("the store", check(db)))
                rows: list[tuple[int, bytes]] = []
                faults.extend(proof.guarded("the users", proof.read_users(db, enc(user_id), rows)))
                for user_pk, name in rows:
                    found, counts = proof.verify_user(db, self._secret, user_pk, name)
                    faults.extend(found)
                    for part, count in counts.items():
                        checked[part] = checked.get(part, 0) + count
            finally:
                db.text_factory = str
            notices = list(_notices(db, self.path))
        return VerifyReport(checked, tuple(faults), tuple(notices))

    def stats(self, user_id: str | None = None) -> Stats:
        """See `TurnStore.stats`."""
        active = self.active_embedder
        pending = self.pending_count(user_id, active or "")
        with self._pool.read() as db:
            user_pk = self._pk(db, user_id)
            return Stats(
                **(count_all(db) if user_pk is None else count_user(db, user_pk)),
                pending=pending,
                bytes=sum(file.stat().st_size for file in self.path.parent.glob(self.path.name + "*") if file.is_file())
                + self._ann.size,
                embedder=active,
            )

    def close(self) -> None:
        """See `TurnStore.close`."""
        self._pool.close()


def _notices(db: sqlite3.Connection, path: Path) -> Iterator[str]:
    """What somebody should know of the files, though nothing is damaged."""
    with contextlib.suppress(sqlite3.Error):  # then it is among the faults
        if (step := due_step(db)) is not None:
            why = "turns were deleted without scrubbing" if step == "later" else "a delete was not finished"
            yield f"a scrub is due: {why}, and bytes of them may still be in the files; run `backread scrub`"
    for file in loose(path):
        yield f"others on this machine may read or write {file}: chmod {'700' if file.is_dir() else '600'} it"


def _set_meta(db: sqlite3.Connection, name: str, value: bytes) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (name, value, meta_sum(name, value)))


def _progress(db: sqlite3.Connection, user_id: str, corpus: str, fingerprint: str) -> Progress:
    return read_progress(db, find_corpus(db, user_id, corpus) or 0, embedder_pk(db, fingerprint) or 0)


def _indexed_texts(db: sqlite3.Connection, user_pk: int, corpus_pk: int, corpus: str) -> list[tuple[int, str]]:
    if corpus != TURNS:
        rows = db.execute("SELECT doc, index_text FROM entries WHERE corpus_pk = ? ORDER BY doc", (corpus_pk,))
        return [(doc, dec(text)) for doc, text in rows]
    rows = db.execute("SELECT doc, speaker, text, caption FROM turns WHERE user_pk = ? ORDER BY doc", (user_pk,))
    return [(doc, indexed_text(dec(speaker), dec(text), dec(caption))) for doc, speaker, text, caption in rows]
