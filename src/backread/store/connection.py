"""SQLite connections: opened the same way everywhere, lent out one caller at a time, errors mapped once."""

from __future__ import annotations

import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from backread import forking
from backread.errors import StoreBusyError, StoreCorruptError, StoreError
from backread.store import file as files
from backread.store.migrations import migrate, refuse_foreign, refuse_newer

__all__ = ["ConnectionPool", "mapped_errors"]

BUSY_TIMEOUT_S = 60.0
_POLL_S = 0.01

_opening = forking.Lock()
_pools: weakref.WeakSet[ConnectionPool] = weakref.WeakSet()


@contextmanager
def mapped_errors(path: Path) -> Iterator[None]:
    """Turn `sqlite3` exceptions into ours; nothing above the store sees a driver's error."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise StoreBusyError(
                f"{path}: another process held the write lock for more than {BUSY_TIMEOUT_S:.0f} s",
                hint="stop the process that writes to this store, or try again",
            ) from error
        if "malformed" in text or "decode to UTF-8" in text:
            raise _corrupt(path, text) from error
        raise StoreError(f"{path}: {text}", hint="check the path, its permissions and the free disk space") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise _corrupt(path, str(error)) from error


def _corrupt(path: Path, text: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"{path}: {text}",
        hint="`backread verify` says what is damaged; restore a backup, or save what can be read: `backread rescue`",
    )


class ConnectionPool:
    """Connections to one file. Readers run side by side; writers of this process take turns before SQLite's lock.

    A process forked from this one opens connections of its own. Each connection is lent only while the file is still
    the one that was opened.

    Attributes:
        path: absolute, symbolic links resolved, so that all its files lie in one folder whatever becomes current.
        on_return: called, when set, each time a lent connection came back.

    Args:
        path: the database file; created with mode 0600, with its folder, when missing.
    """

    def __init__(self, path: Path) -> None:
        if path.name == ":memory:":
            raise StoreError("a store is a file: SQLite has no write-ahead log in memory", hint="name a file")
        self.path = path.resolve()
        self.on_return: Callable[[], None] | None = None
        self._idle: list[sqlite3.Connection] = []
        self._opened: set[sqlite3.Connection] = set()
        self._lock = forking.Lock()
        self._writing = forking.Lock()
        self._closed = False
        self._file: files.Identity | None = None  # known when it is open
        with mapped_errors(self.path), _opening:
            files.create_private(self.path)
            if not any(pool._opened and pool._file == files.identity(self.path) for pool in _pools):
                files.refuse_foreign_log(self.path)
            connection = self._connect()
            self._file = files.identity(self.path)
            try:
                migrate(connection)
            except BaseException:
                self._discard(connection)
                raise
            _pools.add(self)
        self._idle.append(connection)
        forking.in_child(self._renew)

    def _renew(self) -> None:
        """In a forked child: what the parent opened is the parent's, also its locks on the file."""
        for connection in self._opened:  # closed at exit, they would end transactions of the parent
            forking.abandon(connection)
        self._opened, self._idle = set(), []

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        self._opened.add(connection)
        try:
            refuse_foreign(connection)  # before anything below can write to the file
            if self._file is not None:
                files.refuse_other(self.path, self._file)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA mmap_size = 0")  # a mapped file that is cut kills the process
            connection.execute("PRAGMA temp_store = MEMORY")
            _write_ahead_log(connection)
        except BaseException:
            self._discard(connection)
            raise
        return connection

    def _discard(self, connection: sqlite3.Connection) -> None:
        self._opened.discard(connection)
        connection.close()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection inside one read transaction: everything read is of one moment.

        Raises:
            StoreReplacedError: the file isn't the one that was opened any more.
        """
        with self._lent() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                self._roll_back(connection)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection inside one write transaction; durable when the block ends, undone when it raises.

        Raises:
            SchemaTooNewError: a newer version changed the schema since the store was opened.
            StoreReplacedError: the file isn't the one that was opened any more.
        """
        with self._lent(self._writing) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                refuse_newer(connection)
                yield connection
                files.refuse_other(self.path, self._file)
                if connection not in self._opened:
                    raise StoreError(f"{self.path}: the process was forked inside a transaction, which is its parent's")
                connection.execute("COMMIT")
            except BaseException:
                self._roll_back(connection)
                raise

    def rewrite(self, wait_s: float) -> None:
        """Write the file anew with only what is kept (`VACUUM`), through the log.

        `secure_delete` alone isn't enough: when SQLite balances a B-tree it leaves copies of the cells it moved in the
        unused middle of pages, and a row deleted later is overwritten in its last place only.

        Args:
            wait_s: for another process that writes.
        """
        with self._lent(self._writing) as connection, _timeout(connection, wait_s):
            connection.execute("PRAGMA temp_store = FILE")  # the copy has only what is kept; it may not fit in memory
            try:
                connection.execute("VACUUM")
            finally:
                connection.execute("PRAGMA temp_store = MEMORY")

    def empty_log(self, wait_s: float) -> bool:
        """Move the write-ahead log into the file and cut it to nothing; False when readers or a writer kept it.

        Others go on writing while this waits.
        """
        deadline = time.monotonic() + wait_s
        while not self._emptied(wait=wait_s > 0):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _emptied(self, *, wait: bool) -> bool:
        """Try once. SQLite would keep the write lock as long as it waits for readers, so it may not wait."""
        if not wait:
            if not self._writing.acquire(blocking=False):
                return False
            self._writing.release()
        with self._lent(self._writing) as connection, _timeout(connection, 0):
            busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        return not busy

    def close(self) -> None:
        """Close all idle connections; lent ones are closed when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            self._discard(connection)

    @contextmanager
    def _lent(self, turn: forking.Lock | None = None) -> Iterator[sqlite3.Connection]:
        """Lend a connection, while holding `turn` when given."""
        forking.enter()
        if turn is not None:
            turn.acquire()
        try:
            connection = self._taken()
            try:
                with mapped_errors(self.path):
                    yield connection
            finally:
                self._give_back(connection)
        finally:
            if turn is not None:
                turn.release()
            forking.leave()
            if self.on_return is not None:
                self.on_return()

    def _taken(self) -> sqlite3.Connection:
        if not self._closed:
            files.refuse_other(self.path, self._file)
        with self._lock:
            if self._closed:
                raise StoreError(f"{self.path}: the store is closed")
            if self._idle:
                return self._idle.pop()
        with mapped_errors(self.path):
            return self._connect()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if connection not in self._opened:
            return  # it is the parent's
        with self._lock:
            keep = not self._closed
            if keep:
                self._idle.append(connection)
        if not keep:
            self._discard(connection)

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        """End the transaction, unless it is the parent's; after some errors SQLite has ended it already."""
        if connection.in_transaction and connection in self._opened:
            connection.execute("ROLLBACK")


@contextmanager
def _timeout(connection: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Another busy timeout for some statements."""
    connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(BUSY_TIMEOUT_S * 1000)}")


def _write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite doesn't wait on this one statement when several processes open a new file, so we do."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise StoreError(f"SQLite can't use a write-ahead log here (journal mode {mode!r})")
        return
