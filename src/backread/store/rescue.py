"""Saving what can be read of a damaged store into a new one.

Every page is read by itself (`pages`), so nothing rests on the schema, on indexes or on interior pages of the damaged
file. A turn is saved when its checksum proves it: whose it is, its session, when, and every word. Entries, vectors and
postings are derived and left behind: postings are made anew, the others by `build` and `reindex`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from backread.errors import NotFoundError, StoreCorruptError, StoreError
from backread.store.backup import placed
from backread.store.migrations import migrate
from backread.store.pages import Pages, Record, Value
from backread.store.rows import dec, of_kinds, turn_sum
from backread.store.sqlite import SqliteStore
from backread.store.turns import StoredTurn

__all__ = ["LostTurn", "RescueReport", "rescue"]

_BATCH_BYTES = 8 << 20
_BATCH_TURNS = 2000
_DEFAULT_SIZE = 4096
_NO_ROW = "no page that can be read holds it"
_BAD_ROW = "what the file holds of it is not what was stored"
_KINDS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("user_pk", "session_pk", "stored_us", "zone_known"), int),
    **dict.fromkeys(("turn_id",), str),
    **dict.fromkeys(("role", "text", "sum"), bytes),
    **dict.fromkeys(("said_us", "said_offset", "supersedes"), (int, NoneType)),
    **dict.fromkeys(("external_id", "speaker", "said_text", "caption"), (bytes, NoneType)),
    "attachments": (str, NoneType),
}


@dataclass(frozen=True, slots=True)
class LostTurn:
    """A turn that was stored and can't be read: its id and whose it is, each None when that is lost too, and why."""

    turn_id: str | None
    user_id: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class RescueReport:
    """What was saved of a damaged store; `known` turns are those saved and those lost.

    Attributes:
        renamed: names made up for users and sessions whose own are lost.
        unproved: saved turns that have such names, or superseded a turn whose id is lost: no checksum could prove them.
            They have new ids and come after the others.
        unlinked: ids of saved turns that superseded a lost one and now stand on their own.
    """

    path: Path
    known: int
    users: int
    sessions: int
    saved: int
    lost: tuple[LostTurn, ...]
    renamed: tuple[str, ...]
    unproved: int
    unlinked: tuple[str, ...]


class _Place(NamedTuple):
    """Where a turn's row is, and the names that prove it."""

    page: int
    cell: int
    user_id: bytes
    session_id: bytes
    proved: bool = True


@dataclass
class _Found:
    """What the pages of a file hold: names, and turns by doc.

    `users` and `sessions` have all that may be a name, of indexes too; `owners` and `sittings` those of the tables, and
    those that a checksum proved.
    """

    owners: dict[int, bytes] = field(default_factory=dict)
    sittings: dict[tuple[int, int], bytes] = field(default_factory=dict)
    users: dict[int, dict[bytes, None]] = field(default_factory=dict)
    sessions: dict[tuple[int, int], dict[bytes, None]] = field(default_factory=dict)
    appended: dict[bytes, int] = field(default_factory=dict)
    turn_ids: dict[int, dict[tuple[int, str], None]] = field(default_factory=dict)  # as indexes have them
    rows: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    broken: set[int] = field(default_factory=set)  # docs a part of whose row can't be read

    def take(self, page: int, cell: int, record: Record, columns: int) -> None:
        """Sort one record by its shape; what is taken for something else proves nothing later."""
        values = record.values
        if values is None:
            if record.rowid is not None:
                self.broken.add(record.rowid)
            return
        match values:
            case (None, bytes() as user_id, int(), int() as appended) if record.rowid is not None:
                self.users.setdefault(record.rowid, {})[user_id] = None
                self.owners[record.rowid] = user_id
                self.appended[user_id] = appended
            case (None, int() as user, bytes() as session_id, int(), int(), int()) if record.rowid is not None:
                self.sessions.setdefault((user, record.rowid), {})[session_id] = None
                self.sittings[user, record.rowid] = session_id
            case (bytes() as user_id, int() as user) if record.rowid is None:
                self.users.setdefault(user, {})[user_id] = None
            case (int() as user, bytes() as session_id, int() as session) if record.rowid is None:
                self.sessions.setdefault((user, session), {})[session_id] = None
            case (int() as user, str() as turn_id, int() as doc) if record.rowid is None:
                self.turn_ids.setdefault(doc, {})[user, turn_id] = None
            case _ if record.rowid is not None and len(values) == columns and values[0] is None:
                self.rows.setdefault(record.rowid, []).append((page, cell))


def rescue(damaged: Path, target: Path, *, overwrite: bool = False) -> RescueReport:
    """Save every turn that can be read of a damaged store; the file isn't changed, and nothing should write to it.

    Args:
        damaged: the file; the log beside it counts too.
        target: the new store, readable by its owner only.
        overwrite: take the place of a file that is there.

    Raises:
        NotFoundError: there is no such file.
        InvalidInputError: `target` is there already, or is the damaged file.
        StoreCorruptError: not one turn can be read.
    """
    if not damaged.is_file():
        raise NotFoundError(f"there is no file {damaged}")
    try:
        with placed(target, (damaged,), overwrite=overwrite) as new, closing(_opened(damaged)) as file:
            return replace(_Rescue(file).into(new), path=target)
    except OSError as error:
        raise StoreError(f"{damaged} can't be read: {error.strerror}") from error


def _opened(damaged: Path) -> Pages:
    """The pages of the file; a damaged header may give them a wrong size."""
    said = Pages(damaged)
    if said.size == _DEFAULT_SIZE:
        return said
    usual = Pages(damaged, _DEFAULT_SIZE)
    by_size = sorted((said, usual), key=lambda pages: sum(1 for *_, record in pages.records() if record.values))
    by_size[0].close()
    return by_size[1]


def _columns() -> tuple[str, ...]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh)
        return tuple(row[1] for row in fresh.execute("PRAGMA table_info(turns)"))


class _Rescue:
    """One rescue: what was found, which of it is proved, and the writing of it."""

    def __init__(self, file: Pages) -> None:
        self._file = file
        self._names = _columns()
        self._found = _Found()
        for page, cell, record in file.records():
            self._found.take(page, cell, record, len(self._names))
        self._renamed: dict[str, None] = {}
        self._places: dict[int, _Place] = {}
        self._unlinked: dict[str, None] = {}
        self._saved: dict[bytes, dict[str, None]] = {}
        for doc in sorted(self._found.rows):
            self._prove(doc)
        for doc in sorted(self._found.rows.keys() - self._places.keys()):
            self._name(doc)

    def _row(self, doc: int, page: int, cell: int) -> dict[str, Any]:
        record = self._file.record(page, cell)
        values: tuple[Value, ...] = () if record is None or record.values is None else record.values
        return {**dict(zip(self._names, values, strict=True)), "doc": doc}

    def _prove(self, doc: int) -> None:
        """Find the row of a turn, and the names that its checksum was made with."""
        for page, cell in self._found.rows[doc]:
            row = self._row(doc, page, cell)
            if not _readable(row):
                continue
            users = self._found.users.get(row["user_pk"], ())
            sessions = self._found.sessions.get((row["user_pk"], row["session_pk"]), ())
            for user_id, session_id, superseded in product(users, sessions, self._older(row["supersedes"])):
                if turn_sum(user_id, session_id, row, superseded) == row["sum"]:
                    self._places[doc] = _Place(page, cell, user_id, session_id)
                    self._found.owners[row["user_pk"]] = user_id
                    self._found.sittings[row["user_pk"], row["session_pk"]] = session_id
                    return

    def _name(self, doc: int) -> None:
        """Take a turn that can't be proved because a name is lost; with all names there, it is the turn that is bad."""
        for page, cell in self._found.rows[doc]:
            row = self._row(doc, page, cell)
            if not _readable(row):
                continue
            user_id = self._found.owners.get(row["user_pk"])
            session_id = self._found.sittings.get((row["user_pk"], row["session_pk"]))
            if user_id is None or session_id is None or not self._older(row["supersedes"]):
                names = (f"lost-user-{row['user_pk']}", f"lost-session-{row['session_pk']}")
                known = (user_id, session_id)
                self._renamed |= {name: None for name, there in zip(names, known, strict=True) if there is None}
                user_id, session_id = (there or name.encode() for name, there in zip(names, known, strict=True))
                self._places[doc] = _Place(page, cell, user_id, session_id, proved=False)
                return

    def _older(self, doc: int | None) -> list[str | None]:
        """What the turn that is superseded may be called; nothing when that is lost."""
        if doc is None:
            return [None]
        rows = (self._row(doc, *place) for place in self._found.rows.get(doc, ()))
        return [*(name for _, name in self._found.turn_ids.get(doc, ())), *(row["turn_id"] for row in rows)]

    def into(self, new: Path) -> RescueReport:
        """Write what was found into a new store at `new`, and prove that."""
        if not self._places:
            raise StoreCorruptError("not one turn can be read", hint="restore a backup")
        by_user: dict[bytes, list[int]] = {}
        for doc in sorted(self._places, key=lambda doc: (not self._places[doc].proved, doc)):
            by_user.setdefault(self._places[doc].user_id, []).append(doc)
        with closing(SqliteStore(new)) as store:
            for user_id, docs in by_user.items():
                for batch in self._batches(user_id, docs):
                    store.take_back(dec(user_id), batch, self._found.appended.get(user_id, 0))
            faults = store.verify().faults
            stats = store.stats()
        if faults:
            raise StoreCorruptError(f"what was saved can't be proved: {faults[0].what}: {faults[0].detail}")
        lost = tuple(self._lost())
        return RescueReport(
            path=new,
            known=stats.turns + len(lost),
            users=stats.users,
            sessions=stats.sessions,
            saved=stats.turns,
            lost=lost,
            renamed=tuple(self._renamed),
            unproved=sum(not place.proved for place in self._places.values()),
            unlinked=tuple(self._unlinked),
        )

    def _batches(self, user_id: bytes, docs: Sequence[int]) -> Iterator[list[StoredTurn]]:
        """The turns of a user in order of arrival, a few megabytes at a time."""
        batch: list[StoredTurn] = []
        size = 0
        ids: dict[int, str] = {}
        for doc in docs:
            place = self._places[doc]
            row = self._row(doc, place.page, place.cell)
            if row["turn_id"] in self._saved.setdefault(user_id, {}):
                continue  # an older copy of the same row
            self._saved[user_id][row["turn_id"]] = None
            older = ids.get(row["supersedes"] or 0) if place.proved else None
            if row["supersedes"] is not None and older is None:
                self._unlinked[row["turn_id"]] = None
            ids[doc] = row["turn_id"]
            row["turn_id"] = row["turn_id"] if place.proved else None
            batch.append(StoredTurn(row, dec(place.session_id), older))
            size += len(row["text"])
            if size > _BATCH_BYTES or len(batch) == _BATCH_TURNS:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _lost(self) -> Iterator[LostTurn]:
        """Turns of which something is left, but not the turn."""
        found = self._found
        saved = {name for names in self._saved.values() for name in names}
        for doc in sorted((found.turn_ids.keys() | found.rows.keys()) - self._places.keys()):
            user_pk, turn_id = next(iter(found.turn_ids.get(doc, {(0, None): None})))
            if turn_id not in saved:
                user_id = found.owners.get(user_pk)
                reason = _BAD_ROW if doc in found.rows or doc in found.broken else _NO_ROW
                yield LostTurn(turn_id, None if user_id is None else user_id.decode("utf-8", "replace"), reason)


def _readable(row: Mapping[str, Any]) -> bool:
    """Whether the columns that a turn is made of have the types they were stored with."""
    return of_kinds([row[name] for name in _KINDS], tuple(_KINDS.values()))
