"""The embedded store: one SQLite file, standard library only. Tables and rules are in `schema.md` beside this file."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from backread.arrays import NDArray, np
from backread.errors import NotFoundError, StoreCorruptError
from backread.store import entries as entry_rows
from backread.store import verify as proof
from backread.store.ann import ANN_BYTES, AnnIndexes, corpus_keys
from backread.store.base import TURNS, Appended, BuiltIndex, Cosines, PendingDoc, Postings, Progress
from backread.store.connection import ConnectionPool
from backread.store.erase import erase
from backread.store.indexing import TermHasher, indexed_text, passage_header, passage_text
from backread.store.layout import Layout
from backread.store.migrations import meta_sum
from backread.store.replies import StoredTexts
from backread.store.rows import TURN_COLUMNS, dec, enc, from_us, turn_from_row
from backread.store.turns import (
    append,
    find_corpus,
    hash_terms,
    prepare,
    read_layout,
    user_row,
    wire_id,
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
    read_vectors,
)
from backread.text.analysis import analyzer_version, index_terms
from backread.types import DeleteReceipt, Entry, EntryDraft, Fault, Session, Stats, Turn, TurnDraft, VerifyReport

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

    Raises:
        SchemaTooNewError, StoreCorruptError, StoreError: the file can't be used, and why.
    """

    def __init__(
        self, path: str | Path, *, vector_cache_bytes: int = 256 * 1024 * 1024, ann_bytes: int = ANN_BYTES
    ) -> None:
        self.path = Path(path)
        self._ann = AnnIndexes(self.path, cached=vector_cache_bytes, least=ann_bytes)
        self._vectors = VectorCache(vector_cache_bytes)
        self._pool = ConnectionPool(self.path)
        self.replies = StoredTexts(self._pool)
        self._layouts: OrderedDict[tuple[int, str], tuple[int, Layout]] = OrderedDict()
        self._layouts_lock = threading.Lock()
        try:
            self._secret, self._analyzer = self._settings()
        except BaseException:
            self._pool.close()
            raise

    def _settings(self) -> tuple[bytes, str]:
        """(secret, analyzer); a fresh file gets this version's analyzer."""
        with self._pool.read() as db:
            meta: dict[str, bytes] = dict(db.execute("SELECT name, value FROM meta").fetchall())
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
        items = [prepare(draft, hasher) for draft in drafts]
        if all(item.problem is not None for item in items):
            return [Appended(None, problem=item.problem) for item in items]
        with self._pool.write() as db:
            return append(db, user_id, items)

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
        whole_user = user is not None and turn_ids is None and session_id is None  # its id and replies go, turns or not
        if scrub and (receipt.turns or whole_user):
            self._pool.scrub()
        else:
            self._pool.empty_log()  # what a delete before this one may have had to leave there
        return receipt

    def scrub(self) -> None:
        """See `TurnStore.scrub`."""
        self._pool.scrub()

    # --- reading turns

    def layout(self, user_id: str, corpus: str = TURNS) -> Layout:
        """See `TurnStore.layout`. Kept in memory until the user's history changes."""
        with self._pool.read() as db:
            return self._layout(db, user_id, corpus)

    def _layout(self, db: sqlite3.Connection, user_id: str, corpus: str) -> Layout:
        user = user_row(db, user_id)
        if user is None:
            return _no_turns()
        user_pk, version = user
        with self._layouts_lock:
            cached = self._layouts.get((user_pk, corpus))
            if cached is not None and cached[0] == version:
                self._layouts.move_to_end((user_pk, corpus))
                return cached[1]
        if corpus == TURNS:
            layout = read_layout(db, user_pk)
        else:
            pk = find_corpus(db, user_id, corpus)
            layout = _no_turns() if pk is None else entry_rows.read_entry_layout(db, pk)
        with self._layouts_lock:
            self._layouts[user_pk, corpus] = (version, layout)
            self._layouts.move_to_end((user_pk, corpus))
            rows = sum(kept.size for _, kept in self._layouts.values())
            while rows > _CACHED_ROWS and len(self._layouts) > 1:
                rows -= self._layouts.popitem(last=False)[1][1].size
        return layout

    def turns_by_doc(self, user_id: str, docs: Sequence[int]) -> list[Turn]:
        """See `TurnStore.turns_by_doc`."""
        with self._pool.read() as db:
            layout = self._layout(db, user_id, TURNS)
            rows = layout.rows(np.array(docs, dtype=np.int64))
            starts = np.searchsorted(layout.session, np.arange(len(layout.session_ids)))
            sql = f"SELECT {TURN_COLUMNS} FROM turns t JOIN sessions s USING(session_pk) WHERE t.doc = ?"
            return [
                turn_from_row(db.execute(sql, (doc,)).fetchone(), int(row - starts[layout.session[row]]))
                for doc, row in zip(docs, rows.tolist(), strict=True)
                if row >= 0
            ]

    def docs_of_turns(self, user_id: str, turn_ids: Sequence[str]) -> dict[str, int]:
        """See `TurnStore.docs_of_turns`."""
        found: dict[str, int] = {}
        with self._pool.read() as db:
            user = user_row(db, user_id)
            for name in turn_ids if user else ():
                row = db.execute(
                    "SELECT doc FROM turns WHERE user_pk = ?1 AND (turn_id = ?2 OR external_id = ?3)"
                    " ORDER BY turn_id = ?2 DESC",
                    (user[0] if user else 0, wire_id(name), enc(name)),
                ).fetchone()
                if row:
                    found[name] = row[0]
        return found

    def sessions(self, user_id: str) -> list[Session]:
        """See `TurnStore.sessions`."""
        with self._pool.read() as db:
            rows = db.execute(
                "SELECT s.session_id, count(*), min(t.said_us), max(t.said_us), max(t.said_offset) FROM users"
                " JOIN sessions s USING(user_pk) JOIN turns t USING(session_pk) WHERE users.user_id = ?"
                " GROUP BY session_pk ORDER BY s.order_us, s.session_pk",
                (enc(user_id),),
            ).fetchall()
        return [
            Session(dec(session_id), turns, from_us(first, offset), from_us(last, offset))
            for session_id, turns, first, last, offset in rows
        ]

    def users(self) -> list[str]:
        """See `TurnStore.users`."""
        with self._pool.read() as db:
            rows = db.execute("SELECT user_id FROM users WHERE user_pk IN (SELECT user_pk FROM sessions)").fetchall()
        return sorted(dec(row[0]) for row in rows)

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
            pk = find_corpus(db, user_id, corpus)
            for term in terms:
                text = db.execute(_POSTINGS, (pk, hasher(term))).fetchone()[0] or ""
                pairs = np.fromstring(text, dtype=np.int64, sep=",")
                found.append(Postings(pairs >> _TF_BITS, (pairs & _MOST_TF).astype(np.float32)))
        return found

    def document_frequencies(self, user_id: str, corpus: str, terms: Sequence[str]) -> list[int]:
        """See `TurnStore.document_frequencies`."""
        hasher = self._hasher(user_id, corpus)
        with self._pool.read() as db:
            pk = find_corpus(db, user_id, corpus)
            sql = "SELECT count(*) FROM postings WHERE corpus_pk = ? AND term = ?"
            return [db.execute(sql, (pk, hasher(term))).fetchone()[0] for term in terms]

    def lookup(self, user_id: str, corpus: str, term: str, docs: NDArray[np.int64]) -> NDArray[np.float32]:
        """See `TurnStore.lookup`."""
        key = self._hasher(user_id, corpus)(term)
        with self._pool.read() as db:
            pk = find_corpus(db, user_id, corpus)
            sql = "SELECT tf FROM postings WHERE corpus_pk = ? AND term = ? AND doc = ?"
            rows = [db.execute(sql, (pk, key, doc)).fetchone() for doc in docs.tolist()]
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
            for owner, corpus in _corpora(db, user_id):
                docs = self._layout(db, owner, corpus).docs
                count += int((docs >= _progress(db, owner, corpus, fingerprint).doc).sum())
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
            return _corpora(db, user_id)

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
        return VerifyReport(checked, tuple(faults))

    def stats(self, user_id: str | None = None) -> Stats:
        """See `TurnStore.stats`."""
        active = self.active_embedder
        pending = self.pending_count(user_id, active or "")
        with self._pool.read() as db:
            mine = "WHERE user_pk IN (SELECT user_pk FROM users WHERE ?1 IS NULL OR user_id = ?1)"
            corpora = f"corpus_pk IN (SELECT corpus_pk FROM corpora {mine})"

            def count(sql: str) -> int:
                total: int = db.execute(sql, (enc(user_id),)).fetchone()[0]
                return total

            vectors = db.execute(f"SELECT docs FROM vector_blocks WHERE {corpora}", (enc(user_id),))
            return Stats(
                users=count(f"SELECT count(DISTINCT user_pk) FROM sessions {mine}"),
                sessions=count(f"SELECT count(*) FROM sessions {mine}"),
                turns=count(f"SELECT count(*) FROM turns {mine}"),
                entries=count(f"SELECT count(*) FROM entries {mine}"),
                postings=count(f"SELECT count(*) FROM postings WHERE {corpora}"),
                vectors=sum(int(np.count_nonzero(np.frombuffer(docs, dtype="<i8"))) for (docs,) in vectors),
                pending=pending,
                bytes=sum(file.stat().st_size for file in self.path.parent.glob(self.path.name + "*") if file.is_file())
                + self._ann.size,
                embedder=active,
            )

    def close(self) -> None:
        """See `TurnStore.close`."""
        self._pool.close()


def _set_meta(db: sqlite3.Connection, name: str, value: bytes) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (name, value, meta_sum(name, value)))


def _progress(db: sqlite3.Connection, user_id: str, corpus: str, fingerprint: str) -> Progress:
    row = db.execute(
        "SELECT p.doc, p.part FROM vector_progress p JOIN corpora USING(corpus_pk) JOIN users USING(user_pk)"
        " JOIN embedders USING(embedder_pk) WHERE user_id = ? AND name = ? AND fingerprint = ?",
        (enc(user_id), enc(corpus), enc(fingerprint)),
    ).fetchone()
    return Progress(*row) if row else Progress(0, 0)


def _corpora(db: sqlite3.Connection, user_id: str | None) -> list[tuple[str, str]]:
    rows = db.execute(
        "SELECT user_id, name FROM corpora JOIN users USING(user_pk) WHERE ?1 IS NULL OR user_id = ?1"
        " ORDER BY user_id, name",
        (enc(user_id),),
    )
    return [(dec(owner), dec(name)) for owner, name in rows]


def _indexed_texts(db: sqlite3.Connection, user_pk: int, corpus_pk: int, corpus: str) -> list[tuple[int, str]]:
    if corpus != TURNS:
        rows = db.execute("SELECT doc, index_text FROM entries WHERE corpus_pk = ? ORDER BY doc", (corpus_pk,))
        return [(doc, dec(text)) for doc, text in rows]
    rows = db.execute("SELECT doc, speaker, text, caption FROM turns WHERE user_pk = ? ORDER BY doc", (user_pk,))
    return [(doc, indexed_text(dec(speaker), dec(text), dec(caption))) for doc, speaker, text, caption in rows]
