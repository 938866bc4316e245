"""SQLite connections: opened the same way everywhere, lent out one caller at a time, errors mapped once."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backread.errors import StoreBusyError, StoreCorruptError, StoreError
from backread.store.migrations import migrate, refuse_foreign

__all__ = ["ConnectionPool", "mapped_errors"]

BUSY_TIMEOUT_S = 60.0
_MMAP_BYTES = 256 * 1024 * 1024


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

    Args:
        path: the database file; created with mode 0600, with its folder, when missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._closed = False
        with mapped_errors(path):
            _create_private(path)
            connection = self._connect()
            try:
                migrate(connection)
            except BaseException:
                connection.close()
                raise
        self._idle.append(connection)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            refuse_foreign(connection)  # before anything below can write to the file
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute(f"PRAGMA mmap_size = {_MMAP_BYTES}")
            connection.execute("PRAGMA temp_store = MEMORY")
            _write_ahead_log(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection inside one read transaction: everything read is of one moment."""
        with self._lent() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                _roll_back(connection)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection inside one write transaction; durable when the block ends, undone when it raises."""
        with self._writing, self._lent() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                _roll_back(connection)
                raise

    def scrub(self) -> None:
        """Leave no byte of erased rows: write the file anew, then empty the log. Costs a rewrite of the file.

        `secure_delete` alone isn't enough: when SQLite balances a B-tree it leaves copies of the cells it moved in the
        unused middle of pages, and a row deleted later is overwritten in its last place only.
        """
        with self._writing, self._lent() as connection:
            connection.execute("PRAGMA temp_store = FILE")  # the copy has only what is kept; it may not fit in memory
            connection.execute("VACUUM")
            connection.execute("PRAGMA temp_store = MEMORY")
        self.empty_log()

    def empty_log(self) -> None:
        """Move the write-ahead log into the file and cut it to nothing.

        Raises:
            StoreBusyError: a reader kept it from being emptied; what was erased may still be in it.
        """
        deadline = time.monotonic() + BUSY_TIMEOUT_S
        with self._writing, self._lent() as connection:
            # SQLite waits for readers, but not for another process that does the same.
            while (busy := connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]) and (
                time.monotonic() < deadline
            ):
                time.sleep(0.01)
        if busy:
            raise StoreBusyError(
                f"{self.path}: deleted, but another reader kept the log from being emptied for {BUSY_TIMEOUT_S:.0f} s",
                hint="delete once more when nothing reads this store, and the last bytes are gone too",
            )

    def close(self) -> None:
        """Close all idle connections; lent ones are closed when they come back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._closed:
                raise StoreError(f"{self.path}: the store is closed")
            connection = self._idle.pop() if self._idle else None
        with mapped_errors(self.path):
            if connection is None:
                connection = self._connect()
            try:
                yield connection
            finally:
                with self._lock:
                    keep = not self._closed
                    if keep:
                        self._idle.append(connection)
                if not keep:
                    connection.close()


def _create_private(path: Path) -> None:
    """Create the file readable by its owner only: it holds people's conversations.

    A file that is there isn't opened: closing it again would drop the locks SQLite holds on it in this process
    (https://www.sqlite.org/howtocorrupt.html, section 2.2).
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if path.parent.is_dir():
            return
        raise StoreError(f"{path}: its folder is a file", hint="choose a path that can be written") from None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}", hint="choose a path that can be written") from error


def _roll_back(connection: sqlite3.Connection) -> None:
    """End the transaction; after some errors, such as a full disk, SQLite has ended it already."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


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
