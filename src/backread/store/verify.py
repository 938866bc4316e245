"""Proving a SQLite store: everything is derived again and compared; every fault is named."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backread.store.entries import entry_sum, link_sum, state_sum
from backread.store.indexing import TermHasher, indexed_text, passage_text
from backread.store.migrations import MIGRATIONS, meta_sum, migration_sum
from backread.store.rows import FIRST, dec, turn_sum
from backread.store.turns import hash_terms
from backread.store.vectors import row_sum
from backread.text.analysis import index_terms
from backread.text.cues import turn_cues
from backread.types import Fault

__all__ = ["verify_file", "verify_owners", "verify_schema", "verify_user"]

_POSTING = np.dtype([("corpus", "<i8"), ("term", "<i8"), ("doc", "<i8"), ("tf", "<i8")])


def verify_file(db: sqlite3.Connection) -> Iterator[Fault]:
    """What SQLite itself finds wrong with pages and indexes."""
    for (message,) in db.execute("PRAGMA integrity_check(20)"):
        if message != "ok":
            yield Fault("file", "integrity", message)


def verify_schema(db: sqlite3.Connection) -> Iterator[Fault]:
    """Migrations as this version knows them, and the store's own settings."""
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
    for name, value, stored in db.execute("SELECT name, value, sum FROM meta"):
        if stored != meta_sum(name, value):
            yield Fault("meta", name, "the row does not match its checksum")


def verify_owners(db: sqlite3.Connection) -> Iterator[Fault]:
    """Rows that belong to nobody, which no user's check would meet."""
    owned = {
        "turns": "user_pk NOT IN (SELECT user_pk FROM users)",
        "sessions": "user_pk NOT IN (SELECT user_pk FROM users)",
        "entries": "user_pk NOT IN (SELECT user_pk FROM users)",
        "corpora": "user_pk NOT IN (SELECT user_pk FROM users)",
        "strategy_states": "user_pk NOT IN (SELECT user_pk FROM users)",
        "postings": "corpus_pk NOT IN (SELECT corpus_pk FROM corpora)",
        "vector_blocks": "corpus_pk NOT IN (SELECT corpus_pk FROM corpora)"
        " OR embedder_pk NOT IN (SELECT embedder_pk FROM embedders)",
        "vector_progress": "corpus_pk NOT IN (SELECT corpus_pk FROM corpora)",
        "links": "entry_doc NOT IN (SELECT doc FROM entries)",
    }
    for table, orphan in owned.items():
        count = db.execute(f"SELECT count(*) FROM {table} WHERE {orphan}").fetchone()[0]
        if count:
            yield Fault(table.rstrip("s"), f"{count} rows", "belong to nothing that exists")


class _UserCheck:
    """The checks of one user, with what they share."""

    def __init__(self, db: sqlite3.Connection, secret: bytes, user_pk: int, user_id: bytes) -> None:
        self.db, self.secret, self.user_pk, self.user_id = db, secret, user_pk, user_id
        self.who = repr(dec(user_id))
        self.corpora: dict[int, str] = {
            pk: dec(name)
            for pk, name in db.execute("SELECT corpus_pk, name FROM corpora WHERE user_pk = ?", (user_pk,)).fetchall()
        }
        self.expected: list[tuple[int, int, int, int]] = []
        self.docs: dict[int, set[int]] = {pk: set() for pk in self.corpora}
        self.embeddable: dict[int, set[int]] = {pk: set() for pk in self.corpora}
        self.counts: dict[str, int] = {}

    def turns(self) -> Iterator[Fault]:
        cursor = self.db.execute(
            "SELECT t.*, s.session_id, o.turn_id AS supersedes_id FROM turns t"
            " LEFT JOIN sessions s ON s.session_pk = t.session_pk AND s.user_pk = t.user_pk"
            " LEFT JOIN turns o ON o.doc = t.supersedes WHERE t.user_pk = ? ORDER BY t.session_pk, t.doc",
            (self.user_pk,),
        )
        names = [column[0] for column in cursor.description]
        corpus = next((pk for pk, name in self.corpora.items() if name == "turn"), 0)
        hasher = TermHasher(self.secret, self.user_id, "turn")
        session, last = None, FIRST
        for values in cursor:
            row = dict(zip(names, values, strict=True))
            self.counts["turns"] = self.counts.get("turns", 0) + 1
            if row["session_pk"] != session:
                session, last = row["session_pk"], FIRST
            last = last if row["said_us"] is None else row["said_us"]
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
            "SELECT s.session_id, s.order_us, s.dated, min(t.said_us), min(t.stored_us) FROM sessions s"
            " LEFT JOIN turns t USING(session_pk) WHERE s.user_pk = ? GROUP BY session_pk",
            (self.user_pk,),
        )
        for session_id, order_us, dated, said, stored in rows:
            self.counts["sessions"] = self.counts.get("sessions", 0) + 1
            name = f"{session_id!r} of user {self.who}"
            if stored is None:
                yield Fault("session", name, "has no turns")
            elif (order_us, dated) != (stored if said is None else said, said is not None):
                yield Fault("session", name, "its place in the history differs from what its turns say")

    def entries(self) -> Iterator[Fault]:
        cursor = self.db.execute("SELECT * FROM entries WHERE user_pk = ?", (self.user_pk,))
        names = [column[0] for column in cursor.description]
        for values in cursor.fetchall():
            row = dict(zip(names, values, strict=True))
            self.counts["entries"] = self.counts.get("entries", 0) + 1
            name = f"{dec(row['strategy'])}/{dec(row['entry_id'])} of user {self.who}"
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
                yield Fault("state", f"{dec(strategy)} of user {self.who}", "the row does not match its checksum")

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
        progress = {
            (corpus, embedder): (doc, part)
            for corpus, embedder, doc, part in self.db.execute(
                "SELECT p.* FROM vector_progress p JOIN corpora USING(corpus_pk) WHERE user_pk = ?", (self.user_pk,)
            ).fetchall()
        }
        covered: dict[tuple[int, int], set[int]] = {key: set() for key in progress}
        blocks = self.db.execute(
            "SELECT block_pk, corpus_pk, embedder_pk, docs, sums, data FROM vector_blocks"
            " WHERE corpus_pk IN (SELECT corpus_pk FROM corpora WHERE user_pk = ?)",
            (self.user_pk,),
        )
        for block_pk, corpus, embedder, docs, sums, data in blocks:
            yield from self._block(block_pk, corpus, docs, sums, data)
            covered.setdefault((corpus, embedder), set()).update(np.frombuffer(docs, dtype="<i8").tolist())
        for (corpus, embedder), held in covered.items():
            yield from self._coverage(corpus, held - {0}, progress.get((corpus, embedder), (0, 0)))

    def _block(self, block_pk: int, corpus: int, docs: bytes, sums: bytes, data: bytes) -> Iterator[Fault]:
        ids: NDArray[np.int64] = np.frombuffer(docs, dtype="<i8")
        size = len(data) // max(1, len(ids))
        for row, doc in enumerate(ids.tolist()):
            name = f"row {row} of block {block_pk} of user {self.who}"
            vector, stored = data[row * size : (row + 1) * size], sums[row * 8 : (row + 1) * 8]
            if doc == 0:
                if any(vector) or any(stored):
                    yield Fault("vector", name, "a free row is not empty")
                continue
            self.counts["vectors"] = self.counts.get("vectors", 0) + 1
            if stored != row_sum(doc, vector):
                yield Fault("vector", name, "the vector does not match its checksum")
            if doc not in self.docs.get(corpus, ()):
                yield Fault("vector", name, "belongs to a turn or entry that does not exist")

    def _coverage(self, corpus: int, held: set[int], reached: tuple[int, int]) -> Iterator[Fault]:
        name = f"{self.corpora.get(corpus, '?')} of user {self.who}"
        beyond = [doc for doc in held if doc > reached[0] or (doc == reached[0] and not reached[1])]
        if beyond:
            yield Fault("vector", name, f"{len(beyond)} vectors are beyond the recorded progress")
        due = {doc for doc in self.embeddable.get(corpus, ()) if doc < reached[0]}
        if due - held:
            yield Fault("vector", name, f"{len(due - held)} vectors are missing below the recorded progress")


def verify_user(
    db: sqlite3.Connection, secret: bytes, user_pk: int, user_id: bytes
) -> tuple[list[Fault], dict[str, int]]:
    """All faults of one user, and what was checked."""
    check = _UserCheck(db, secret, user_pk, user_id)
    faults = [
        fault
        for part in (check.turns, check.sessions, check.entries, check.states, check.postings, check.vectors)
        for fault in part()
    ]
    return faults, check.counts
