"""Proving a SQLite store: everything is derived again and compared; every fault is named."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from backread.arrays import NDArray, np
from backread.store.base import TURNS, entry_corpus
from backread.store.entries import entry_sum, link_sum, state_sum
from backread.store.indexing import TermHasher, indexed_text, passage_text
from backread.store.migrations import MIGRATIONS, meta_sum, migrate, migration_sum
from backread.store.replies import reply_sum
from backread.store.rows import FIRST, dec, sort_after, turn_sum
from backread.store.turns import hash_terms, turn_name
from backread.store.vectors import ACTIVE, PREVIOUS, embedder_sum, progress_sum, row_sum, vector_scope
from backread.text.analysis import index_terms
from backread.text.cues import turn_cues
from backread.types import Fault

__all__ = ["guarded", "read_users", "readable", "verify_file", "verify_owners", "verify_schema", "verify_user"]

_POSTING = [("corpus", "<i8"), ("term", "<i8"), ("doc", "<i8"), ("tf", "<i8")]

# What reading a damaged page can raise: SQLite's own errors, and ours when a value has a type no column allows.
_DAMAGE = (sqlite3.Error, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def guarded(what: str, faults: Iterator[Fault]) -> Iterator[Fault]:
    """The faults, and one more when damage keeps the check from going on."""
    try:
        yield from faults
    except _DAMAGE as error:
        yield Fault("file", what, f"could not be read to its end: {error}")


def readable(data: bytes) -> str:
    """TEXT of a row, also when it isn't UTF-8 any more; its checksum then tells."""
    return data.decode("utf-8", "backslashreplace")


def _shown(data: bytes) -> str:
    """A name that was given by a caller, also when it isn't UTF-8 any more."""
    try:
        return str(dec(data))
    except (UnicodeDecodeError, AttributeError):
        return repr(data)


def verify_file(db: sqlite3.Connection) -> Iterator[Fault]:
    """What SQLite itself finds wrong with pages and indexes."""
    for (message,) in db.execute("PRAGMA integrity_check(20)"):
        if message != "ok":
            yield Fault("file", "integrity", message)


def verify_schema(db: sqlite3.Connection) -> Iterator[Fault]:
    """Tables and migrations as this version knows them, the store's own settings, and its embedders."""
    known = {migration.number: migration for migration in MIGRATIONS}
    seen = set()
    for number, name, sha256, applied_us, stored in db.execute("SELECT * FROM migrations"):
        seen.add(number)
        expected = known.get(number)
        if expected is None or (name, sha256) != (expected.name, expected.sha256):
            yield Fault("migration", str(number), "differs from the migration this version of backread runs")
        if stored != migration_sum(number, name, sha256, applied_us):
            yield Fault("migration", str(number), "the row does not match its checksum")
    for number in known.keys() - seen:
        yield Fault("migration", str(number), "is missing")
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh)
        wanted = _schema(fresh)
    for name in sorted(x for x, _ in wanted ^ _schema(db)):
        yield Fault("schema", name, "differs from the table or index that the migrations make")
    settings = db.execute("SELECT name, value, sum FROM meta").fetchall()
    for name, value, stored in settings:
        if stored != meta_sum(name, value):
            yield Fault("meta", name, "the row does not match its checksum")
    for name in {"secret", "analyzer"} - {row[0] for row in settings}:
        yield Fault("meta", name, "is missing")
    yield from _embedders(db)


def _embedders(db: sqlite3.Connection) -> Iterator[Fault]:
    rows = db.execute("SELECT fingerprint, dimension, active, sum FROM embedders").fetchall()
    for fingerprint, dimension, active, stored in rows:
        if stored != embedder_sum(fingerprint, dimension, active):
            yield Fault("embedder", _shown(fingerprint), "the row does not match its checksum")
    states = Counter(row[2] for row in rows)
    if states[ACTIVE] != min(1, len(rows)):
        yield Fault("embedder", f"{len(rows)} rows", "not exactly one of them is active")
    if states[PREVIOUS] > 1 or states.keys() - {0, ACTIVE, PREVIOUS}:
        yield Fault("embedder", f"{len(rows)} rows", "more than one of them is the previous one, or one is of no kind")


def _schema(db: sqlite3.Connection) -> set[tuple[str, str | None]]:
    return set(db.execute("SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%'"))


def verify_owners(db: sqlite3.Connection) -> Iterator[Fault]:
    """Rows that belong to nobody, which no user's check would meet."""
    nobody = "user_pk NOT IN (SELECT user_pk FROM users)"
    no_corpus = "corpus_pk NOT IN (SELECT corpus_pk FROM corpora)"
    no_embedder = "embedder_pk NOT IN (SELECT embedder_pk FROM embedders)"
    owned = (
        ("turn", "turns", nobody),
        ("session", "sessions", nobody),
        ("entry", "entries", nobody),
        ("corpus", "corpora", nobody),
        ("state", "strategy_states", nobody),
        ("rebuild", "rebuilds", nobody),
        ("posting", "postings", no_corpus),
        ("vector", "vector_blocks", f"{no_corpus} OR {no_embedder}"),
        ("progress", "vector_progress", f"{no_corpus} OR {no_embedder}"),
        ("link", "links", "entry_doc NOT IN (SELECT doc FROM entries)"),
        ("reply", "replies", nobody),
        ("reply", "reply_turns", "reply_pk NOT IN (SELECT reply_pk FROM replies)"),
    )
    for kind, table, orphan in owned:
        count = db.execute(f"SELECT count(*) FROM {table} WHERE {orphan}").fetchone()[0]
        if count:
            yield Fault(kind, f"{count} rows", "belong to nothing that exists")


def read_users(db: sqlite3.Connection, user_id: bytes | None, into: list[tuple[int, bytes]]) -> Iterator[Fault]:
    """Collect (user_pk, user_id) of one user or of everyone, as far as they can be read."""
    where, values = ("", ()) if user_id is None else (" WHERE user_id = ?", (user_id,))
    into.extend(db.execute(f"SELECT user_pk, user_id FROM users{where}", values).fetchall())
    yield from ()


class _UserCheck:
    """The checks of one user, with what they share."""

    def __init__(self, db: sqlite3.Connection, secret: bytes, user_pk: int, user_id: bytes) -> None:
        self.db, self.secret, self.user_pk, self.user_id = db, secret, user_pk, user_id
        self.who = repr(_shown(user_id))
        self.corpora: dict[int, str] = {}
        self.expected: list[tuple[int, int, int, int]] = []
        self.docs: dict[int, set[int]] = {}
        self.embeddable: dict[int, set[int]] = {}
        self.counts: dict[str, int] = {}
        self.unnamed: set[str] = set()  # ids of turns that were numbered, because they came without an id
        # By session: earliest said_us, stored_us of the first turn, sort_us of the last one.
        self.session_facts: dict[int, tuple[int | None, int, int]] = {}

    def user(self) -> Iterator[Fault]:
        for pk, name in self.db.execute("SELECT corpus_pk, name FROM corpora WHERE user_pk = ?", (self.user_pk,)):
            self.corpora[pk] = _shown(name)
        (appended,) = self.db.execute("SELECT appended FROM users WHERE user_pk = ?", (self.user_pk,)).fetchone()
        yield from self.turns()
        # The next turn without an id is named by this number; were it too low, the name would be taken.
        for number in range(appended):
            if not self.unnamed:
                break
            self.unnamed.discard(turn_name(self.user_id, None, number))
        if self.unnamed or appended < self.counts.get("turns", 0):
            yield Fault("user", self.who, "has more turns than were ever appended")
        if self.counts.get("turns") and TURNS not in self.corpora.values():
            yield Fault("corpus", f"{TURNS} of user {self.who}", "is missing")

    def turns(self) -> Iterator[Fault]:
        cursor = self.db.execute(
            "SELECT t.*, s.session_id, o.turn_id AS supersedes_id FROM turns t"
            " LEFT JOIN sessions s ON s.session_pk = t.session_pk AND s.user_pk = t.user_pk"
            " LEFT JOIN turns o ON o.doc = t.supersedes WHERE t.user_pk = ? ORDER BY t.session_pk, t.doc",
            (self.user_pk,),
        )
        names = [column[0] for column in cursor.description]
        corpus = next((pk for pk, name in self.corpora.items() if name == TURNS), 0)
        hasher = TermHasher(self.secret, self.user_id, TURNS)
        session, last = 0, FIRST
        for values in cursor:
            row = dict(zip(names, values, strict=True))
            self.counts["turns"] = self.counts.get("turns", 0) + 1
            if row["session_pk"] != session:
                session, last = row["session_pk"], FIRST
            last = sort_after(last, row["said_us"], row["zone_known"])
            said, stored, _ = self.session_facts.get(session, (None, row["stored_us"], last))
            earliest = min((at for at in (said, row["said_us"]) if at is not None), default=None)
            self.session_facts[session] = (earliest, stored, last)
            yield from self._turn(row, last, corpus, hasher)

    def _turn(self, row: dict[str, Any], sort_us: int, corpus: int, hasher: TermHasher) -> Iterator[Fault]:
        name = f"{row['turn_id']} of user {self.who}"
        if row["session_id"] is None:
            yield Fault("turn", name, "belongs to a session that does not exist")
            return
        if row["supersedes"] is not None and row["supersedes_id"] is None:
            yield Fault("turn", name, "supersedes a turn that does not exist")
        if row["sum"] != turn_sum(self.user_id, row["session_id"], row, row["supersedes_id"]):
            yield Fault("turn", name, "the turn does not match its checksum")
        elif row["external_id"] is None:
            self.unnamed.add(row["turn_id"])
        try:
            parts = [dec(row[part]) for part in ("speaker", "text", "caption")]
        except UnicodeDecodeError as error:
            yield Fault("turn", name, f"the text is not UTF-8: {error.reason}")
            return
        terms, length = index_terms(indexed_text(*parts))
        if (row["sort_us"], row["length"], row["cues"]) != (sort_us, length, turn_cues(parts[1])):
            yield Fault("turn", name, "its place in the session, its length or its cues differ from what the turn says")
        self._expect(corpus, row["doc"], hash_terms(terms, hasher), passage_text(parts[1], parts[2]))

    def _expect(self, corpus: int, doc: int, terms: dict[int, int], text: str) -> None:
        self.docs.setdefault(corpus, set()).add(doc)
        if text.strip():
            self.embeddable.setdefault(corpus, set()).add(doc)
        self.expected.extend((corpus, term, doc, tf) for term, tf in terms.items())

    def sessions(self) -> Iterator[Fault]:
        rows = self.db.execute(
            "SELECT session_pk, session_id, order_us, dated, last_sort_us FROM sessions WHERE user_pk = ?",
            (self.user_pk,),
        )
        for session_pk, session_id, order_us, dated, last_sort_us in rows:
            self.counts["sessions"] = self.counts.get("sessions", 0) + 1
            name = f"{_shown(session_id)!r} of user {self.who}"
            facts = self.session_facts.get(session_pk)
            if facts is None:
                yield Fault("session", name, "has no turns")
                continue
            said, stored, last = facts
            if (order_us, dated, last_sort_us) != (stored if said is None else said, said is not None, last):
                yield Fault("session", name, "its place in the history differs from what its turns say")

    def entries(self) -> Iterator[Fault]:
        versions: dict[bytes, int] = dict(
            self.db.execute("SELECT strategy, version FROM strategy_states WHERE user_pk = ?", (self.user_pk,))
        )
        cursor = self.db.execute("SELECT * FROM entries WHERE user_pk = ?", (self.user_pk,))
        names = [column[0] for column in cursor.description]
        for values in cursor.fetchall():
            row = dict(zip(names, values, strict=True))
            self.counts["entries"] = self.counts.get("entries", 0) + 1
            name = f"{_shown(row['strategy'])}/{_shown(row['entry_id'])} of user {self.who}"
            yield from self._links(row, name)
            if row["sum"] != entry_sum(self.user_id, row):
                yield Fault("entry", name, "the entry does not match its checksum")
            try:
                terms, length = index_terms(dec(row["index_text"]))
            except UnicodeDecodeError as error:
                yield Fault("entry", name, f"the text is not UTF-8: {error.reason}")
                continue
            if row["length"] != length:
                yield Fault("entry", name, "its length differs from what its text says")
            if self.corpora.get(row["corpus_pk"]) != entry_corpus(_shown(row["strategy"]), _shown(row["kind"])):
                yield Fault("entry", name, "is not in the corpus of its strategy and kind")
            if row["version"] > versions.get(row["strategy"], 0):
                yield Fault("entry", name, "is of a later version than its strategy has reached")
            hasher = TermHasher(self.secret, self.user_id, self.corpora.get(row["corpus_pk"], ""))
            self._expect(row["corpus_pk"], row["doc"], hash_terms(terms, hasher), dec(row["index_text"]))

    def _links(self, row: dict[str, Any], name: str) -> Iterator[Fault]:
        links = self.db.execute(
            "SELECT number, turn_doc, start, end, links.sum, turns.user_pk FROM links"
            " LEFT JOIN turns ON turns.doc = turn_doc WHERE entry_doc = ?",
            (row["doc"],),
        ).fetchall()
        row["links"] = len(links)
        for number, turn_doc, start, end, stored, owner in links:
            self.counts["links"] = self.counts.get("links", 0) + 1
            if stored != link_sum(row["doc"], number, turn_doc, start, end):
                yield Fault("link", f"{number} of {name}", "the link does not match its checksum")
            if owner != self.user_pk:
                yield Fault("link", f"{number} of {name}", "names a turn that is not one of this user's")

    def states(self) -> Iterator[Fault]:
        rows = self.db.execute(
            "SELECT strategy, version, state, sum FROM strategy_states WHERE user_pk = ?", (self.user_pk,)
        )
        for strategy, version, state, stored in rows:
            if stored != state_sum(self.user_id, strategy, version, state):
                yield Fault("state", f"{_shown(strategy)} of user {self.who}", "the row does not match its checksum")
        rows = self.db.execute(
            "SELECT strategy, turn_doc FROM rebuilds r WHERE user_pk = ?1 AND"
            " (turn_doc NOT IN (SELECT doc FROM turns WHERE user_pk = ?1)"
            " OR strategy NOT IN (SELECT strategy FROM strategy_states WHERE user_pk = ?1))",
            (self.user_pk,),
        )
        for strategy, doc in rows:
            name = f"turn {doc} for {_shown(strategy)} of user {self.who}"
            yield Fault("rebuild", name, "names a turn or a strategy that does not exist")

    def replies(self) -> Iterator[Fault]:
        rows = self.db.execute(
            "SELECT reply_pk, key, any_turn, created_us, reply, sum FROM replies WHERE user_pk = ?", (self.user_pk,)
        ).fetchall()
        for pk, key, any_turn, created_us, reply, stored in rows:
            self.counts["replies"] = self.counts.get("replies", 0) + 1
            name = f"{_shown(key)} of user {self.who}"
            turns = self.db.execute(
                "SELECT turn_doc, user_pk FROM reply_turns LEFT JOIN turns ON doc = turn_doc WHERE reply_pk = ?"
                " ORDER BY turn_doc",
                (pk,),
            ).fetchall()
            docs = [doc for doc, _ in turns]
            if stored != reply_sum(self.user_id, key, any_turn, created_us, reply.encode(), docs):
                yield Fault("reply", name, "the reply does not match its checksum")
            if any(owner != self.user_pk for _, owner in turns):
                yield Fault("reply", name, "rests on a turn that is not one of this user's")

    def postings(self) -> Iterator[Fault]:
        expected = np.array(self.expected, dtype=_POSTING)
        rows = self.db.execute(
            "SELECT p.corpus_pk, p.term, p.doc, p.tf FROM corpora c JOIN postings p USING(corpus_pk)"
            " WHERE c.user_pk = ?",
            (self.user_pk,),
        ).fetchall()
        stored = np.array(rows, dtype=_POSTING)
        self.counts["postings"] = len(stored)
        missing, extra = np.setdiff1d(expected, stored), np.setdiff1d(stored, expected)
        for rows_, what in ((missing, "is missing or wrong"), (extra, "is not what the text says")):
            for corpus, term, doc, _ in rows_[:20].tolist():
                where = f"term {term & (2**64 - 1):016x} of {self.corpora.get(corpus, '?')} {doc} of user {self.who}"
                yield Fault("posting", where, what)
            if len(rows_) > 20:
                yield Fault("posting", f"user {self.who}", f"{len(rows_) - 20} more of the same kind")

    def vectors(self) -> Iterator[Fault]:
        progress = {}
        for corpus, embedder, doc, offset, stored in self.db.execute(
            "SELECT p.* FROM vector_progress p JOIN corpora USING(corpus_pk) WHERE user_pk = ?", (self.user_pk,)
        ).fetchall():
            progress[corpus, embedder] = (doc, offset)
            if stored != progress_sum(corpus, embedder, doc, offset):
                name = f"{self.corpora.get(corpus, '?')} of user {self.who}"
                yield Fault("progress", name, "the row does not match its checksum")
        held: dict[tuple[int, int], Counter[int]] = {key: Counter() for key in progress}
        blocks = self.db.execute(
            "SELECT block_pk, corpus_pk, embedder_pk, capacity, dimension, docs, sums, data FROM vector_blocks"
            " LEFT JOIN embedders USING(embedder_pk)"
            " WHERE corpus_pk IN (SELECT corpus_pk FROM corpora WHERE user_pk = ?)",
            (self.user_pk,),
        )
        for block_pk, corpus, embedder, capacity, dimension, docs, sums, data in blocks:
            name = f"block {block_pk} of user {self.who}"
            if [len(docs), len(sums), len(data)] != [8 * capacity, 8 * capacity, 4 * capacity * (dimension or 0)]:
                yield Fault("vector", name, "its size is not that of its rows")
                continue
            scope = vector_scope(self.db, corpus, embedder)
            yield from self._block(name, corpus, scope, docs, sums, data)
            held.setdefault((corpus, embedder), Counter()).update(np.frombuffer(docs, dtype="<i8").tolist())
        for (corpus, embedder), docs_held in held.items():
            yield from self._coverage(corpus, docs_held, progress.get((corpus, embedder), (0, 0)))

    def _block(self, block: str, corpus: int, scope: bytes, docs: bytes, sums: bytes, data: bytes) -> Iterator[Fault]:
        ids: NDArray[np.int64] = np.frombuffer(docs, dtype="<i8")
        size = len(data) // max(1, len(ids))
        for row, doc in enumerate(ids.tolist()):
            name = f"row {row} of {block}"
            vector, stored = data[row * size : (row + 1) * size], sums[row * 8 : (row + 1) * 8]
            if doc == 0:
                if any(vector) or any(stored):
                    yield Fault("vector", name, "a free row is not empty")
                continue
            self.counts["vectors"] = self.counts.get("vectors", 0) + 1
            if stored != row_sum(scope, doc, vector):
                yield Fault("vector", name, "the vector does not match its checksum")
            if doc not in self.docs.get(corpus, ()):
                yield Fault("vector", name, "belongs to a turn or entry that does not exist")

    def _coverage(self, corpus: int, held: Counter[int], reached: tuple[int, int]) -> Iterator[Fault]:
        doc, offset = reached
        name = f"{self.corpora.get(corpus, '?')} of user {self.who}"
        beyond = sum(1 for other in held if other > doc)
        if beyond:
            yield Fault("progress", name, f"units with vectors beyond it: {beyond}")
        if (held[doc] > 0) != (offset > 0) and doc in self.docs.get(corpus, ()):
            yield Fault(
                "progress", name, f"the unit it stands at has {held[doc]} vectors, {offset} characters are done"
            )
        due = {other for other in self.embeddable.get(corpus, ()) if other < doc} - held.keys()
        if due:
            yield Fault("progress", name, f"units without vectors below it: {len(due)}")
        table = "turns" if self.corpora.get(corpus) == TURNS else "entries"
        last = self.db.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        newest = last[0] if last else 0
        if doc < 0 or offset < 0 or doc > newest + 1 or (offset and doc > newest):
            yield Fault("progress", name, "is a place that was never reached")


def verify_user(
    db: sqlite3.Connection, secret: bytes, user_pk: int, user_id: bytes
) -> tuple[list[Fault], dict[str, int]]:
    """All faults of one user, and what was checked."""
    check = _UserCheck(db, secret, user_pk, user_id)
    parts = (check.user, check.sessions, check.entries, check.states, check.replies, check.postings, check.vectors)
    faults = [fault for part in parts for fault in guarded(f"{part.__name__} of user {check.who}", part())]
    return faults, check.counts
