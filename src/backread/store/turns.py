"""Writing turns into the SQLite store, and reading them back."""

from __future__ import annotations

import base64
import hashlib
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from backread.arrays import NDArray, np
from backread.errors import ConflictError, InvalidInputError, NotFoundError, QuotaError, TimeError, TurnTooLargeError
from backread.store.agreement import agree_on_corpora, agree_on_turns
from backread.store.base import TURNS, Appended
from backread.store.indexing import TermHasher, indexed_text
from backread.store.layout import UNKNOWN_TIME, Layout
from backread.store.rows import (
    FIRST,
    RECEIVED,
    TURN_BYTES,
    DamagedRowError,
    dec,
    draft_fields,
    enc,
    sort_after,
    turn_sum,
)
from backread.text.analysis import index_terms
from backread.text.cues import turn_cues
from backread.types import TurnDraft

__all__ = [
    "MAX_TURN_BYTES",
    "Prepared",
    "Quota",
    "StoredTurn",
    "append",
    "link",
    "prepare",
    "prepare_stored",
    "read_layout",
    "take_back",
    "turn_name",
    "user_row",
]

MAX_TURN_BYTES = 8 * 1024 * 1024
"""Largest text of one turn, UTF-8 bytes. Larger messages are files: keep them elsewhere, add what was said of them."""

_COMPARED = ("role", "text", "speaker", "caption", "attachments", "said_us", "said_offset", "zone_known", "said_text")
_TIMES = ("said_us", "said_offset", "zone_known")
_COLUMNS = (
    *("user_pk", "session_pk", "sort_us", "said_us", "said_offset", "zone_known", "stored_us", "length", "cues"),
    *("supersedes", "turn_id", "sum", "external_id", "role", "speaker", "said_text", "caption", "attachments", "text"),
)
_INSERT = f"INSERT INTO turns({', '.join(_COLUMNS)}) VALUES ({', '.join(':' + name for name in _COLUMNS)})"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A draft analysed before the write lock is taken: column values, hashed terms with frequencies, length.

    A turn that was stored before, in a file that is being rescued, keeps its `turn_id` and `stored_us`.
    """

    draft: TurnDraft
    fields: dict[str, Any]
    terms: dict[int, int]
    length: int
    problem: InvalidInputError | None = None
    turn_id: str | None = None
    stored_us: int | None = None


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


class StoredTurn(NamedTuple):
    """A turn of another file, as it was stored there: its columns by name, its session, the turn it supersedes."""

    row: dict[str, Any]
    session_id: str
    supersedes: str | None


def prepare_stored(turn: StoredTurn, hasher: TermHasher) -> Prepared:
    """As `prepare`, with everything of the turn as it was stored: its id, its times, its words."""
    row = turn.row
    texts = {name: dec(row[name]) for name in ("role", "text", "speaker", "caption", "external_id")}
    draft = TurnDraft(turn.session_id, supersedes=turn.supersedes, **texts)
    terms, length = index_terms(indexed_text(draft.speaker, draft.text, draft.caption))
    fields = {name: row[name] for name in (*_COMPARED, "external_id")}
    hashed = hash_terms(terms, hasher)
    return Prepared(draft, fields, hashed, length, turn_id=row["turn_id"], stored_us=row["stored_us"])


def hash_terms(terms: dict[str, int], hasher: TermHasher) -> dict[int, int]:
    """Frequencies by hashed term; should two terms of a text ever collide, their frequencies add up."""
    hashed: dict[int, int] = {}
    for term, frequency in terms.items():
        key = hasher(term)
        hashed[key] = hashed.get(key, 0) + frequency
    return hashed


def user_row(db: sqlite3.Connection, user_id: str) -> tuple[int, int] | None:
    """(user_pk, version) of a user, None when nothing was ever stored for it.

    Raises:
        DamagedRowError: the index leads to another user's row.
    """
    row: tuple[int, int, bytes] | None = db.execute(
        "SELECT t.user_pk, t.version, t.user_id FROM users i LEFT JOIN users t ON t.user_pk = i.user_pk"
        " WHERE i.user_id = ?",
        (enc(user_id),),
    ).fetchone()
    if row is None:
        return None
    if row[2] != enc(user_id):
        raise DamagedRowError(f"user {user_id!r} differs between the table of users and its index")
    return row[:2]


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
            if known is not None:
                self._link_again(known, draft.supersedes)
                return Appended(known)
            supersedes = self._doc_of(draft.supersedes) if draft.supersedes is not None else None
        except InvalidInputError as problem:
            return Appended(None, problem=problem)
        size = sum(len(fields[name] or "") for name in ("text", "caption", "attachments"))
        if self.room is not None and size > self.room:
            told = f"a message of {size:,} bytes is over what is left of the user's quota, {max(0, self.room):,} bytes"
            return Appended(None, problem=QuotaError(told, hint="erase what is not needed, or raise user_mb"))
        if self.room is not None:
            self.room -= size
        stored_us = self.stored_us if item.stored_us is None else item.stored_us
        session_pk = self._session(draft.session_id, fields["said_us"], stored_us)
        turn_id = item.turn_id or turn_name(self.user_id, fields["external_id"], self.appended)
        row = {
            **fields,
            "user_pk": self.user_pk,
            "session_pk": session_pk,
            "sort_us": self._sort(session_pk, fields["said_us"], fields["zone_known"]),
            "stored_us": stored_us,
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
        if not (_says_when(stored) or _says_when(given)):  # sent again, it comes in at another time
            stored.update((name, given[name]) for name in _TIMES)
        changed = [name.removesuffix("_us") for name, value in stored.items() if given[name] != value]
        if changed:
            raise ConflictError(
                f"id {draft.external_id!r} already names another message ({', '.join(changed)} differ)",
                hint="an edit is a new message with its own id and `supersedes` naming the old one",
            )
        return turn_id

    def _doc_of(self, turn_id: str) -> int:
        doc = self._find(turn_id)
        if doc is None:
            raise InvalidInputError(f"supersedes names {turn_id!r}, which is not a turn of this user")
        return doc

    def _find(self, turn_id: str) -> int | None:
        row = self.db.execute(
            "SELECT doc FROM turns WHERE user_pk = ?1 AND (turn_id = ?2 OR external_id = ?3) "
            " ORDER BY turn_id = ?2 DESC",
            (self.user_pk, wire_id(turn_id), enc(turn_id)),
        ).fetchone()
        return row[0] if row else None

    def _link_again(self, turn_id: str, supersedes: str | None) -> None:
        """A known turn replaces what it names once that is (again) here: a link that was lost is whole again.

        One that replaces a turn of another chain already keeps to that.
        """
        named = None if supersedes is None else self._find(supersedes)
        doc = self._find(turn_id)
        if named is None or doc is None:
            return
        (replaced,) = self.db.execute("SELECT supersedes FROM turns WHERE doc = ?", (doc,)).fetchone()
        if named == replaced:
            return
        above = self._ancestors(named)
        if doc not in above and (replaced is None or self._ancestors(replaced)[-1] == above[-1]):
            link(self.db, self.user_id, doc, named)

    def _ancestors(self, doc: int) -> list[int]:
        """A turn, the one it replaces, and so on to the first of its chain."""
        found: dict[int, None] = {}
        older: int | None = doc
        while older is not None and older not in found:  # a circle: only in a damaged file
            found[older] = None
            (older,) = self.db.execute("SELECT supersedes FROM turns WHERE doc = ?", (older,)).fetchone()
        return list(found)

    def _turn_id_of(self, doc: int) -> str:
        turn_id: str = self.db.execute("SELECT turn_id FROM turns WHERE doc = ?", (doc,)).fetchone()[0]
        return turn_id

    def _session(self, session_id: str, said_us: int | None, stored_us: int) -> int:
        pk = self.sessions.get(session_id)
        key = (self.user_pk, enc(session_id))
        if pk is None:
            self.db.execute(
                "INSERT OR IGNORE INTO sessions(user_pk, session_id, order_us, dated, last_sort_us)"
                " VALUES (?, ?, ?, 0, ?)",
                (*key, stored_us, FIRST),
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

    def _sort(self, session_pk: int, said_us: int | None, zone_known: int) -> int:
        """A turn that nobody said the time of keeps its place after the one that arrived before it in its session."""
        self.last_sort[session_pk] = sort_after(self.last_sort[session_pk], said_us, zone_known)
        return self.last_sort[session_pk]


def _says_when(row: Mapping[str, Any]) -> bool:
    """Whether a turn's columns hold when it was said, and not only when it was received."""
    return row["said_us"] is not None and row["zone_known"] != RECEIVED


def append(db: sqlite3.Connection, user_id: str, items: Sequence[Prepared], quota: Quota = NO_QUOTA) -> list[Appended]:
    """Insert prepared drafts in the open write transaction."""
    batch = _Batch(db, user_id, quota)
    results = [batch.add(item) for item in items]
    batch.finish()
    return results


def take_back(db: sqlite3.Connection, user_id: str, items: Sequence[Prepared], appended: int) -> None:
    """Insert turns that were stored before; their user had `appended` turns then, those deleted since included.

    The next turn without an id is named by that number, which must not be one that a turn has already.
    """
    results = append(db, user_id, items)
    unnamed = {item.turn_id for item in items if item.turn_id is not None and item.fields["external_id"] is None}
    owner = enc(user_id) or b""
    number = 0
    while unnamed:
        unnamed.discard(turn_name(owner, None, number))
        number += 1
    least = max(number, appended)
    db.execute("UPDATE users SET appended = ?1 WHERE user_id = ?2 AND appended < ?1", (least, owner))
    for result in results:
        if result.problem is not None:
            raise result.problem


def link(db: sqlite3.Connection, user_id: bytes, doc: int, supersedes: int | None) -> None:
    """Let a turn replace another one, or none; its checksum covers that."""
    db.execute("UPDATE turns SET supersedes = ? WHERE doc = ?", (supersedes, doc))
    cursor = db.execute(
        "SELECT t.*, s.session_id, o.turn_id AS supersedes_id FROM turns t JOIN sessions s USING(session_pk)"
        " LEFT JOIN turns o ON o.doc = t.supersedes WHERE t.doc = ?",
        (doc,),
    )
    names = [column[0] for column in cursor.description]
    row = dict(zip(names, cursor.fetchone(), strict=True))
    sum_ = turn_sum(user_id, row["session_id"], row, row["supersedes_id"])
    db.execute("UPDATE turns SET sum = ? WHERE doc = ?", (sum_, doc))


def corpus_pk(db: sqlite3.Connection, user_pk: int, name: str) -> int:
    """Key of a corpus, made when missing."""
    key = (user_pk, enc(name))
    db.execute("INSERT OR IGNORE INTO corpora(user_pk, name) VALUES (?, ?)", key)
    pk: int = db.execute("SELECT corpus_pk FROM corpora WHERE user_pk = ? AND name = ?", key).fetchone()[0]
    return pk


def find_corpus(db: sqlite3.Connection, user_id: str, name: str) -> int | None:
    """Key of a corpus, None when nothing was ever stored in it.

    Raises:
        DamagedRowError: the index leads to another corpus, or doesn't list all of this user's.
    """
    user = user_row(db, user_id)
    if user is None:
        return None
    row = db.execute(
        "SELECT i.corpus_pk, t.user_pk, t.name FROM corpora i LEFT JOIN corpora t ON t.corpus_pk = i.corpus_pk"
        " WHERE i.user_pk = ? AND i.name = ?",
        (user[0], enc(name)),
    ).fetchone()
    if row is None:
        agree_on_corpora(db, user[0])
        if name != TURNS:
            return None
    if row is None or row[1:] != (user[0], enc(name)):
        raise DamagedRowError(f"corpus {name!r} differs between the table of corpora and its index")
    pk: int = row[0]
    return pk


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


def read_layout(db: sqlite3.Connection, user_pk: int, proved: int = 0) -> Layout:
    """The layout of a user's turns; ordering rule in `schema.md`.

    It comes from an index, which is compared with the table for turns from doc `proved` on.

    Raises:
        DamagedRowError: they differ.
    """
    agree_on_turns(db, user_pk, proved)
    sessions = db.execute(
        "SELECT session_pk, session_id, order_us, dated FROM sessions WHERE user_pk = ? ORDER BY order_us, session_pk",
        (user_pk,),
    ).fetchall()
    place = {row[0]: index for index, row in enumerate(sessions)}
    rows = db.execute(
        "SELECT session_pk, sort_us, doc, said_us, length, cues, role, speaker FROM turns INDEXED BY turns_layout"
        " WHERE user_pk = ? ORDER BY session_pk, sort_us, doc",
        (user_pk,),
    ).fetchall()
    if place.keys() != {row[0] for row in rows}:
        raise DamagedRowError("sessions and the turns in them differ")
    session = np.array([place[row[0]] for row in rows], dtype=np.int32)
    order = np.argsort(session, kind="stable")
    roles: dict[bytes, int] = {}
    speakers: dict[bytes, int] = {}
    role = np.array([roles.setdefault(row[6], len(roles)) for row in rows], dtype=np.int32)
    speaker = np.array([speakers.setdefault(row[7] or row[6], len(speakers)) for row in rows], dtype=np.int32)
    said = np.array([UNKNOWN_TIME if row[3] is None else row[3] for row in rows], dtype=np.int64)
    _check_order(db, sessions, session, said, rows)
    superseded = db.execute(
        "SELECT doc, supersedes FROM turns WHERE user_pk = ? AND supersedes IS NOT NULL", (user_pk,)
    ).fetchall()
    return Layout(
        docs=np.array([row[2] for row in rows], dtype=np.int64)[order],
        session=session[order],
        length=np.array([row[4] for row in rows], dtype=np.float32)[order],
        said_us=said[order],
        cues=np.array([row[5] for row in rows], dtype=np.int8)[order],
        role=role[order],
        speaker=speaker[order],
        session_ids=tuple(dec(session_id) for _, session_id, _, _ in sessions),
        roles=tuple(dec(name) for name in roles),
        speakers=tuple(dec(name) for name in speakers),
        supersedes=dict(superseded),
    )


def _check_order(
    db: sqlite3.Connection,
    sessions: Sequence[tuple[int, bytes, int, int]],
    session: NDArray[np.int32],
    said_us: NDArray[np.int64],
    rows: Sequence[tuple[Any, ...]],
) -> None:
    """Each session's place must be when its first turn was said, or when the first one came if none has a time."""
    dated = said_us != UNKNOWN_TIME
    earliest = np.full(len(sessions), np.iinfo(np.int64).max)
    np.minimum.at(earliest, session[dated], said_us[dated])
    undated = np.flatnonzero(earliest == np.iinfo(np.int64).max)
    docs = dict.fromkeys(undated.tolist(), 0)
    if docs:
        for code, row in zip(session.tolist(), rows, strict=True):
            if code in docs:
                docs[code] = min(docs[code] or row[2], row[2])
    for code, (_, session_id, order_us, is_dated) in enumerate(sessions):
        due = earliest[code]
        if code in docs:
            due = db.execute("SELECT stored_us FROM turns WHERE doc = ?", (docs[code],)).fetchone()[0]
        if (order_us, is_dated) != (due, code not in docs):
            raise DamagedRowError(f"session {session_id!r} has another place than its turns say")
