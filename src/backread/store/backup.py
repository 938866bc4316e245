"""A copy of a store that is in use, and the way a finished file takes its name."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from backread.errors import InvalidInputError, StoreError
from backread.store.ann_file import sync_folder

__all__ = ["copied", "placed", "sha256_of"]

_PAGES = 4096  # copied at a time, so that Ctrl-C is heard
_LOGS = ("-wal", "-shm")


@contextmanager
def placed(target: Path, sources: tuple[Path, ...], *, overwrite: bool) -> Iterator[Path]:
    """A new file, readable by its owner only, that becomes `target` in one step when the block ends.

    Args:
        target: where it goes.
        sources: files that must not be overwritten whatever is asked.
        overwrite: take the place of a file that is there.

    Raises:
        InvalidInputError: something is there, or it is one of `sources`.
        StoreError: it can't be written.
    """
    target = target.expanduser().absolute()
    taken = [path for path in (target, *(target.with_name(target.name + end) for end in _LOGS)) if path.exists()]
    for source in sources:
        logs = tuple(source.absolute().with_name(source.name + end) for end in _LOGS)
        if target in logs or any(path.samefile(source) for path in taken if source.exists()):
            raise InvalidInputError(f"{target} is the store itself", hint="choose another path")
    if taken and not overwrite:
        raise InvalidInputError(f"{taken[0]} is there already", hint="choose another path, or say --force")
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        if overwrite:
            for end in _LOGS:  # an old log must never meet the new file
                target.with_name(target.name + end).unlink(missing_ok=True)
            os.replace(temporary, target)
        else:
            os.link(temporary, target)
        sync_folder(target.parent)
    except FileExistsError:
        raise InvalidInputError(f"{target} is there already", hint="choose another path, or say --force") from None
    except OSError as error:
        raise StoreError(f"{target} can't be written: {error.strerror}", hint="choose another path") from error
    finally:
        for end in ("", *_LOGS) if temporary is not None else ():
            Path(f"{temporary}{end}").unlink(missing_ok=True)


def copied(db: sqlite3.Connection, target: Path) -> None:
    """Copy the database as the open read transaction sees it; writers go on meanwhile."""
    with closing(sqlite3.connect(target)) as copy:
        db.backup(copy, pages=_PAGES)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
