"""The file that was opened is the one that is read and written, or there is an error."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from store_samples import draft

from backread.errors import SchemaTooNewError, StoreError, StoreReplacedError
from backread.store.file import loose
from backread.store.migrations import migration_sum
from backread.store.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as store:
        store.append("ann", [draft(f"kept {n}") for n in range(20)])
        yield store


def copy_of(store: SqliteStore, to: Path) -> Path:
    """A backup as SQLite makes one of a store in use."""
    with closing(sqlite3.connect(store.path)) as db:
        db.execute("VACUUM INTO ?", (str(to),))
    return to


def texts(store: SqliteStore, user: str = "ann") -> list[str]:
    return [turn.text for turn in store.turns_by_doc(user, store.layout(user).docs.tolist())]


CALLS: dict[str, Callable[[SqliteStore], object]] = {
    "append": lambda store: store.append("ann", [draft("lost?")]),
    "delete": lambda store: store.delete("ann"),
    "scrub": lambda store: store.scrub(),
    "read": lambda store: store.layout("ann"),
    "verify": lambda store: store.verify(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("what", ["replaced", "removed"])
def test_a_file_that_was_changed_underneath_is_neither_read_nor_written(
    store: SqliteStore, path: Path, tmp_path: Path, what: str, call: Callable[[SqliteStore], object]
) -> None:
    if what == "replaced":
        copy_of(store, tmp_path / "backup.db").replace(path)
    else:
        path.unlink()
    before = path.read_bytes() if path.exists() else b""
    with pytest.raises(StoreReplacedError, match=r"replaced" if what == "replaced" else "is gone") as caught:
        call(store)
    assert "open the store again" in (caught.value.hint or "")
    assert (path.read_bytes() if path.exists() else b"") == before


def test_a_write_under_which_the_file_is_replaced_is_no_write(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    backup = copy_of(store, tmp_path / "backup.db")

    def write() -> None:
        with store._pool.write() as db:
            db.execute("UPDATE users SET version = version + 1")
            backup.replace(path)

    with pytest.raises(StoreReplacedError):
        write()


def test_a_restored_backup_is_what_it_was(path: Path, tmp_path: Path) -> None:
    """The old log isn't added to it, whoever left it: a process that runs on, or one that was killed."""
    old = SqliteStore(path)
    old.append("ann", [draft("in the backup")])
    copy_of(old, tmp_path / "backup.db")
    old.append("ann", [draft("after the backup")])
    (tmp_path / "backup.db").replace(path)
    with pytest.raises(StoreReplacedError, match=r"memory\.db-wal is the log of another file") as caught:
        SqliteStore(path)
    assert "move memory.db-wal" in (caught.value.hint or "")
    old.close()
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    with closing(SqliteStore(path)) as store:
        assert texts(store) == ["in the backup"]
        assert store.append("ann", [draft("after the restore")])[0].new
        assert store.verify().ok
    with closing(SqliteStore(path)) as store:
        assert texts(store) == ["in the backup", "after the restore"]


def test_the_log_of_a_process_that_was_killed_is_still_added(store: SqliteStore, tmp_path: Path) -> None:
    (folder := tmp_path / "copy").mkdir()
    for end in ("", "-wal"):
        shutil.copy(store.path.with_name(store.path.name + end), folder / ("memory.db" + end))
    with closing(SqliteStore(folder / "memory.db")) as other:
        assert len(texts(other)) == 20


def test_a_file_that_is_cut_is_an_error(store: SqliteStore, path: Path) -> None:
    """A mapped file would kill the process."""
    store.append("ann", [draft(f"kept as well {n} " * 20) for n in range(2000)])
    store.scrub()
    with store._pool.read():  # so that connections are opened that know no page yet
        os.truncate(path, 8192)
        with pytest.raises(StoreError):
            texts(store)
        with pytest.raises(StoreError):
            store.append("ann", [draft("more")])


def test_another_folder_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # STO-01
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with closing(SqliteStore("memory.db")) as store:
            store.append("ann", [draft(f"the {name} project")])
    monkeypatch.chdir(tmp_path / "one")
    with closing(SqliteStore("memory.db")) as store:
        monkeypatch.chdir(tmp_path / "two")
        with store._pool.read(), store._pool.read():  # so that connections are opened now
            assert texts(store) == ["the one project"]
            store.append("ann", [draft("more of one")])
        store.scrub()
        assert store.stats().bytes >= (tmp_path / "one" / "memory.db").stat().st_size
    with closing(SqliteStore("memory.db")) as store:
        assert texts(store) == ["the two project"]
    with closing(SqliteStore(tmp_path / "one" / "memory.db")) as store:
        assert texts(store) == ["the one project", "more of one"]


def test_a_link_and_its_file_are_one_store(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with closing(SqliteStore(link)) as other:
        assert other.path == path.resolve()
        assert other._ann.folder == store._ann.folder


def test_a_newer_schema_is_noticed_by_a_store_that_is_open(store: SqliteStore, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        row = (99, "later", "0" * 64, 0)
        db.execute("INSERT INTO migrations VALUES (?, ?, ?, ?, ?)", (*row, migration_sum(*row)))
    with pytest.raises(SchemaTooNewError):
        store.append("ann", [draft("more")])
    with pytest.raises(SchemaTooNewError):
        store.delete("ann")
    assert len(texts(store)) == 20


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_files_that_others_may_read_are_named(store: SqliteStore, path: Path) -> None:
    assert loose(path) == []
    assert store.verify().notices == ()
    path.chmod(0o644)
    (folder := path.with_name("memory.db.ann")).mkdir(mode=0o700)
    (index := folder / "1-x.usearch").write_bytes(b"")
    index.chmod(0o640)
    folder.chmod(0o755)
    assert loose(path) == [path, folder, index]
    notices = store.verify().notices
    assert len(notices) == 3
    assert "chmod 600" in notices[0]
    assert "chmod 700" in notices[1]
