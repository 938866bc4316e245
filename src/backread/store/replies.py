"""Replies of chat models in the SQLite store. They may quote the record, so they go with the turns they rest on.

A reply is kept as text; what is in it is the business of `backread.models.stored_replies`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable, Sequence

from backread.errors import NotFoundError
from backread.store.connection import ConnectionPool
from backread.store.rows import DamagedRowError, checksum, enc, of_kinds
from backread.store.scrubbing import SCRUB_WAIT_S, note_erased
from backread.store.turns import require_turn, user_row

__all__ = ["StoredTexts", "drop_replies", "drop_replies_on", "reply_sum"]

_ON_ANY_TURN = "user_pk = ? AND any_turn"


def reply_sum(
    user_id: bytes, key: bytes, any_turn: int, created_us: int, reply: bytes, turn_docs: Iterable[int]
) -> bytes:
    """Checksum of a reply: whose it is, what it says, and the turns it rests on, by doc in ascending order."""
    return checksum((user_id, key, any_turn, created_us, reply, *turn_docs))


class StoredTexts:
    """The replies of one store, by key. Thread-safe; several processes may use the same file.

    Args:
        pool: of the store.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def get(self, key: str) -> str | None:
        """What is kept under `key`, None when there is nothing.

        Raises:
            StoreCorruptError: it isn't as it was kept.
        """
        with self._pool.read() as db:
            row = db.execute(
                "SELECT r.user_pk, reply_pk, u.user_id, key, any_turn, created_us, reply, sum FROM replies r"
                " LEFT JOIN users u ON u.user_pk = r.user_pk WHERE key = ?",
                (enc(key),),
            ).fetchone()
            if row is None:
                return None
            kinds = (int, int, bytes, bytes, int, int, str, bytes)
            docs = db.execute(
                "SELECT turn_doc FROM reply_turns WHERE reply_pk = ? ORDER BY turn_doc", row[1:2]
            ).fetchall()
            values = (*row[2:6], row[6].encode() if isinstance(row[6], str) else b"", [doc for (doc,) in docs])
            if not of_kinds(row, kinds) or row[3] != enc(key) or reply_sum(*values) != row[7]:
                raise DamagedRowError("a kept reply does not match its checksum")
        return str(row[6])

    def put(self, key: str, text: str, *, user_id: str, turn_ids: Collection[str] | None) -> bool:
        """Keep a text, in place of what is there under `key`.

        Args:
            key: of any user; two users must not have the same one.
            text: without lone surrogates, such as JSON in ASCII.
            user_id: whose history it was made of.
            turn_ids: the turns it rests on; None for any turn of the user.

        Returns:
            False, and nothing is changed, when a named turn or the user is not in the record (any more).
        """
        with self._pool.write() as db:
            user = user_row(db, user_id)
            if user is None:
                return False
            try:
                docs = sorted({require_turn(db, user[0], turn_id) for turn_id in turn_ids or ()})
            except NotFoundError:
                return False
            _drop(db, "key = ?", (enc(key),))
            any_turn, now = int(turn_ids is None), time.time_ns() // 1000
            sum_ = reply_sum(enc(user_id) or b"", enc(key) or b"", any_turn, now, text.encode(), docs)
            pk = db.execute(
                "INSERT INTO replies(user_pk, any_turn, created_us, key, sum, reply) VALUES (?, ?, ?, ?, ?, ?)",
                (user[0], any_turn, now, enc(key), sum_, text),
            ).lastrowid
            db.executemany("INSERT INTO reply_turns VALUES (?, ?)", [(pk, doc) for doc in docs])
        return True

    def drop(self, user_id: str, turn_ids: Collection[str] | None = None) -> int:
        """Erase what rests on one of these turns, or everything of the user for None; how many there were.

        What rests on any turn of the user goes with each of them. `TurnStore.delete` does the same by itself.
        Copies that the database made when it moved rows can stay behind until the next scrub.
        """
        with self._pool.write() as db:
            user = user_row(db, user_id)
            if user is None:
                dropped = 0
            elif turn_ids is None:
                dropped = drop_replies(db, user[0])
            else:
                dropped = drop_replies_on(db, user[0], _docs(db, user[0], turn_ids))
                dropped += _drop(db, _ON_ANY_TURN, (user[0],)) if turn_ids else 0
            if dropped:
                note_erased(db, asked=False)
        self._pool.empty_log(SCRUB_WAIT_S)
        return dropped


def _docs(db: sqlite3.Connection, user_pk: int, turn_ids: Iterable[str]) -> list[int]:
    """Docs of the turns that are there; deleted ones took their replies with them."""
    docs = []
    for turn_id in turn_ids:
        try:
            docs.append(require_turn(db, user_pk, turn_id))
        except NotFoundError:
            continue
    return docs


def drop_replies(db: sqlite3.Connection, user_pk: int) -> int:
    """Erase every reply of a user in the open transaction; how many there were."""
    return _drop(db, "user_pk = ?", (user_pk,))


def drop_replies_on(db: sqlite3.Connection, user_pk: int, docs: Sequence[int]) -> int:
    """Erase the replies that rest on one of these turns, or on any turn of the user; how many there were."""
    if not docs:
        return 0
    on_turn = "reply_pk IN (SELECT reply_pk FROM reply_turns WHERE turn_doc = ?)"
    return _drop(db, _ON_ANY_TURN, (user_pk,)) + sum(_drop(db, on_turn, (doc,)) for doc in docs)


def _drop(db: sqlite3.Connection, which: str, values: tuple[object, ...]) -> int:
    pks = db.execute(f"SELECT reply_pk FROM replies WHERE {which}", values).fetchall()
    for table in ("reply_turns", "replies"):
        db.executemany(f"DELETE FROM {table} WHERE reply_pk = ?", pks)
    return len(pks)
