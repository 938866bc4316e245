"""Naive RAG: units, presets, and what is shown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backread.retrieval.bm25 import Bm25Retriever
from backread.retrieval.hybrid import HybridRetriever
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Context
from backread.strategies.naive_rag.strategy import NaiveRag
from backread.testing.fakes import HashEmbedder
from backread.text.tokens import EstimateCounter
from backread.types import Recall, Step, TurnDraft, Unit

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
TALK = (
    ("kitchen", "user", "I bought a copper kettle."),
    ("kitchen", "assistant", "Descale it with vinegar."),
    ("kitchen", "user", "And a lamp."),
    ("kitchen", "assistant", "A fine lamp."),
    ("garden", "user", "The tomatoes are red."),
    ("garden", "assistant", "Put the kettle on then."),
)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    store = SqliteStore(tmp_path / "m.db")
    store.append(
        "ann",
        [
            TurnDraft(session, role, text, external_id=f"m{place}", said_at=NOON + timedelta(minutes=place))
            for place, (session, role, text) in enumerate(TALK)
        ],
    )
    yield History(store, "ann")
    store.close()


def recall(
    history: History, unit: Unit, question: str = "kettle", budget: int | None = None, top_k: int = 50
) -> Recall:
    strategy = NaiveRag(Bm25Retriever(), unit=unit, top_k=top_k)
    return strategy.recall(history, question, budget, Context(counter=EstimateCounter()))


@pytest.mark.parametrize(
    ("unit", "shown"),
    [
        ("turn", [0, 5]),
        ("user_turn", [0]),
        ("round", [0, 1, 4, 5]),
        ("session", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_what_each_unit_shows(history: History, unit: Unit, shown: list[int]) -> None:
    made = recall(history, unit)
    assert [line.text for line in made.evidence] == [TALK[place][2] for place in shown]
    assert made.strategy == ("naive_rag" if unit == "turn" else f"naive_rag:{unit}")


def test_units_are_ranked_and_shown_in_the_order_they_were_said(history: History) -> None:
    made = recall(history, "turn", "red tomatoes, copper kettle")
    assert [line.text for line in made.evidence] == [TALK[place][2] for place in (0, 4, 5)]
    assert made.evidence[1].rank == 0
    ranked = [turn.external_id for turn in history.turns_by_id([item.unit_id for item in made.ranked])]
    assert ranked[0] == "m4"
    assert [item.score for item in made.ranked] == sorted((item.score for item in made.ranked), reverse=True)


def test_turns_of_one_unit_share_its_rank(history: History) -> None:
    made = recall(history, "round", "copper kettle")
    assert [line.rank for line in made.evidence] == [0, 0, 1, 1]
    assert len(made.considered) == 4


def test_top_k_counts_units(history: History) -> None:
    assert len(recall(history, "turn", "kettle lamp", top_k=2).ranked) == 2
    assert len({line.session_id for line in recall(history, "session", "kettle", top_k=1).evidence}) == 1


def test_a_short_budget_keeps_the_best(history: History) -> None:
    made = recall(history, "turn", "copper kettle", budget=60)
    assert [line.text for line in made.evidence] == [TALK[0][2]]
    assert len(made.ranked) == 2
    assert made.tokens <= 60


def test_what_the_retriever_had_to_do_without_is_passed_on(history: History) -> None:
    strategy = NaiveRag(HybridRetriever(HashEmbedder()))
    made = strategy.recall(history, "kettle", 100, Context(counter=EstimateCounter()))
    assert [(item.part, item.count) for item in made.degraded] == [("dense", len(TALK))]


def test_the_step_says_what_was_ranked(history: History) -> None:
    told: list[Step] = []
    ctx = Context(counter=EstimateCounter(), on_step=told.append)
    NaiveRag(Bm25Retriever(), unit="round").recall(history, "kettle", 100, ctx)
    assert [(step.name, dict(step.detail)) for step in told] == [("retrieve", {"unit": "round", "found": 2})]
    assert told[0].seconds is not None
    assert told[0].seconds >= 0


def test_config_names_unit_depth_and_retriever() -> None:
    config = NaiveRag(Bm25Retriever(), unit="session", top_k=7).config
    assert (config["strategy"], config["top_k"], config["retriever"]) == ("naive_rag:session", 7, "bm25")
