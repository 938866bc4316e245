"""A scrub that is due is named, never keeps others waiting, and is finished later."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from store_samples import draft, entry

from backread.errors import StoreBusyError
from backread.store.sqlite import SqliteStore

WORD = "zebra-7731"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def fill(store: SqliteStore, turns: int = 60) -> str:
    """A history around one turn with the word and an entry that has it too; the turn's id."""
    store.append("ann", [draft(f"before {n}") for n in range(turns)])
    (item,) = store.append("ann", [draft(f"the code is {WORD}", "a session")])
    store.append("ann", [draft(f"after {n}") for n in range(turns)])
    store.commit("ann", "lean", 0, [entry("e", f"a note on {WORD}", item.turn_id or "")])
    return item.turn_id or ""


def left(path: Path) -> bool:
    """Whether the word is in any of the files."""
    return any(WORD.encode() in file.read_bytes() for file in path.parent.rglob("*") if file.is_file())


@contextmanager
def reader(path: Path) -> Iterator[None]:
    """Another program that reads the store from before what the block does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM turns").fetchone()
        yield
        db.execute("ROLLBACK")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backread.store.sqlite.SCRUB_WAIT_S", 0.05)


@pytest.mark.usefixtures("quick")
class TestAReader:
    def test_a_delete_beside_one_is_told_as_pending_and_the_next_finishes(self, path: Path) -> None:
        with closing(SqliteStore(path)) as store:
            turn = fill(store)
            with reader(path):
                receipt = store.delete("ann", turn_ids=[turn])
                assert (receipt.turns, receipt.entries, receipt.pending_scrub) == (1, 1, True)
                assert store.docs_of_turns("ann", [turn]) == {}
                report = store.verify()
                assert report.ok
                assert "scrub" in report.notices[0]
                assert "not finished" in report.notices[0]
                assert left(path)
            again = store.delete("ann", turn_ids=[turn])
            assert (again.turns, again.pending_scrub) == (0, False)
            assert not left(path)
            assert store.verify().notices == ()

    def test_scrubbing_beside_one_says_so(self, path: Path) -> None:
        with closing(SqliteStore(path)) as store:
            turn = fill(store)
            store.delete("ann", turn_ids=[turn], scrub=False)
            with reader(path), pytest.raises(StoreBusyError, match="stays due"):
                store.scrub()
            store.scrub()
            assert not left(path)
            assert store.verify().notices == ()

    def test_the_next_call_after_it_finishes(self, path: Path) -> None:
        with closing(SqliteStore(path)) as store:
            turn = fill(store)
            with reader(path):
                assert store.delete("ann", turn_ids=[turn]).pending_scrub
            time.sleep(0.15)  # it doesn't look all the time
            store.users()
            assert not left(path)
            assert store.verify().notices == ()

    def test_opening_finishes_what_another_process_left(self, path: Path) -> None:
        with closing(SqliteStore(path)) as store:
            turn = fill(store)
            with reader(path):
                assert store.delete("ann", turn_ids=[turn]).pending_scrub
            with closing(SqliteStore(path)) as other:
                assert not left(path)
                assert other.verify().notices == ()

    def test_a_log_that_is_emptied_by_closing_leaves_nothing_due(self, path: Path) -> None:
        with closing(SqliteStore(path)) as store:
            turn = fill(store)
            with reader(path):
                assert store.delete("ann", turn_ids=[turn]).pending_scrub
        assert not left(path)
        with closing(SqliteStore(path)) as store:
            assert store.verify().notices == ()

    def test_one_keeps_no_writer_waiting(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Writes of this process and of another connection go on while a delete waits for a reader."""
        monkeypatch.setattr("backread.store.sqlite.SCRUB_WAIT_S", 1.0)
        with closing(SqliteStore(path)) as store, closing(SqliteStore(path)) as other:
            turn = fill(store)
            written: list[int] = []
            pending: list[bool] = []

            def delete() -> None:
                pending.append(store.delete("ann", turn_ids=[turn]).pending_scrub)

            with reader(path):
                deleting = threading.Thread(target=delete)
                deleting.start()
                while store.docs_of_turns("ann", [turn]):
                    time.sleep(0.005)
                while deleting.is_alive():
                    for at, writer in enumerate((store, other)):
                        writer.append("bo", [draft(f"goes on {len(written)}")])
                        written.append(at)
                deleting.join()
            assert pending == [True]
            assert min(written.count(0), written.count(1)) >= 5
            assert store.delete("ann", turn_ids=[turn]).pending_scrub is False
            assert not left(path)
            assert store.verify().ok


def test_deleting_without_scrubbing_is_due_until_somebody_asks(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        turn = fill(store)
        assert store.delete("ann", turn_ids=[turn], scrub=False).pending_scrub
        assert "without scrubbing" in store.verify().notices[0]
    with closing(SqliteStore(path)) as store:  # opening doesn't: nobody asked for it
        assert "without scrubbing" in store.verify().notices[0]
        assert store.delete("ann", turn_ids=["nothing"], scrub=False).pending_scrub
        assert store.delete("ann", turn_ids=["nothing"]).pending_scrub is False
        assert store.verify().notices == ()


def test_a_delete_without_scrubbing_leaves_what_was_asked_for_before(path: Path, quick: None) -> None:
    with closing(SqliteStore(path)) as store:
        turn = fill(store)
        others = [item.turn_id or "" for item in store.append("ann", [draft("one"), draft("two")])]
        with reader(path):
            assert store.delete("ann", turn_ids=[turn]).pending_scrub
            assert store.delete("ann", turn_ids=others[:1], scrub=False).pending_scrub
        assert store.delete("ann", turn_ids=others[1:], scrub=False).pending_scrub is False
        assert not left(path)


def test_a_damaged_mark_is_worked_off_in_full(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        turn = fill(store)
        store.delete("ann", turn_ids=[turn], scrub=False)
        with store._pool.write() as db:
            db.execute("UPDATE meta SET value = x'ff00' WHERE name = 'scrub'")
        assert [fault.where for fault in store.verify().faults] == ["meta"]
    with closing(SqliteStore(path)) as store:
        assert store.verify().ok
        assert store.verify().notices == ()
        assert not left(path)


def test_deletes_side_by_side_leave_nothing(path: Path) -> None:
    with closing(SqliteStore(path)) as one, closing(SqliteStore(path)) as two:
        ids = [item.turn_id or "" for item in one.append("ann", [draft(f"{WORD} {n}") for n in range(24)])]
        pending: list[bool] = []

        def delete(store: SqliteStore, mine: list[str]) -> None:
            pending.extend(store.delete("ann", turn_ids=[turn]).pending_scrub for turn in mine)

        threads = [
            threading.Thread(target=delete, args=(store, ids[at::4])) for at, store in enumerate((one, two, one, two))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(pending) == 24
        assert one.delete("ann", turn_ids=["nothing"]).pending_scrub is False
        assert not left(path)
        assert one.verify().ok
        assert one.verify().notices == ()
