"""Reading turns and sessions of one user from the SQLite store, each row proved before it is given out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime

import numpy as np

from backread.store.agreement import agree_on_ids
from backread.store.layout import UNKNOWN_TIME, Layout
from backread.store.rows import TURN_COLUMNS, DamagedRowError, enc, from_us, proved, turn_from_row
from backread.store.turns import wire_id
from backread.types import Session, Turn

__all__ = ["docs_of", "read_sessions", "read_turns", "text_bytes"]

_TURN = f"SELECT {TURN_COLUMNS} FROM turns t JOIN sessions s USING(session_pk) WHERE t.doc = ?"
# Joined with itself: the id is looked up in an index, and read from the table.
_DOC = (
    "SELECT i.doc, t.turn_id, t.external_id FROM turns i LEFT JOIN turns t ON t.doc = i.doc"
    " WHERE i.user_pk = ?1 AND (i.turn_id = ?2 OR i.external_id = ?3) ORDER BY i.turn_id = ?2 DESC"
)
_SIZE = (
    "SELECT length(text) + coalesce(length(caption), 0) + coalesce(length(CAST(attachments AS BLOB)), 0)"
    " FROM turns WHERE doc = ?"
)


def read_turns(db: sqlite3.Connection, layout: Layout, user_id: str, docs: Sequence[int]) -> list[Turn]:
    """The turns of `docs` that are in the layout, in the order given."""
    owner = enc(user_id) or b""
    rows = layout.rows(np.array(docs, dtype=np.int64))
    starts = np.searchsorted(layout.session, np.arange(len(layout.session_ids)))
    return [
        turn_from_row(db.execute(_TURN, (doc,)).fetchone(), int(row - starts[layout.session[row]]), owner)
        for doc, row in zip(docs, rows.tolist(), strict=True)
        if row >= 0
    ]


def text_bytes(db: sqlite3.Connection, docs: Iterable[int]) -> list[int]:
    """Bytes of text, caption and attachments of each of `docs`, 0 for one that is gone; reads none of them."""
    found = (db.execute(_SIZE, (doc,)).fetchone() for doc in docs)
    return [row[0] if row and isinstance(row[0], int) else 0 for row in found]


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
