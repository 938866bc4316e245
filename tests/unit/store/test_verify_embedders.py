"""Faults in the states of embedders that no checksum shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from store_samples import build, raw

from backread.store.sqlite import SqliteStore
from backread.store.vectors import embedder_sum


@pytest.fixture
def path(tmp_path: Path) -> Path:
    build(tmp_path / "memory.db")
    return tmp_path / "memory.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as store:
        yield store


@pytest.mark.parametrize("states", [(0, 0), (1, 1), (2, 2), (0, 2), (1, 3), (-1, 1)])
def test_embedders_in_states_that_cannot_be_are_found_also_with_right_checksums(
    store: SqliteStore, path: Path, states: tuple[int, int]
) -> None:
    with raw(path) as db:
        rows = db.execute("SELECT embedder_pk, fingerprint, dimension FROM embedders").fetchall()
        for (pk, name, dimension), state in zip(rows, states, strict=True):
            values = (state, embedder_sum(name, dimension, state), pk)
            db.execute("UPDATE embedders SET active = ?, sum = ? WHERE embedder_pk = ?", values)
    assert "2 rows: " in "\n".join(fault.what + ": " + fault.detail for fault in store.verify().faults)
