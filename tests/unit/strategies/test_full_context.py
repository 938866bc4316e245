"""Full context: everything, or the newest of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Context
from backread.strategies.full_context.strategy import FullContext
from backread.text.tokens import EstimateCounter
from backread.types import Recall, TurnDraft

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "m.db")
    yield opened
    opened.close()


def keep(store: SqliteStore, *texts: str) -> History:
    drafts = [
        TurnDraft(f"s{place // 3}", "user", text, said_at=NOON + timedelta(minutes=place))
        for place, text in enumerate(texts)
    ]
    store.append("ann", drafts)
    return History(store, "ann")


def recall(history: History, budget: int | None) -> Recall:
    return FullContext().recall(history, "kettle", budget, Context(counter=EstimateCounter()))


def test_everything_in_order(store: SqliteStore) -> None:
    texts = [f"turn {place}" for place in range(7)]
    made = recall(keep(store, *texts), None)
    assert [line.text for line in made.evidence] == texts
    assert len(made.considered) == 7
    assert made.degraded == ()
    assert dict(made.config) == {"strategy": "full_context"}


def test_the_oldest_are_left_out_and_counted(store: SqliteStore) -> None:
    texts = [f"turn number {place} says a little" for place in range(30)]
    made = recall(keep(store, *texts), 300)
    shown = [line.text for line in made.evidence if not line.cut]
    assert shown == texts[-len(shown) :]
    assert len(made.considered) == 30
    (said,) = made.degraded
    assert (said.part, said.count) == ("budget", 30 - len(made.evidence))
    assert "oldest" in said.reason


def test_nothing_older_takes_the_place_of_a_long_turn(store: SqliteStore) -> None:
    texts = ["short one", "short two", "long kettle " * 200, "short three", "short four"]
    made = recall(keep(store, *texts), 200)
    assert [line.cut for line in made.evidence] == [True, False, False]
    assert [line.text for line in made.evidence[1:]] == texts[3:]
    assert made.tokens > 180
    assert made.degraded[0].count == 2


def test_a_budget_of_nothing(store: SqliteStore) -> None:
    made = recall(keep(store, "a", "b"), 0)
    assert (made.evidence, made.tokens, made.overflow) == ((), 0, False)
    assert made.degraded[0].count == 2


def test_superseded_turns_are_not_shown(store: SqliteStore) -> None:
    store.append("ann", [TurnDraft("s", "user", "old", external_id="m1")])
    store.append("ann", [TurnDraft("s", "user", "new", supersedes="m1")])
    made = recall(History(store, "ann"), None)
    assert [line.text for line in made.evidence] == ["new"]
    assert made.degraded == ()
