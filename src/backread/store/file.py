"""The database file as the system sees it: private, the one that was opened, and beside its own log."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from backread.errors import StoreError, StoreReplacedError

__all__ = ["Identity", "create_private", "identity", "loose", "refuse_foreign_log", "refuse_other"]

Identity = tuple[int, int]

_WAL_HEADER_BYTES = 32
_WRITE_VERSION_AT = 18  # of the database header: 1 before its first log, 2 since


def create_private(path: Path) -> None:
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


def identity(path: Path) -> Identity | None:
    """What tells the file from another that took its name, None when there is none: device and inode."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def refuse_other(path: Path, opened: Identity | None) -> None:
    """Make sure that the name still stands for the file that was opened.

    Raises:
        StoreReplacedError: another file has it, or none: what is written now would be in neither.
    """
    found = identity(path)
    if found != opened:
        what = "is gone" if found is None else "was replaced by another file"
        raise StoreReplacedError(
            f"{path}: the file that was opened {what}; nothing was written",
            hint="open the store again; before a backup is restored, stop all that uses the store",
        )


def refuse_foreign_log(path: Path) -> None:
    """Make sure that a log beside the file may be its own.

    SQLite adds any log that lies beside a database to it. A copy made by `backread backup` or `VACUUM INTO` had no log
    yet, which its header says; so one that lies beside it is of the file that was there before. Must not be called
    while this process has the file open, see `create_private`.

    Raises:
        StoreReplacedError: it is another file's.
    """
    log = path.with_name(path.name + "-wal")
    with contextlib.suppress(OSError):  # what can't be read is left to SQLite to tell
        if log.stat().st_size <= _WAL_HEADER_BYTES:
            return
        with path.open("rb") as file:
            header = file.read(_WRITE_VERSION_AT + 1)
        if header[_WRITE_VERSION_AT:] == b"\1":
            raise StoreReplacedError(
                f"{log} is the log of another file that was at {path} before; nothing was read or written",
                hint=f"stop all that uses the store, move {log.name} and {path.name}-shm away, and open it again",
            )


def loose(path: Path) -> list[Path]:
    """The store's files and folders that others on this machine may read or write, itself first."""
    if os.name != "posix":
        return []
    beside = [path.with_name(path.name + end) for end in ("-wal", "-shm", ".ann")]
    found = [path, *beside, *sorted(beside[-1].glob("*"))]
    open_ = []
    for file in found:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_IMODE(file.stat().st_mode) & 0o077:
                open_.append(file)
    return open_
