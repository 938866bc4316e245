"""Erasing turns from the SQLite store with all that is derived from them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from backread.store.base import TURNS
from backread.store.entries import SHOWN, drop_entries, set_state
from backread.store.indexing import TermHasher, indexed_text
from backread.store.replies import drop_replies, drop_replies_on
from backread.store.rows import FIRST, dec, enc, sort_after
from backread.store.states import without_sessions
from backread.store.turns import find_corpus, hash_terms, link, wire_id
from backread.store.vectors import erase_vectors
from backread.text.analysis import index_terms
from backread.types import DeleteReceipt

__all__ = ["erase"]


def erase(
    db: sqlite3.Connection,
    secret: bytes,
    user: tuple[int, str],
    turn_ids: Sequence[str] | None,
    session_id: str | None,
) -> DeleteReceipt:
    """Erase in the open transaction; see `TurnStore.delete`."""
    user_pk, user_id = user
    if turn_ids is None and session_id is None:
        return _erase_user(db, user_pk, user_id)
    docs = _selected(db, user_pk, turn_ids, session_id)
    sessions = {_one(db, "SELECT session_pk FROM turns WHERE doc = ?", doc) for doc in docs}
    corpus = find_corpus(db, user_id, TURNS) or 0
    hasher = TermHasher(secret, enc(user_id) or b"", TURNS)
    postings = sum(_erase_postings(db, hasher, corpus, doc) for doc in docs)
    vectors = erase_vectors(db, corpus, docs)
    entries, waiting = _erase_entries_on(db, user_pk, docs)
    drop_replies_on(db, user_pk, docs)
    _bridge_chains(db, user_pk, enc(user_id) or b"", docs)
    db.executemany("DELETE FROM turns WHERE doc = ?", [(doc,) for doc in docs])
    names = {pk: dec(_one(db, "SELECT session_id FROM sessions WHERE session_pk = ?", pk)) for pk in sessions}
    gone = [names[session_pk] for session_pk in sorted(sessions) if _settle_session(db, user_pk, session_pk)]
    _settle_states(db, user_pk, enc(user_id) or b"", gone)
    db.execute("UPDATE users SET version = version + 1 WHERE user_pk = ?", (user_pk,))
    return DeleteReceipt(user_id, len(docs), len(gone), entries, postings, vectors, waiting)


def _one(db: sqlite3.Connection, sql: str, key: int) -> Any:  # noqa: ANN401 -- a column of any type
    return db.execute(sql, (key,)).fetchone()[0]


def _selected(
    db: sqlite3.Connection, user_pk: int, turn_ids: Sequence[str] | None, session_id: str | None
) -> list[int]:
    if turn_ids is None:
        rows = db.execute(
            "SELECT doc FROM turns JOIN sessions USING(session_pk) WHERE turns.user_pk = ? AND session_id = ?",
            (user_pk, enc(session_id)),
        ).fetchall()
        return [row[0] for row in rows]
    docs: dict[int, None] = {}
    for turn_id in turn_ids:
        row = db.execute(
            "SELECT doc FROM turns JOIN sessions USING(session_pk) WHERE turns.user_pk = ?1"
            " AND (turn_id = ?2 OR external_id = ?3) AND (?4 IS NULL OR session_id = ?4) ORDER BY turn_id = ?2 DESC",
            (user_pk, wire_id(turn_id), enc(turn_id), enc(session_id)),
        ).fetchone()
        if row:
            docs[row[0]] = None
    return list(docs)


def _erase_user(db: sqlite3.Connection, user_pk: int, user_id: str) -> DeleteReceipt:
    def delete(sql: str) -> int:
        return db.execute(sql, (user_pk,)).rowcount

    corpora = "(SELECT corpus_pk FROM corpora WHERE user_pk = ?)"
    vectors = sum(
        erase_vectors(db, corpus_pk, _vector_docs(db, corpus_pk))
        for (corpus_pk,) in db.execute("SELECT corpus_pk FROM corpora WHERE user_pk = ?", (user_pk,)).fetchall()
    )
    postings = delete(f"DELETE FROM postings WHERE corpus_pk IN {corpora}")
    delete(f"DELETE FROM vector_progress WHERE corpus_pk IN {corpora}")
    delete("DELETE FROM links WHERE entry_doc IN (SELECT doc FROM entries WHERE user_pk = ?)")
    entries = delete("DELETE FROM entries WHERE user_pk = ?")
    drop_replies(db, user_pk)
    turns = delete("DELETE FROM turns WHERE user_pk = ?")
    sessions = delete("DELETE FROM sessions WHERE user_pk = ?")
    for table in ("corpora", "strategy_states", "rebuilds", "users"):
        delete(f"DELETE FROM {table} WHERE user_pk = ?")
    return DeleteReceipt(user_id, turns, sessions, entries, postings, vectors, 0)


def _vector_docs(db: sqlite3.Connection, corpus_pk: int) -> list[int]:
    rows = db.execute("SELECT docs FROM vector_blocks WHERE corpus_pk = ?", (corpus_pk,)).fetchall()
    return [int.from_bytes(row[0][at : at + 8], "little") for row in rows for at in range(0, len(row[0]), 8)]


def _erase_postings(db: sqlite3.Connection, hasher: TermHasher, corpus_pk: int, doc: int) -> int:
    """Delete a turn's postings by key: finding them by doc would read the whole corpus."""
    speaker, text, caption = db.execute("SELECT speaker, text, caption FROM turns WHERE doc = ?", (doc,)).fetchone()
    terms, _ = index_terms(indexed_text(dec(speaker), dec(text), dec(caption)))
    keys = [(corpus_pk, term, doc) for term in hash_terms(terms, hasher)]
    return db.executemany("DELETE FROM postings WHERE corpus_pk = ? AND term = ? AND doc = ?", keys).rowcount


def _erase_entries_on(db: sqlite3.Connection, user_pk: int, docs: Sequence[int]) -> tuple[int, int]:
    """Drop every entry that rests on one of `docs` or whose model saw it, and note its other sources for rebuilding."""
    gone = set(docs)
    hit: dict[int, bytes] = {}
    for doc in docs:
        rows = db.execute(
            "SELECT entry_doc, strategy FROM links JOIN entries ON entries.doc = entry_doc WHERE turn_doc = ?", (doc,)
        )
        hit.update(rows.fetchall())
    waiting: set[tuple[bytes, int]] = set()
    for entry, strategy in hit.items():
        # Turns that were only shown have entries of their own.
        cited = "SELECT turn_doc FROM links WHERE entry_doc = ? AND end IS NOT ?"
        sources = db.execute(cited, (entry, SHOWN)).fetchall()
        waiting.update((strategy, turn) for (turn,) in sources if turn not in gone)
    dropped = drop_entries(db, hit)
    db.executemany("DELETE FROM rebuilds WHERE user_pk = ? AND turn_doc = ?", [(user_pk, doc) for doc in docs])
    db.executemany(
        "INSERT OR IGNORE INTO rebuilds VALUES (?, ?, ?)", [(user_pk, strategy, turn) for strategy, turn in waiting]
    )
    return dropped, len({turn for _, turn in waiting})


def _settle_states(db: sqlite3.Connection, user_pk: int, user_id: bytes, gone: Sequence[str]) -> None:
    """Take sessions that are gone out of every strategy's state, and give it a new version.

    Every strategy that was building on the record must look again, not only those whose entries were hit.
    """
    states = db.execute("SELECT strategy, version, state FROM strategy_states WHERE user_pk = ?", (user_pk,)).fetchall()
    for strategy, version, state in states:
        set_state(db, user_pk, user_id, strategy, version + 1, without_sessions(state, gone))


def _bridge_chains(db: sqlite3.Connection, user_pk: int, user_id: bytes, docs: Sequence[int]) -> None:
    """Chains of corrections stay whole: what replaced an erased turn replaces what that one had replaced.

    Where it had replaced nothing, the oldest of those that replaced it is what the others replace.
    """
    for doc in docs:
        newer = db.execute(
            "SELECT doc FROM turns WHERE user_pk = ? AND supersedes = ? ORDER BY said_us IS NOT NULL, said_us, doc",
            (user_pk, doc),
        ).fetchall()
        if not newer:
            continue
        (older,) = db.execute("SELECT supersedes FROM turns WHERE doc = ?", (doc,)).fetchone()
        for (other,) in newer:
            link(db, user_id, other, older)
            older = other if older is None else older


def _settle_session(db: sqlite3.Connection, user_pk: int, session_pk: int) -> int:
    """Derive a session's order again after some of its turns went; 1 when it is empty and was removed."""
    turns = db.execute(
        "SELECT doc, said_us, sort_us, stored_us, zone_known FROM turns WHERE user_pk = ? AND session_pk = ?"
        " ORDER BY doc",
        (user_pk, session_pk),
    ).fetchall()
    if not turns:
        db.execute("DELETE FROM sessions WHERE session_pk = ?", (session_pk,))
        return 1
    said = min((turn[1] for turn in turns if turn[1] is not None), default=None)
    last = FIRST
    for doc, said_us, sort_us, _, zone_known in turns:
        last = sort_after(last, said_us, zone_known)
        if last != sort_us:
            db.execute("UPDATE turns SET sort_us = ? WHERE doc = ?", (last, doc))
    db.execute(
        "UPDATE sessions SET order_us = ?, dated = ?, last_sort_us = ? WHERE session_pk = ?",
        (turns[0][3] if said is None else said, said is not None, last, session_pk),
    )
    return 0
