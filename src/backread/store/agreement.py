"""Comparing what the file says twice: a row in its table and in the indexes over it.

A checksum proves a row that was read. It can't tell that a row was not found, or was taken for out of scope, because an
index is damaged: that index and table agree does. Each function raises `DamagedRowError` when they don't, reads
rows of one user only, and costs about a microsecond a row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from backread.store.rows import DamagedRowError

__all__ = ["agree_on_corpora", "agree_on_entries", "agree_on_ids", "agree_on_turns", "agree_on_users"]

_LAYOUT = ("user_pk", "session_pk", "sort_us", "said_us", "length", "cues", "role", "speaker")


def _compared(table: str, key: str, index: str, columns: Sequence[str], where: str, also: str = "") -> str:
    """SQL for (rows in the index, rows of them that the table knows otherwise)."""
    differs = " OR ".join(f"t.{name} IS NOT i.{name}" for name in columns)
    return (
        f"SELECT count(*), total(t.{key} IS NULL OR {differs}){also} FROM {table} i INDEXED BY {index}"
        f" LEFT JOIN {table} t ON t.{key} = i.{key} WHERE {where}"
    )


_TURNS = _compared(
    "turns",
    "doc",
    "turns_layout",
    _LAYOUT,
    "i.user_pk = ?1 AND i.doc > ?2",
    also=", count(t.supersedes), count(t.external_id)",
)
_TURN_IDS = _compared("turns", "doc", "sqlite_autoindex_turns_1", ("user_pk", "turn_id"), "i.user_pk = ?1")
_EXTERNAL_IDS = _compared(
    "turns", "doc", "turns_external", ("user_pk", "external_id"), "i.user_pk = ?1 AND i.external_id IS NOT NULL"
)
_SUPERSEDES = _compared(
    "turns",
    "doc",
    "turns_supersedes",
    ("user_pk", "supersedes"),
    "i.user_pk = ?1 AND i.supersedes IS NOT NULL AND i.doc > ?2",
)
_COUNTED = "SELECT count(*) FROM turns INDEXED BY {} WHERE user_pk = ?1 AND doc > ?2"
_SESSIONS = _compared(
    "sessions", "session_pk", "sqlite_autoindex_sessions_1", ("user_pk", "session_id"), "i.user_pk = ?1"
)
_CORPORA = _compared("corpora", "corpus_pk", "sqlite_autoindex_corpora_1", ("user_pk", "name"), "i.user_pk = ?1")
_USERS = _compared("users", "user_pk", "sqlite_autoindex_users_1", ("user_id",), "1")
_ENTRIES = _compared(
    "entries", "doc", "entries_corpus", ("corpus_pk", "said_us", "length"), "i.corpus_pk = ?1 AND i.doc > ?2"
)


def _rows(db: sqlite3.Connection, sql: str, values: Sequence[object], what: str) -> tuple[int, ...]:
    """The counts of a comparison."""
    rows, different, *more = db.execute(sql, values).fetchone()
    if different:
        raise DamagedRowError(f"{what} differ between their table and its index")
    return (rows, *more)


def agree_on_turns(db: sqlite3.Connection, user_pk: int, after: int) -> None:
    """Turns of a user from doc `after` on, with their sessions: place, time, length, role, speaker, supersession."""
    values = (user_pk, after)
    rows, superseding, _ = _rows(db, _TURNS, values, "turns")
    if rows != db.execute(_COUNTED.format("sqlite_autoindex_turns_1"), values).fetchone()[0]:
        raise DamagedRowError("turns differ in number between two indexes")
    if (superseding,) != _rows(db, _SUPERSEDES, values, "turns that supersede others"):
        raise DamagedRowError("turns that supersede others are missing from their index")
    _rows(db, _SESSIONS, (user_pk,), "sessions")


def agree_on_ids(db: sqlite3.Connection, user_pk: int) -> None:
    """Turn ids and external ids of a user, so that one that isn't found is not there."""
    _, _, external = _rows(db, _TURNS, (user_pk, 0), "turns")
    _rows(db, _TURN_IDS, (user_pk,), "turn ids")
    if (external,) != _rows(db, _EXTERNAL_IDS, (user_pk,), "external ids"):
        raise DamagedRowError("external ids are missing from their index")


def agree_on_users(db: sqlite3.Connection) -> None:
    """All users, so that one that isn't found was never stored."""
    if _rows(db, _USERS, (), "users") != db.execute("SELECT count(*) FROM users NOT INDEXED").fetchone():
        raise DamagedRowError("users are missing from their index")


def agree_on_corpora(db: sqlite3.Connection, user_pk: int) -> None:
    """The corpora of a user, so that one that isn't found has nothing in it."""
    _rows(db, _CORPORA, (user_pk,), "corpora")
    known = "SELECT corpus_pk FROM corpora WHERE user_pk = ?1"
    held = "SELECT count(*) FROM entries INDEXED BY {} WHERE {}"
    by_corpus = db.execute(held.format("entries_corpus", f"corpus_pk IN ({known})"), (user_pk,)).fetchone()
    if by_corpus != db.execute(held.format("sqlite_autoindex_entries_1", "user_pk = ?1"), (user_pk,)).fetchone():
        raise DamagedRowError("entries differ in number between two indexes")


def agree_on_entries(db: sqlite3.Connection, corpus_pk: int, after: int) -> None:
    """Entries of a corpus from doc `after` on: their times and lengths."""
    _rows(db, _ENTRIES, (corpus_pk, after), "entries")
