"""Which sessions a question looks at first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backread.construction.episode_ranking import Entries, Ranked, rank_episodes
from backread.construction.extracts import RECIPE, extract_maker
from backread.construction.sessions import build_sessions
from backread.retrieval.bm25 import Bm25Retriever
from backread.store.corpus import Corpus
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Context
from backread.types import Degradation, Ranking, ScoredUnit, TurnDraft

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
PAGES = Entries("t2mem", "episode-extract", RECIPE)
TALK = {
    "a": "A copper kettle, and nothing else was bought that day.",
    "b": "The ferry leaves at seven.",
    "c": "The kettle is a copper kettle, such a fine kettle.",
    "d": "Tomatoes need the sun.",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "m.db")
    for day, (session, text) in enumerate(TALK.items()):
        opened.append("ann", [TurnDraft(session, "user", text, said_at=NOON + timedelta(days=day))])
    yield opened
    opened.close()


def build(history: History, flush: bool = True) -> History:
    make = extract_maker("episode", strategy="t2mem")
    build_sessions(history, Context(), make, strategy="t2mem", ledger=PAGES.kind, recipe=RECIPE, flush=flush)
    return history


def order(ranked: Ranked) -> list[tuple[int, str, bool, bool]]:
    return [(item.number, item.session_id, item.entry is not None, item.score is not None) for item in ranked.episodes]


def test_entries_by_score_and_behind_them_the_others_in_history_order(store: SqliteStore) -> None:
    ranked = rank_episodes(build(History(store, "ann")), Bm25Retriever(), "kettle", PAGES)
    assert order(ranked) == [(3, "c", True, True), (1, "a", True, True), (2, "b", True, False), (4, "d", True, False)]
    assert [item.unit_id for item in ranked.items] == ["episode-extract:c", "episode-extract:a"]


def test_without_entries_sessions_are_ranked_as_they_are(store: SqliteStore) -> None:
    ranked = rank_episodes(build(History(store, "ann")), Bm25Retriever(), "kettle", None)
    assert order(ranked)[:2] == [(3, "c", False, True), (1, "a", False, True)]
    assert [item.unit_id for item in ranked.items] == ["c", "a"]


def test_what_is_not_built_stands_among_the_entries(store: SqliteStore) -> None:
    history = build(History(store, "ann"))
    store.append("ann", [TurnDraft("e", "user", "A kettle on the ferry.", said_at=NOON + timedelta(days=9))])
    ranked = rank_episodes(history, Bm25Retriever(), "copper kettle", PAGES)
    assert order(ranked)[:3] == [(3, "c", True, True), (1, "a", True, True), (5, "e", False, True)]
    assert ranked.items[0].score == 1.0  # the best entry
    assert 0 < ranked.items[2].score < 1  # "e" is not the best session
    ranked = rank_episodes(history, Bm25Retriever(), "kettle ferry", PAGES)
    assert [item.unit_id for item in ranked.items if item.score == 1.0] == ["episode-extract:b", "e"]


def test_a_session_that_changed_is_looked_at_as_it_is(store: SqliteStore) -> None:
    history = build(History(store, "ann"))
    store.append("ann", [TurnDraft("a", "user", "No more kettles.", said_at=NOON + timedelta(hours=1))])
    numbers = {
        item.session_id: item.entry is not None
        for item in rank_episodes(history, Bm25Retriever(), "kettle", PAGES).episodes
    }
    assert numbers == {"a": False, "b": True, "c": True, "d": True}


def test_equal_scores_stand_in_history_order(store: SqliteStore) -> None:
    class Same:
        name = "same"
        config: Mapping[str, Any] = {}

        def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
            ids = corpus.unit_ids(range(corpus.size))[::-1]
            return Ranking(
                tuple(ScoredUnit(unit_id, 0.5) for unit_id in ids[:top_k]), (Degradation("dense", "off", 1),)
            )

    store.append("ann", [TurnDraft("e", "user", "Late.", said_at=NOON + timedelta(days=9))])
    ranked = rank_episodes(build(History(store, "ann"), flush=False), Same(), "kettle", PAGES)
    assert [item.session_id for item in ranked.episodes] == ["a", "b", "c", "d", "e"]
    assert ranked.degraded == (Degradation("dense", "off", 2),)


def test_a_question_that_matches_nothing_ranks_nothing(store: SqliteStore) -> None:
    ranked = rank_episodes(build(History(store, "ann")), Bm25Retriever(), "zebra", PAGES)
    assert (ranked.items, len(ranked.episodes)) == ((), 4)
    assert rank_episodes(History(store, "nobody"), Bm25Retriever(), "kettle", PAGES) == Ranked((), (), ())
    assert rank_episodes(History(store, "nobody"), Bm25Retriever(), "kettle", None) == Ranked((), (), ())
