"""Any byte of the file changed: every read gives what was written, or an error that says so."""

from __future__ import annotations

import random
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backread.errors import BackreadError, StoreError
from backread.store.sqlite import SqliteStore
from backread.testing.damage import flip, is_only_less, read_all, wrong_reads
from backread.types import EntryDraft, Source, TurnDraft

USERS, STRATEGIES, QUERY = ("ann", "bo"), ("lean",), "lamp kettle 4411"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two users with 24 turns each, with and without times, ids and successors, and entries on them."""
    path = tmp_path_factory.mktemp("sample") / "memory.db"
    at = datetime(2024, 5, 1, 12, tzinfo=UTC)
    with closing(SqliteStore(path)) as store:
        for user in USERS:
            drafts = [
                TurnDraft(
                    f"s{number // 8}",
                    "assistant" if number % 2 else "user",
                    f"{user} has lamp {number}, kettle {4411 + number}",
                    external_id=f"m{number}" if number % 3 else None,
                    speaker="Ann" if number % 5 == 0 else None,
                    said_at=at + timedelta(hours=number) if number // 8 % 2 == 0 else None,
                    supersedes=f"m{number - 1}" if number in (11, 23) else None,
                )
                for number in range(24)
            ]
            ids = [item.turn_id or "" for item in store.append(user, drafts)]
            entries = [
                EntryDraft(f"e{number}", "lean", "event", {"n": number}, "a lamp", (Source(ids[number], 0, 3),), at)
                for number in range(6)
            ]
            store.commit(user, "lean", 0, entries, state=b'{"n": 6}')
    return path


def _is_named(path: Path) -> bool:
    """Whether `verify` finds a fault, or can't even look."""
    try:
        with closing(SqliteStore(path)) as store:
            return not store.verify().ok
    except StoreError:
        return True


@pytest.mark.parametrize("seed", range(6))
def test_every_read_of_a_store_with_a_flipped_byte_is_right_or_says_so(sample: Path, tmp_path: Path, seed: int) -> None:
    content = sample.read_bytes()
    sound = read_all(sample, USERS, STRATEGIES, QUERY)
    assert not any(isinstance(value, BackreadError) for value in sound.values())
    used = [offset for offset, byte in enumerate(content) if byte]  # most of a page without rows is zeros
    rng = random.Random(seed)
    path = tmp_path / "memory.db"
    refused = 0
    for _ in range(40):
        offset, mask = rng.choice(used), rng.choice([1, 2, 4, 8, 16, 32, 64, 128, 255])
        flip(content, offset, mask, path)
        values = read_all(path, USERS, STRATEGIES, QUERY)
        if wrong := wrong_reads(values, sound):
            assert all(is_only_less(values[name], sound[name]) for name in wrong), (offset, mask, wrong)
            assert _is_named(path), (offset, mask, wrong)
        refused += any(isinstance(value, StoreError) for value in values.values())
    assert refused >= 10
