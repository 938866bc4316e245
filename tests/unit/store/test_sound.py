"""Stores that nothing is wrong with: `verify` must not cry wolf."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from store_samples import NOON, draft, entry, fill, put_vectors

from backread.store.base import TURNS, Progress
from backread.store.sqlite import SqliteStore


def test_sound_stores_are_sound(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "memory.db")) as store:
        assert store.verify().ok
        ids = fill(store)
        store.append("ann", [draft("late", said_at=NOON - timedelta(days=900)), draft("later"), draft("later", "s3")])
        assert store.verify().ok
        store.append("ann", [draft("..."), draft("", attachments=({"type": "file"},)), draft("🚲 🚲", "s9")])
        assert store.verify().ok
        store.rebuild_text_index("ann")
        store.rebuild_text_index()
        assert store.verify().ok
        store.activate_embedder("n")
        assert store.verify().ok
        store.commit("ann", "lean", 2, [entry("e1", "kettle again", ids[0])], drop=["e2"], rebuilt=[ids[4]])
        assert store.verify().ok
        store.delete("ann", turn_ids=[ids[0]])
        assert store.verify().ok
        store.delete("ann", session_id="s2")
        assert store.verify().ok
        put_vectors(store, "bo", "n")
        store.delete("ann")
        assert store.verify().ok
        assert store.append("ann", [draft("a new start")])[0].new
        assert store.verify().ok


def test_a_reindex_with_a_second_embedder_is_sound_at_every_step(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "memory.db")) as store:
        store.append("ann", [draft(f"turn {n}") for n in range(30)])
        put_vectors(store, "ann", "one", passages=3)
        docs = np.sort(store.layout("ann").docs)
        reached = Progress(0, 0)
        for at in range(0, 30, 7):
            part = docs[at : at + 7]
            until = Progress(int(part[-1]) + 1, 0)
            assert store.put_vectors("ann", TURNS, "two", reached, part, np.ones((len(part), 6), np.float32), until)
            reached = until
            assert store.verify().ok
        store.activate_embedder("two")
        report = store.verify()
        assert report.ok
        assert report.checked["vectors"] == 30


def test_a_clock_that_was_set_back_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(SqliteStore(tmp_path / "memory.db")) as store:
        (first,) = store.append("ann", [draft("before")])
        hour = 3_600_000_000_000
        now = time.time_ns()
        monkeypatch.setattr(time, "time_ns", lambda: now - hour)
        store.append("ann", [draft("after"), draft("elsewhere", "s2")])
        assert store.verify().ok
        store.delete("ann", turn_ids=[first.turn_id or ""])
        assert store.verify().ok
