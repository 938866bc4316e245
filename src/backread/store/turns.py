"""Writing turns into the SQLite store, and reading them back."""

from __future__ import annotations

import base64
import hashlib
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backread.errors import ConflictError, InvalidInputError, NotFoundError, QuotaError, TimeError, TurnTooLargeError
from backread.store.base import Appended
from backread.store.indexing import TermHasher, indexed_text
from backread.store.layout import UNKNOWN_TIME, Layout
from backread.store.rows import FIRST, TURN_BYTES, dec, draft_fields, enc, turn_sum
from backread.text.analysis import index_terms
from backread.text.cues import turn_cues
from backread.types import TurnDraft

__all__ = ["MAX_TURN_BYTES", "Prepared", "Quota", "append", "prepare", "read_layout", "turn_name", "user_row"]

MAX_TURN_BYTES = 8 * 1024 * 1024
"""Largest text of one turn, UTF-8 bytes. Larger messages are files: keep them elsewhere, add what was said of them."""

_COMPARED = ("role", "text", "speaker", "caption", "attachments", "said_us", "said_offset", "zone_known", "said_text")
_COLUMNS = (
    *("user_pk", "session_pk", "sort_us", "said_us", "said_offset", "zone_known", "stored_us", "length", "cues"),
    *("supersedes", "turn_id", "sum", "external_id", "role", "speaker", "said_text", "caption", "attachments", "text"),
)
_INSERT = f"INSERT INTO turns({', '.join(_COLUMNS)}) VALUES ({', '.join(':' + name for name in _COLUMNS)})"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A draft analysed before the write lock is taken: column values, hashed terms with frequencies, length."""

    draft: TurnDraft
    fields: dict[str, Any]
    terms: dict[int, int]
    length: int
    problem: InvalidInputError | None = None


def prepare(draft: TurnDraft, hasher: TermHasher, most_bytes: int = MAX_TURN_BYTES) -> Prepared:
    """Analyse a draft; a text over the limit, or a time no calendar holds, becomes a problem instead."""
    try:
        fields: dict[str, Any] = draft_fields(draft)
    except TimeError as error:
        return Prepared(draft, {}, {}, 0, error)
    if (size := len(fields["text"])) > most_bytes:
        problem = TurnTooLargeError(
            f"a message of {size:,} bytes is over the limit of {most_bytes:,} bytes for one turn",
            hint="split it into several messages",
        )
        return Prepared(draft, fields, {}, 0, problem)
    terms, length = index_terms(indexed_text(draft.speaker, draft.text, draft.caption))
    return Prepared(draft, fields, hash_terms(terms, hasher), length)


def hash_terms(terms: dict[str, int], hasher: TermHasher) -> dict[int, int]:
    """Frequencies by hashed term; should two terms of a text ever collide, their frequencies add up."""
    hashed: dict[int, int] = {}
    for term, frequency in terms.items():
        key = hasher(term)
        hashed[key] = hashed.get(key, 0) + frequency
    return hashed


def user_row(db: sqlite3.Connection, user_id: str) -> tuple[int, int] | None:
    """(user_pk, version) of a user, None when nothing was ever stored for it."""
    row: tuple[int, int] | None = db.execute(
        "SELECT user_pk, version FROM users WHERE user_id = ?", (enc(user_id),)
    ).fetchone()
    return row


class Quota:
    """Bytes of texts, captions and attachments that each user may store.

    They are summed up once for a user, and again only when somebody else wrote or erased.

    Args:
        most: for one user; 0 is no quota.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._used: dict[int, tuple[int, int]] = {}  # user_pk -> version, bytes at that version

    def room(self, db: sqlite3.Connection, user_pk: int, version: int) -> int | None:
        """Bytes a user may still store, below 0 where more is stored already; None without a quota."""
        if not self._most:
            return None
        known = self._used.get(user_pk)
        if known is None or known[0] != version:
            row = db.execute(f"SELECT total({TURN_BYTES}) FROM turns t WHERE t.user_pk = ?", (user_pk,)).fetchone()
            known = self._used[user_pk] = (version, int(row[0]))
        return self._most - known[1]

    def left(self, user_pk: int, version: int, room: int | None) -> None:
        """Note what is left at a version."""
        if room is not None:
            self._used[user_pk] = (version, self._most - room)

    def forget(self) -> None:
        """Sum up again: what was noted was undone."""
        self._used.clear()


NO_QUOTA = Quota(0)


class _Batch:
    """The appends of one transaction for one user."""

    def __init__(self, db: sqlite3.Connection, user_id: str, quota: Quota) -> None:
        self.db = db
        self.user_id = enc(user_id) or b""
        db.execute("INSERT OR IGNORE INTO users(user_id, version, appended) VALUES (?, 0, 0)", (self.user_id,))
        self.user_pk, self.appended, self.version = db.execute(
            "SELECT user_pk, appended, version FROM users WHERE user_id = ?", (self.user_id,)
        ).fetchone()
        self.corpus_pk = corpus_pk(db, self.user_pk, "turn")
        self.quota, self.room = quota, quota.room(db, self.user_pk, self.version)
        self.stored_us = time.time_ns() // 1000
        self.sessions: dict[str, int] = {}
        self.last_sort: dict[int, int] = {}  # by session, read once and written back once
        self.postings: list[tuple[int, int, int, int]] = []
        self.new = 0

    def add(self, item: Prepared) -> Appended:
        if item.problem is not None:
            return Appended(None, problem=item.problem)
        draft, fields = item.draft, item.fields
        try:
            known = self._known(draft, fields)
            supersedes = self._doc_of(draft.supersedes) if draft.supersedes is not None else None
        except InvalidInputError as problem:
            return Appended(None, problem=problem)
        if known is not None:
            return Appended(known)
        size = sum(len(fields[name] or "") for name in ("text", "caption", "attachments"))
        if self.room is not None and size > self.room:
            told = f"a message of {size:,} bytes is over what is left of the user's quota, {max(0, self.room):,} bytes"
            return Appended(None, problem=QuotaError(told, hint="erase what is not needed, or raise user_mb"))
        if self.room is not None:
            self.room -= size
        session_pk = self._session(draft.session_id, fields["said_us"])
        turn_id = turn_name(self.user_id, fields["external_id"], self.appended)
        row = {
            **fields,
            "user_pk": self.user_pk,
            "session_pk": session_pk,
            "sort_us": self._sort(session_pk, fields["said_us"]),
            "stored_us": self.stored_us,
            "length": item.length,
            "cues": turn_cues(draft.text),
            "supersedes": supersedes,
            "turn_id": turn_id,
        }
        superseded_id = None if supersedes is None else self._turn_id_of(supersedes)
        row["sum"] = turn_sum(self.user_id, enc(draft.session_id) or b"", row, superseded_id)
        doc = self.db.execute(_INSERT, row).lastrowid
        assert doc is not None
        self.postings.extend((self.corpus_pk, term, doc, tf) for term, tf in item.terms.items())
        self.appended += 1
        self.new += 1
        return Appended(turn_id, new=True)

    def finish(self) -> None:
        # In key order the B-tree is filled left to right, which is what makes a bulk import fast.
        self.db.executemany("INSERT INTO postings VALUES (?, ?, ?, ?)", sorted(self.postings))
        self.db.executemany(
            "UPDATE sessions SET last_sort_us = ? WHERE session_pk = ?",
            [(last, session_pk) for session_pk, last in self.last_sort.items()],
        )
        self.db.execute(
            "UPDATE users SET version = version + 1, appended = ? WHERE user_pk = ?", (self.appended, self.user_pk)
        )
        self.quota.left(self.user_pk, self.version + 1, self.room)

    def _known(self, draft: TurnDraft, fields: dict[str, Any]) -> str | None:
        """The id of the turn that already has this external id and content."""
        if draft.external_id is None:
            return None
        row = self.db.execute(
            f"SELECT t.turn_id, s.session_id, {', '.join('t.' + name for name in _COMPARED)}"
            " FROM turns t JOIN sessions s USING(session_pk) WHERE t.user_pk = ?1"
            " AND (t.external_id = ?2 OR (t.turn_id = ?3 AND t.external_id IS NULL))",  # as an export names it
            (self.user_pk, fields["external_id"], wire_id(draft.external_id)),
        ).fetchone()
        if row is None:
            return None
        turn_id: str = row[0]
        stored = dict(zip(("session_id", *_COMPARED), row[1:], strict=True))
        given = {"session_id": enc(draft.session_id), **fields}
        changed = [name.removesuffix("_us") for name, value in stored.items() if given[name] != value]
        if changed:
            raise ConflictError(
                f"id {draft.external_id!r} already names another message ({', '.join(changed)} differ)",
                hint="an edit is a new message with its own id and `supersedes` naming the old one",
            )
        return turn_id

    def _doc_of(self, turn_id: str) -> int:
        row = self.db.execute(
            "SELECT doc FROM turns WHERE user_pk = ?1 AND (turn_id = ?2 OR external_id = ?3) "
            " ORDER BY turn_id = ?2 DESC",
            (self.user_pk, wire_id(turn_id), enc(turn_id)),
        ).fetchone()
        if row is None:
            raise InvalidInputError(f"supersedes names {turn_id!r}, which is not a turn of this user")
        doc: int = row[0]
        return doc

    def _turn_id_of(self, doc: int) -> str:
        turn_id: str = self.db.execute("SELECT turn_id FROM turns WHERE doc = ?", (doc,)).fetchone()[0]
        return turn_id

    def _session(self, session_id: str, said_us: int | None) -> int:
        pk = self.sessions.get(session_id)
        key = (self.user_pk, enc(session_id))
        if pk is None:
            self.db.execute(
                "INSERT OR IGNORE INTO sessions(user_pk, session_id, order_us, dated, last_sort_us)"
                " VALUES (?, ?, ?, 0, ?)",
                (*key, self.stored_us, FIRST),
            )
            pk, last_sort = self.db.execute(
                "SELECT session_pk, last_sort_us FROM sessions WHERE user_pk = ? AND session_id = ?", key
            ).fetchone()
            self.sessions[session_id] = pk
            self.last_sort[pk] = last_sort
        if said_us is not None:
            self.db.execute(
                "UPDATE sessions SET order_us = ?1, dated = 1 WHERE session_pk = ?2 AND (dated = 0 OR order_us > ?1)",
                (said_us, pk),
            )
        return pk

    def _sort(self, session_pk: int, said_us: int | None) -> int:
        """A turn of unknown time keeps its place after the turn that arrived before it in its session."""
        if said_us is not None:
            self.last_sort[session_pk] = said_us
        return self.last_sort[session_pk]


def append(db: sqlite3.Connection, user_id: str, items: Sequence[Prepared], quota: Quota = NO_QUOTA) -> list[Appended]:
    """Insert prepared drafts in the open write transaction."""
    batch = _Batch(db, user_id, quota)
    results = [batch.add(item) for item in items]
    batch.finish()
    return results


def corpus_pk(db: sqlite3.Connection, user_pk: int, name: str) -> int:
    """Key of a corpus, made when missing."""
    key = (user_pk, enc(name))
    db.execute("INSERT OR IGNORE INTO corpora(user_pk, name) VALUES (?, ?)", key)
    pk: int = db.execute("SELECT corpus_pk FROM corpora WHERE user_pk = ? AND name = ?", key).fetchone()[0]
    return pk


def find_corpus(db: sqlite3.Connection, user_id: str, name: str) -> int | None:
    """Key of a corpus, None when nothing was ever stored in it."""
    row = db.execute(
        "SELECT corpus_pk FROM corpora JOIN users USING(user_pk) WHERE user_id = ? AND name = ?",
        (enc(user_id), enc(name)),
    ).fetchone()
    return row[0] if row else None


def require_turn(db: sqlite3.Connection, user_pk: int, turn_id: str) -> int:
    """The doc of a turn of this user.

    Raises:
        NotFoundError: there is none; another user's turn looks the same.
    """
    row = db.execute("SELECT doc FROM turns WHERE user_pk = ? AND turn_id = ?", (user_pk, wire_id(turn_id))).fetchone()
    if row is None:
        raise NotFoundError(f"{turn_id!r} is not a turn of this user")
    doc: int = row[0]
    return doc


def wire_id(turn_id: str) -> str:
    """A turn id as SQLite can compare it; one with a lone surrogate is never ours and matches nothing."""
    return turn_id.encode("utf-8", "replace").decode()


def turn_name(user_id: bytes, external_id: bytes | None, number: int) -> str:
    """Opaque, and the same when the same calls are made again, so that records of two runs can be compared."""
    name = b"n%d" % number if external_id is None else b"x" + external_id
    digest = hashlib.blake2b(user_id + b"\0" + name, digest_size=10).digest()
    return "t" + base64.b32encode(digest).decode().lower()


def read_layout(db: sqlite3.Connection, user_pk: int) -> Layout:
    """The layout of a user's turns; ordering rule in `schema.md`."""
    sessions = db.execute(
        "SELECT session_pk, session_id FROM sessions WHERE user_pk = ? ORDER BY order_us, session_pk", (user_pk,)
    ).fetchall()
    place = {pk: index for index, (pk, _) in enumerate(sessions)}
    rows = db.execute(
        "SELECT session_pk, sort_us, doc, said_us, length, cues, role, speaker FROM turns INDEXED BY turns_layout"
        " WHERE user_pk = ? ORDER BY session_pk, sort_us, doc",
        (user_pk,),
    ).fetchall()
    session = np.array([place[row[0]] for row in rows], dtype=np.int32)
    order = np.argsort(session, kind="stable")
    roles: dict[bytes, int] = {}
    speakers: dict[bytes, int] = {}
    role = np.array([roles.setdefault(row[6], len(roles)) for row in rows], dtype=np.int32)
    speaker = np.array([speakers.setdefault(row[7] or row[6], len(speakers)) for row in rows], dtype=np.int32)
    said = np.array([UNKNOWN_TIME if row[3] is None else row[3] for row in rows], dtype=np.int64)
    superseded = db.execute(
        "SELECT supersedes, doc FROM turns WHERE user_pk = ? AND supersedes IS NOT NULL", (user_pk,)
    ).fetchall()
    return Layout(
        docs=np.array([row[2] for row in rows], dtype=np.int64)[order],
        session=session[order],
        length=np.array([row[4] for row in rows], dtype=np.float32)[order],
        said_us=said[order],
        cues=np.array([row[5] for row in rows], dtype=np.int8)[order],
        role=role[order],
        speaker=speaker[order],
        session_ids=tuple(dec(session_id) for _, session_id in sessions),
        roles=tuple(dec(name) for name in roles),
        speakers=tuple(dec(name) for name in speakers),
        superseded_by=dict(superseded),
    )
