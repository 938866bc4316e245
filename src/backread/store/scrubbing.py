"""Leaving no byte of what was erased: what is due is written down in the erasing transaction and worked off in steps.

A row of `meta` says which step is due: "file", the file must be written anew; "log", that was done and its log must be
emptied; "later", as "file", but nobody asked for it yet (`delete(scrub=False)`). It goes when all is done, so that an
erase that was cut off by a crash, a full disk or a reader is finished by the next open or delete. No lock is held
while a reader is waited for, and what can't be finished stays due.
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from backread import forking
from backread.errors import StoreError
from backread.store.connection import ConnectionPool
from backread.store.migrations import meta_sum

__all__ = ["SCRUB_ROW", "SCRUB_WAIT_S", "Scrubber", "due_step", "note_erased"]

_log = logging.getLogger(__name__)

SCRUB_WAIT_S = 2.0
"""How long a delete waits for readers, and for another process that writes, before it leaves the scrub for later."""

SCRUB_ROW = "scrub"
"""The name of the row; one that is damaged is worked off in full."""

_FILE, _LOG, _LATER = "file", "log", "later"
_TRIES = 3  # other deletes may come in between, and each is worked off by its own caller too
_EVERY_S = 0.1  # between two looks whether the readers are gone


@dataclass(frozen=True, slots=True)
class _Due:
    """The step that is due; `mark` tells one erase from the next."""

    step: str
    mark: str

    @property
    def value(self) -> bytes:
        return f"{self.step} {self.mark}".encode()


def _read(db: sqlite3.Connection) -> _Due | None:
    row = db.execute("SELECT value FROM meta WHERE name = ?", (SCRUB_ROW,)).fetchone()
    if row is None:
        return None
    step, _, mark = bytes(row[0]).decode("ascii", "replace").partition(" ")
    return _Due(step if step in (_LOG, _LATER) else _FILE, mark)  # a damaged row is worked off in full


def _write(db: sqlite3.Connection, due: _Due) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (SCRUB_ROW, due.value, meta_sum(SCRUB_ROW, due.value)))


def due_step(db: sqlite3.Connection) -> str | None:
    """The step that is due, None when nothing that was erased may be left in the files."""
    due = _read(db)
    return None if due is None else due.step


def note_erased(db: sqlite3.Connection, *, asked: bool) -> None:
    """Write down, in the transaction that erases, that a scrub is due; `asked` when it is to be done now."""
    before = _read(db)
    pending = before is not None and before.step != _LATER
    _write(db, _Due(_FILE if asked or pending else _LATER, secrets.token_hex(4)))


class Scrubber:
    """Works off what is due in one store. Thread-safe; several processes may do it at once.

    Args:
        pool: of the store.
        beside: folder of files that hold vectors; those a build left unfinished go too.
    """

    def __init__(self, pool: ConnectionPool, beside: Path) -> None:
        self._pool = pool
        self._beside = beside
        self._lock = forking.Lock()
        self._next = 0.0

    def finish(self, *, all_of_it: bool, wait_s: float) -> bool:
        """Do what is due; True when nothing is any more.

        Args:
            all_of_it: also what was left for later.
            wait_s: for readers, and for another process that writes.

        Raises:
            StoreError: the file could not be written anew; the scrub stays due.
        """
        with self._lock:
            done = any(self._step(all_of_it, wait_s) for _ in range(_TRIES))
        with self._pool.read() as db:
            step = due_step(db)
        # What waits for readers only is finished by whoever comes back last.
        self._pool.on_return = self._look_again if step == _LOG else None
        return done and step is None

    def tried(self, *, all_of_it: bool, wait_s: float) -> bool:
        """As `finish`, but a failure is only logged: what was erased stays erased, and the scrub stays due."""
        try:
            return self.finish(all_of_it=all_of_it, wait_s=wait_s)
        except StoreError as error:
            _log.warning("a scrub is due and could not be finished now: %s", error)
            return False

    def rewrite(self, wait_s: float) -> bool:
        """Scrub whether or not something is due; False when readers keep the log."""
        with self._pool.write() as db:
            note_erased(db, asked=True)
        return self.finish(all_of_it=True, wait_s=wait_s)

    def _step(self, all_of_it: bool, wait_s: float) -> bool:
        """Go through the steps once; False when more came meanwhile."""
        with self._pool.read() as db:
            due = _read(db)
        if due is None:
            return True
        if due.step == _LATER and not all_of_it:
            self._pool.empty_log(wait_s)
            return True
        if due.step != _LOG:
            _remove(self._beside.glob("*.part"))
            self._pool.rewrite(wait_s)
            following = _Due(_LOG, due.mark)
            if not self._replace(due, following):
                return False
            due = following
        if not self._pool.empty_log(wait_s):
            return True
        if not self._replace(due, None):
            return False
        self._pool.empty_log(0)  # of the mark; a reader may keep that
        return True

    def _replace(self, due: _Due, following: _Due | None) -> bool:
        """Write down that a step was done; False when something was erased since."""
        with self._pool.write() as db:
            if _read(db) != due:
                return False
            if following is None:
                db.execute("DELETE FROM meta WHERE name = ?", (SCRUB_ROW,))
            else:
                _write(db, following)
        return True

    def _look_again(self) -> None:
        """Empty the log if the readers are gone; called each time a connection came back."""
        now = time.monotonic()
        if now < self._next or not self._lock.acquire(blocking=False):
            return
        try:
            self._next = now + _EVERY_S
            if self._pool.empty_log(0):
                self._pool.on_return = None
                self._step(all_of_it=False, wait_s=0)
        except StoreError as error:
            _log.warning("a scrub is due and could not be finished now: %s", error)
        finally:
            self._lock.release()


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
