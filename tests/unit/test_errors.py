"""The error tree: drawn as it is, listed as it is, and nothing of a driver gets past it."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from backread import errors
from backread.errors import BackreadError, StoreBusyError, StoreCorruptError, StoreError
from backread.store.connection import mapped_errors
from backread.store.sqlite import SqliteStore
from backread.types import TurnDraft

_DRAWN = re.compile(r"^(?P<lead>[│ ├└─]*)(?P<name>[A-Z]\w+)(?: \((?P<also>\w+)\))?\s{2,}\S")


def drawn() -> dict[str, set[str]]:
    """Class name to the names of its bases, as the header of `errors.py` draws them."""
    tree: dict[str, set[str]] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").split("```")[1].splitlines():
        match = _DRAWN.match(line)
        if match is None:
            assert not line.strip(), f"can't read this line of the tree: {line!r}"
            continue
        depth = len(match["lead"]) // 4
        del above[depth:]
        bases = {above[-1]} if above else {"Exception"}
        tree[match["name"]] = bases | ({match["also"]} if match["also"] else set())
        above.append(match["name"])
    return tree


def real() -> dict[str, set[str]]:
    found = [item for item in vars(errors).values() if isinstance(item, type) and item.__module__ == errors.__name__]
    return {item.__name__: {base.__name__ for base in item.__bases__} for item in found}


def test_the_tree_in_the_header_is_the_tree() -> None:
    assert drawn() == real()


def test_every_error_is_listed_in_order() -> None:
    assert errors.__all__ == sorted(real())


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_says_when_it_is_raised_and_carries_a_hint(name: str) -> None:
    kind = getattr(errors, name)
    error = kind("what was wrong", hint="what to do")
    assert isinstance(error, BackreadError)
    assert (str(error), error.hint) == ("what was wrong", "what to do")
    assert kind.__doc__
    assert kind("alone").hint is None


def test_a_directory_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=re.escape(str(tmp_path))):
        SqliteStore(tmp_path)


def test_a_file_that_is_not_a_database_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"these are notes, not a database\n" * 64)
    with pytest.raises(StoreCorruptError, match=r"notes\.txt"):
        SqliteStore(path)
    assert path.read_bytes().startswith(b"these are notes")


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE notes (text TEXT)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorruptError, match="not a backread store"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "m.db")
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.append("ann", [TurnDraft("s", "user", "hello")])


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (sqlite3.OperationalError("database is locked"), StoreBusyError),
        (sqlite3.DatabaseError("database disk image is malformed"), StoreCorruptError),
        (sqlite3.OperationalError("disk I/O error"), StoreError),
        (sqlite3.IntegrityError("UNIQUE constraint failed: turns.turn_id"), StoreError),
        (sqlite3.ProgrammingError("Cannot operate on a closed database."), StoreError),
    ],
)
def test_no_error_of_the_driver_gets_out(tmp_path: Path, raised: sqlite3.Error, expected: type[StoreError]) -> None:
    with pytest.raises(expected) as caught, mapped_errors(tmp_path / "m.db"):
        raise raised
    assert caught.value.__cause__ is raised
