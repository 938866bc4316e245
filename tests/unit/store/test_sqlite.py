"""What is particular to the SQLite engine; what every engine must do is in the contract."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from store_samples import draft, entry, raw

from backread.errors import ModelMismatchError, NotFoundError, StoreBusyError, StoreError
from backread.store.base import TURNS, Progress
from backread.store.migrations import meta_sum
from backread.store.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "memory.db")) as store:
        yield store


def test_a_writer_that_waits_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backread.store.connection.BUSY_TIMEOUT_S", 0.05)
    path = tmp_path / "memory.db"
    with closing(SqliteStore(path)) as one, closing(SqliteStore(path)) as two:
        with one._pool.write(), pytest.raises(StoreBusyError, match="write lock") as caught:
            two.append("ann", [draft("waits")])
        assert caught.value.hint
        assert two.append("ann", [draft("gets its turn")])[0].new


def test_what_raises_inside_a_transaction_is_undone(store: SqliteStore) -> None:
    def fail() -> None:
        with store._pool.write() as db:
            db.execute("INSERT INTO users VALUES (7, x'61', 0, 0)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with store._pool.read() as db:
        assert db.execute("SELECT count(*) FROM users").fetchone() == (0,)
    assert store.append("ann", [draft("after")])[0].new


def test_a_connection_lent_out_is_closed_when_it_comes_back(store: SqliteStore) -> None:
    with store._pool.read() as db:
        store.close()
        db.execute("SELECT count(*) FROM turns").fetchone()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        db.execute("SELECT 1")


def test_a_database_without_a_log_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="write-ahead log"):
        SqliteStore(":memory:")


def test_the_memory_of_layouts_is_bounded(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backread.store.sqlite._CACHED_ROWS", 5)
    for number in range(4):
        store.append(f"user {number}", [draft("a"), draft("b")])
        assert store.layout(f"user {number}").size == 2
    assert len(store._layouts) == 2
    assert store.layout("user 0").size == 2
    assert store.layout("user 0") is store.layout("user 0")


def test_an_index_of_another_analyzer_is_not_searched_and_still_erased(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with closing(SqliteStore(path)) as store:
        (gone, _) = store.append("ann", [draft("kettle"), draft("lamp")])
    with raw(path) as db:
        db.execute("UPDATE postings SET term = term + 1")
        db.execute(
            "UPDATE meta SET value = ?, sum = ? WHERE name = 'analyzer'",
            (b"backread-0", meta_sum("analyzer", b"backread-0")),
        )
    with closing(SqliteStore(path)) as store:
        assert "backread-0" in repr(store.stale_analyzer)
        assert store.append("ann", [draft("kept")])[0].new
        assert store.delete("ann", turn_ids=[gone.turn_id or ""]).postings == 2  # the stem and the exact form
        with raw(path) as db:
            assert db.execute("SELECT count(*) FROM postings").fetchone() == (2,)
        assert store.rebuild_text_index() == 2
        assert not store.stale_analyzer
        assert len(store.postings("ann", TURNS, ["lamp"])[0].docs) == 1
        assert store.verify().ok


def test_vectors_of_another_dimension_under_one_name_are_refused(store: SqliteStore) -> None:
    store.append("ann", [draft("a"), draft("b")])
    first, second = np.sort(store.layout("ann").docs).tolist()
    ones = np.ones((1, 4), np.float32)
    store.put_vectors("ann", TURNS, "m", Progress(0, 0), np.array([first]), ones, Progress(second, 0))
    longer = np.ones((1, 6), np.float32)
    with pytest.raises(ModelMismatchError, match="6 dimensions, stored are 4"):
        store.put_vectors("ann", TURNS, "m", Progress(second, 0), np.array([second]), longer, Progress(second + 1, 0))
    assert store.progress("ann", TURNS, "m") == Progress(second, 0)


def test_entries_wait_for_vectors_by_their_index_text(store: SqliteStore) -> None:
    (turn,) = store.append("ann", [draft("kettle", speaker="Ann")])
    store.commit("ann", "lean", 0, [entry("e1", "owns a kettle", turn.turn_id or "")])
    (waiting,) = store.pending("ann", "lean/event", "m", 5)
    assert (waiting.header, waiting.text) == ("", "owns a kettle")
    assert store.pending_count("ann", "m") == 2


def test_a_commit_can_drop_what_it_puts_again(store: SqliteStore) -> None:
    (turn,) = store.append("ann", [draft("kettle")])
    note = entry("e1", "owns a kettle", turn.turn_id or "")
    store.commit("ann", "lean", 0, [note])
    assert store.commit("ann", "lean", 1, [note], drop=["e1", "absent"]) == 2
    assert [item.version for item in store.entries("ann", "lean")] == [2]
    assert store.verify().ok


def test_a_commit_for_an_unknown_user_is_refused(store: SqliteStore) -> None:
    with pytest.raises(NotFoundError, match="no user"):
        store.commit("nobody", "lean", 0)


def test_blocks_of_vectors_grow_with_a_user_and_shrink_with_deletes(store: SqliteStore) -> None:
    """4 rows, then 16, then 64 a block; a block that loses its last row goes, a row in the middle stays free."""
    items = store.append("ann", [draft(f"turn {n}") for n in range(90)])
    docs = np.sort(store.layout("ann").docs)
    matrix = np.arange(360, dtype=np.float32).reshape(90, 4)
    store.put_vectors("ann", TURNS, "m", Progress(0, 0), docs, matrix, Progress(int(docs[-1]) + 1, 0))

    def capacities() -> list[int]:
        with store._pool.read() as db:
            return [row[0] for row in db.execute("SELECT capacity FROM vector_blocks ORDER BY block_pk")]

    assert capacities() == [4, 16, 64, 64]
    ids = [item.turn_id or "" for item in items]
    assert store.delete("ann", turn_ids=ids[:4]).vectors == 4
    assert capacities() == [16, 64, 64]
    assert store.delete("ann", turn_ids=[ids[10]]).vectors == 1
    assert capacities() == [16, 64, 64]
    left = [n for n in range(90) if n > 3 and n != 10]
    found, stored = store.vectors("ann", TURNS, "m")
    assert found.tolist() == docs[left].tolist()
    assert np.array_equal(stored, matrix[left])
    store.append("ann", [draft("one more")])
    (more,) = [unit.doc for unit in store.pending("ann", TURNS, "m", 5)]
    reached = store.progress("ann", TURNS, "m")
    store.put_vectors("ann", TURNS, "m", reached, np.array([more]), matrix[:1], Progress(more + 1, 0))
    assert capacities() == [16, 64, 64]
    assert store.stats("ann").vectors == 86
    assert store.verify().ok
