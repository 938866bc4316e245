from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from store_samples import build, draft, raw

from backread.errors import SchemaTooNewError, StoreCorruptError, StoreError
from backread.store.migrations import APPLICATION_ID, MIGRATIONS
from backread.store.sqlite import SqliteStore

RELEASED = [
    (1, "spine", "bd94ba084e69f2af6d50b51e265e4d38d529dbd24ffa7c5497d7aa5c5cd71bf1"),
]
"""Never edited once released: a change of the schema is a migration of its own, and a line of its own here."""


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def test_migrations_are_those_that_were_released() -> None:
    assert [(item.number, item.name, item.sha256) for item in MIGRATIONS] == RELEASED


def test_a_fresh_file_says_what_it_is_and_what_ran(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    SqliteStore(path).close()
    with raw(path) as db:
        assert db.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert APPLICATION_ID.to_bytes(4, "big") == b"BRD1"
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("SELECT number, name, sha256 FROM migrations").fetchall() == RELEASED
        assert {row[0] for row in db.execute("SELECT name FROM meta")} == {"secret", "analyzer"}


def test_two_stores_have_two_secrets(tmp_path: Path) -> None:
    secrets = set()
    for name in ("a.db", "b.db"):
        SqliteStore(tmp_path / name).close()
        with raw(tmp_path / name) as db:
            secrets.add(db.execute("SELECT value FROM meta WHERE name = 'secret'").fetchone()[0])
    assert len(secrets) == 2
    assert {len(secret) for secret in secrets} == {16}


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    build(path)
    before = files(tmp_path)
    for _ in range(2):
        with closing(SqliteStore(path)) as store:
            store.layout("ann")
    assert files(tmp_path) == before


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.touch()
    with closing(SqliteStore(path)) as store:
        assert store.append("ann", [draft("hello")])[0].new
        assert store.verify().ok


def test_a_file_that_is_half_made_is_finished(tmp_path: Path) -> None:
    """A crash can leave a file that is marked and in WAL mode, but has no tables."""
    path = tmp_path / "memory.db"
    with raw(path) as db:
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("PRAGMA journal_mode = WAL")
    with closing(SqliteStore(path)) as store:
        assert store.verify().ok


def test_a_store_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    build(path)
    with raw(path) as db:
        db.execute("INSERT INTO migrations VALUES (?, 'later', 'abc', 1, x'00')", (len(MIGRATIONS) + 1,))
    before = files(tmp_path)
    with pytest.raises(SchemaTooNewError, match=f"schema {len(MIGRATIONS) + 1}") as caught:
        SqliteStore(path)
    assert "update backread" in (caught.value.hint or "")
    assert files(tmp_path) == before


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "other.db"
    with raw(path) as db:
        db.execute(f"PRAGMA journal_mode = {mode}")
        db.execute("CREATE TABLE meta(name, value)")
        db.execute("INSERT INTO meta VALUES ('secret', x'00')")
    before = files(tmp_path)
    with pytest.raises(StoreCorruptError, match="not a backread store") as caught:
        SqliteStore(path)
    assert caught.value.hint
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "content", [b"a note to myself\n" * 400, b"xy", b"SQLite format 3\0" + bytes(4080), bytes(4096)]
)
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(StoreCorruptError, match=r"notes\.txt") as caught:
        SqliteStore(path)
    assert caught.value.hint
    assert files(tmp_path) == {"notes.txt": content}


@pytest.mark.parametrize("name", [".", "file/memory.db", "file/deeper/memory.db"])
def test_a_path_that_cannot_be_a_file_is_a_store_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError) as caught:
        SqliteStore(tmp_path / name)
    assert not isinstance(caught.value, StoreCorruptError)
    assert caught.value.hint


def test_the_file_and_its_companions_are_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "memory.db"
    previous = os.umask(0)
    try:
        with closing(SqliteStore(path)) as store:
            store.append("ann", [draft("hello")])
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(previous)
    assert modes == {"memory.db": 0o600, "memory.db-wal": 0o600, "memory.db-shm": 0o600}


def test_a_failed_migration_leaves_no_half_made_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "memory.db"
    broken = (*MIGRATIONS[0].statements, "CREATE TABLE turns(again)")
    monkeypatch.setattr(type(MIGRATIONS[0]), "sha256", "x")
    monkeypatch.setattr("backread.store.migrations.MIGRATIONS", (type(MIGRATIONS[0])(1, "spine", broken),))
    with pytest.raises(StoreError, match="already exists"):
        SqliteStore(path)
    monkeypatch.undo()
    with raw(path) as db:
        assert db.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    with closing(SqliteStore(path)) as store:
        assert store.verify().ok


def test_a_full_disk_is_a_store_error_and_the_store_goes_on(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "memory.db")) as store:
        store.append("ann", [draft("before")])
        with store._pool.write() as db:
            pages = db.execute("PRAGMA page_count").fetchone()[0]
            db.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreError, match="full") as caught:
            store.append("ann", [draft("x" * 100_000)])
        assert "disk space" in (caught.value.hint or "")
        with store._pool.write() as db:
            db.execute("PRAGMA max_page_count = 1000000")
        store.append("ann", [draft("after")])
        assert [turn.text for turn in store.turns_by_doc("ann", store.layout("ann").docs.tolist())] == [
            "before",
            "after",
        ]
        assert store.verify().ok


LOCKS = """
import sys
from backread.store.sqlite import SqliteStore
from backread.types import TurnDraft
path = sys.argv[1]
first = SqliteStore(path)
first.append("ann", [TurnDraft("s", "user", "one")])
SqliteStore(path).layout("ann")  # opening the path again must not drop the locks of the first
print("ready", flush=True)
sys.stdin.readline()  # meanwhile another process opens the store and closes it
first.append("ann", [TurnDraft("s", "user", "two")])
print("done", flush=True)
sys.stdin.readline()
"""


def test_opening_a_path_twice_keeps_the_locks_of_the_first(tmp_path: Path) -> None:
    """Else the other process believes to be the last one and deletes the log that is still written to."""
    path = tmp_path / "memory.db"
    command = [sys.executable, "-c", LOCKS, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert re.match("ready", process.stdout.readline())
        SqliteStore(path).close()
        process.stdin.write("go\n")
        process.stdin.flush()
        assert re.match("done", process.stdout.readline())
        with closing(SqliteStore(path)) as store:
            assert store.stats("ann").turns == 2
        process.stdin.write("end\n")
        process.stdin.flush()
