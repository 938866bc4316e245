"""A copy of a store that is in use."""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import closing
from pathlib import Path

import pytest
from store_samples import build, draft, raw

from backread.errors import InvalidInputError, StoreCorruptError, StoreError
from backread.store.sqlite import SqliteStore


def texts(path: Path, user: str) -> list[str]:
    with closing(SqliteStore(path)) as store:
        assert store.verify().ok
        return [turn.text for turn in store.turns_by_doc(user, store.layout(user).docs.tolist())]


def test_a_copy_has_what_is_in_the_log_and_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with closing(SqliteStore(tmp_path / "m.db")) as store:
            store.append("ann", [draft("in the log")])
            made = store.backup(tmp_path / "copy.db")
    finally:
        os.umask(before)
    copy = tmp_path / "copy.db"
    content = copy.read_bytes()
    assert (made.path, made.users, made.sessions, made.turns, made.entries) == (copy, 1, 1, 1, 0)
    assert (made.bytes, made.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert copy.stat().st_mode & 0o777 == 0o600
    assert texts(copy, "ann") == ["in the log"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.db", "m.db"]


def test_writers_go_on_and_the_copy_is_of_one_moment(tmp_path: Path) -> None:
    stop = threading.Event()
    with closing(SqliteStore(tmp_path / "m.db")) as store:
        store.append("ann", [draft(f"turn {number}") for number in range(300)])

        def write() -> None:
            while not stop.is_set():
                store.append("bo", [draft("one"), draft("two")])

        writer = threading.Thread(target=write)
        writer.start()
        made = [store.backup(tmp_path / f"{number}.db") for number in range(3)]
        stop.set()
        writer.join()
        assert store.stats().turns >= made[-1].turns
    for number, backup in enumerate(made):
        assert len(texts(tmp_path / f"{number}.db", "ann")) == 300
        assert (backup.turns - 300) % 2 == 0


def test_what_is_there_is_only_replaced_when_asked(tmp_path: Path) -> None:
    build(tmp_path / "m.db")
    taken = tmp_path / "taken.db"
    taken.write_text("mine")
    taken.with_name("taken.db-wal").write_text("an old log")
    with closing(SqliteStore(tmp_path / "m.db")) as store:
        with pytest.raises(InvalidInputError, match="there already"):
            store.backup(taken)
        assert taken.read_text() == "mine"
        store.backup(taken, overwrite=True)
        for own in ("m.db", "m.db-wal", "m.db-shm"):
            with pytest.raises(InvalidInputError, match="the store itself"):
                store.backup(tmp_path / own, overwrite=True)
        (tmp_path / "link.db").symlink_to(tmp_path / "m.db")
        with pytest.raises(InvalidInputError, match="the store itself"):
            store.backup(tmp_path / "link.db", overwrite=True)
    assert not taken.with_name("taken.db-wal").exists()
    assert len(texts(taken, "ann")) == 6


def test_a_damaged_store_makes_no_copy(tmp_path: Path) -> None:
    build(tmp_path / "m.db")
    with raw(tmp_path / "m.db") as db:
        db.execute("UPDATE turns SET text = flip(text) WHERE doc = 1")
    with closing(SqliteStore(tmp_path / "m.db")) as store:
        with pytest.raises(StoreCorruptError, match="faults"):
            store.backup(tmp_path / "copy.db")
        with pytest.raises(StoreError):
            store.backup(tmp_path / "no" / "folder.db")
    assert not list(tmp_path.glob("*copy*"))
