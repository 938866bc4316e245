"""Reading turns, sessions and counts from the SQLite store, proved before they are given out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from backread.arrays import np
from backread.store.agreement import agree_on_corpora, agree_on_ids, agree_on_turns, agree_on_users
from backread.store.attachment_names import AttachmentNames
from backread.store.base import TURNS, TurnSize
from backread.store.layout import UNKNOWN_TIME, Layout
from backread.store.rows import (
    TURN_BYTES,
    TURN_COLUMNS,
    TURN_WORDS,
    WORD_BYTES,
    DamagedRowError,
    dec,
    enc,
    from_us,
    named_attachment,
    of_kinds,
    proved,
    turn_from_columns,
    turn_from_row,
    words_of,
)
from backread.store.turns import wire_id
from backread.types import Attachments, Session, Turn

__all__ = [
    "corpora_of",
    "count_all",
    "count_from",
    "count_user",
    "docs_of",
    "read_sessions",
    "read_turns",
    "read_users",
    "size_of",
    "turn_sizes",
]

_TURN = f"SELECT {TURN_COLUMNS} FROM turns t JOIN sessions s USING(session_pk) WHERE t.doc = ?"
# `IS NULL` would read the attachments, `typeof` doesn't.
_WORDS = f"SELECT {TURN_WORDS}, typeof(t.attachments) FROM turns t JOIN sessions s USING(session_pk) WHERE t.doc = ?"
# Joined with itself: the id is looked up in an index, and read from the table.
_DOC = (
    "SELECT i.doc, t.turn_id, t.external_id FROM turns i LEFT JOIN turns t ON t.doc = i.doc"
    " WHERE i.user_pk = ?1 AND (i.turn_id = ?2 OR i.external_id = ?3) ORDER BY i.turn_id = ?2 DESC"
)
_HAS_SESSION = "EXISTS (SELECT 1 FROM sessions s WHERE s.user_pk = u.user_pk)"


def read_turns(
    db: sqlite3.Connection,
    layout: Layout,
    user_id: str,
    docs: Sequence[int],
    attachments: Attachments,
    names: AttachmentNames,
) -> list[Turn]:
    """The turns of `docs` that are in the layout, in the order given, each proved."""
    owner = enc(user_id) or b""
    rows = layout.rows(np.array(docs, dtype=np.int64))
    starts = np.searchsorted(layout.session, np.arange(len(layout.session_ids)))
    read = _whole_turn if attachments == "full" else _named_turn
    turns = [
        read(db, doc, int(row - starts[layout.session[row]]), owner, names)
        for doc, row in zip(docs, rows.tolist(), strict=True)
        if row >= 0
    ]
    if attachments == "none":
        return [replace(turn, attachments=()) if turn.attachments else turn for turn in turns]
    return turns


def _whole_turn(db: sqlite3.Connection, doc: int, position: int, owner: bytes, names: AttachmentNames) -> Turn:
    return turn_from_row(db.execute(_TURN, (doc,)).fetchone(), position, owner)


def _named_turn(db: sqlite3.Connection, doc: int, position: int, owner: bytes, names: AttachmentNames) -> Turn:
    """A turn with the names of its attachments, which are read only where it wasn't proved yet in this process."""
    found = db.execute(_WORDS, (doc,)).fetchone()
    if found is None or found[-1] == "null":
        return turn_from_row(None if found is None else found[:-1], position, owner)
    columns, words = words_of(found[:-1], owner)
    known = names.get(columns["sum"], words)
    if known is None:
        turn = _whole_turn(db, doc, position, owner, names)
        known = tuple(map(named_attachment, turn.attachments))
        names.put(columns["sum"], words, known)
    return turn_from_columns(columns, position, known)


def turn_sizes(db: sqlite3.Connection, user_pk: int, docs: Iterable[int], attachments: Attachments) -> list[TurnSize]:
    """Ids and sizes of the turns of `docs` that are there, in that order.

    Raises:
        DamagedRowError: an id or a size is none.
    """
    size = TURN_BYTES if attachments == "full" else WORD_BYTES
    sql = f"SELECT t.doc, t.turn_id, {size} FROM turns t WHERE t.doc = ? AND t.user_pk = ?"
    rows = [row for doc in docs if (row := db.execute(sql, (doc, user_pk)).fetchone())]
    if not all(of_kinds(row, (int, str, int)) for row in rows):
        raise DamagedRowError("a turn has a value of the wrong type")
    return [TurnSize(*row) for row in rows]


def docs_of(db: sqlite3.Connection, user_pk: int, turn_ids: Iterable[str]) -> dict[str, int]:
    """turn_id or external_id -> doc for those that exist; a turn id wins over an equal external id.

    Raises:
        DamagedRowError: an index leads to another turn, or doesn't have all ids of this user.
    """
    found: dict[str, int] = {}
    proved = False
    for name in turn_ids:
        row = db.execute(_DOC, (user_pk, wire_id(name), enc(name))).fetchone()
        if row is None:
            if not proved:
                agree_on_ids(db, user_pk)
            proved = True
        elif row[1] == name or row[2] == enc(name):
            found[name] = row[0]
        else:
            raise DamagedRowError(f"turn {name!r} differs between the table of turns and its index")
    return found


def read_sessions(db: sqlite3.Connection, layout: Layout, user_id: str) -> list[Session]:
    """All sessions in history order; of each, only the turns said first and last are read."""
    known = layout.said_us != UNKNOWN_TIME
    counts = np.bincount(layout.session, minlength=len(layout.session_ids)).tolist()
    order = np.lexsort((layout.said_us, layout.session))
    order = order[known[order]]
    codes = np.arange(len(layout.session_ids))
    first = np.searchsorted(layout.session[order], codes, "left").tolist()
    last = np.searchsorted(layout.session[order], codes, "right").tolist()
    docs = layout.docs[order].tolist()
    owner = enc(user_id) or b""

    def said_at(place: int) -> datetime | None:
        columns = proved(db.execute(_TURN, (docs[place],)).fetchone(), owner)
        return from_us(columns["said_us"], columns["said_offset"])

    return [
        Session(session_id, turns, said_at(start), said_at(end - 1))
        if end > start
        else Session(session_id, turns, None, None)
        for session_id, turns, start, end in zip(layout.session_ids, counts, first, last, strict=True)
    ]


def read_users(db: sqlite3.Connection) -> list[str]:
    """Ids of the users that have a turn, in order; a row for each user, none for each session.

    Raises:
        DamagedRowError: the table of users and its index differ.
    """
    agree_on_users(db)
    rows = db.execute(f"SELECT user_id FROM users u WHERE {_HAS_SESSION}").fetchall()
    return sorted(dec(row[0]) for row in rows)


def corpora_of(db: sqlite3.Connection, user_pk: int | None) -> list[tuple[int, bytes, int, str]]:
    """(user_pk, user_id, corpus_pk, name) of the corpora of one user, or of everyone for None, by user and name."""
    where, values = ("", ()) if user_pk is None else (" WHERE c.user_pk = ?", (user_pk,))
    rows = db.execute(
        f"SELECT c.user_pk, user_id, corpus_pk, name FROM corpora c JOIN users USING(user_pk){where}"
        " ORDER BY user_id, name",
        values,
    )
    return [(pk, owner, corpus_pk, dec(name)) for pk, owner, corpus_pk, name in rows]


def count_from(db: sqlite3.Connection, user_pk: int, corpus_pk: int, corpus: str, doc: int) -> int:
    """Units of a corpus from `doc` on."""
    if corpus == TURNS:
        return _count(db, "turns INDEXED BY turns_layout WHERE user_pk = ? AND doc >= ?", user_pk, doc)
    return _count(db, "entries INDEXED BY entries_corpus WHERE corpus_pk = ? AND doc >= ?", corpus_pk, doc)


def size_of(db: sqlite3.Connection, user_pk: int) -> tuple[int, int]:
    """Sessions and turns of one user; their own rows are visited, no one else's."""
    return (
        _count(db, "sessions WHERE user_pk = ?", user_pk),
        _count(db, "turns INDEXED BY turns_layout WHERE user_pk = ?", user_pk),
    )


def count_user(db: sqlite3.Connection, user_pk: int) -> dict[str, int]:
    """The counts of `Stats` of one user; their own rows are visited, no one else's.

    Raises:
        DamagedRowError: a table and its index differ.
    """
    agree_on_turns(db, user_pk, 0)
    agree_on_corpora(db, user_pk)
    corpora = [corpus_pk for _, _, corpus_pk, _ in corpora_of(db, user_pk)]
    sessions, turns = size_of(db, user_pk)
    return {
        "users": _count(db, "users WHERE user_pk = ? AND EXISTS (SELECT 1 FROM sessions WHERE user_pk = ?1)", user_pk),
        "sessions": sessions,
        "turns": turns,
        "entries": _count(db, "entries WHERE user_pk = ?", user_pk),
        "postings": sum(_count(db, "postings WHERE corpus_pk = ?", corpus_pk) for corpus_pk in corpora),
        "vectors": sum(_vectors(db, " WHERE corpus_pk = ?", corpus_pk) for corpus_pk in corpora),
    }


def count_all(db: sqlite3.Connection) -> dict[str, int]:
    """The counts of `Stats` of everyone.

    Raises:
        DamagedRowError: a table and its index differ.
    """
    agree_on_users(db)
    counts = {}
    for table, one, other in (
        ("sessions", "INDEXED BY sqlite_autoindex_sessions_1", "NOT INDEXED"),
        ("turns", "INDEXED BY turns_layout", "INDEXED BY sqlite_autoindex_turns_1"),
        ("entries", "INDEXED BY entries_corpus", "INDEXED BY sqlite_autoindex_entries_1"),
    ):
        counts[table] = _count(db, f"{table} {one}")
        if counts[table] != _count(db, f"{table} {other}"):
            raise DamagedRowError(f"{table} differ in number between the table and its indexes")
    users = _count(db, f"users u WHERE {_HAS_SESSION}")
    return {"users": users, **counts, "postings": _count(db, "postings"), "vectors": _vectors(db, "")}


def _count(db: sqlite3.Connection, rows: str, *values: int) -> int:
    total: int = db.execute(f"SELECT count(*) FROM {rows}", values).fetchone()[0]
    return total


def _vectors(db: sqlite3.Connection, where: str, *values: int) -> int:
    total = 0
    for block_pk, docs in db.execute(f"SELECT block_pk, docs FROM vector_blocks{where}", values):
        if not isinstance(docs, bytes) or len(docs) % 8:
            raise DamagedRowError(f"block {block_pk} of vectors has not the size of its rows")
        total += int(np.count_nonzero(np.frombuffer(docs, dtype="<i8")))
    return total
