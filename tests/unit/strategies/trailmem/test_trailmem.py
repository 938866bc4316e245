"""TrailMem as a strategy: what it builds, how a recall describes itself, and that its entries count."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from t2mem_samples import scripted
from trailmem_samples import NOON, Given, fill
from window_samples import by_words

from backread.construction.episodes import episode_prompt
from backread.construction.keep_drop import prompt_hash
from backread.retrieval.bm25 import Bm25Retriever
from backread.retrieval.hybrid import HybridRetriever
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Context, Parts
from backread.strategies.registry import create
from backread.strategies.trailmem.strategy import TrailMem
from backread.testing.fakes import FunctionChat
from backread.text.tokens import EstimateCounter
from backread.types import BuildReport, Degradation, TurnDraft

TALK = {
    "kitchen": ["The kettle is copper.", "It came from Porto."],
    "garden": ["Roses need sun.", "Tomatoes need more of it."],
    "travel": ["The ferry leaves at seven.", "Pack the raincoat."],
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "m.db")
    yield opened
    opened.close()


@pytest.fixture
def history(store: SqliteStore) -> History:
    return fill(store, TALK)


@pytest.fixture
def ctx() -> Context:
    return Context(counter=EstimateCounter())


class TestBuild:
    def test_an_entry_for_each_session_in_its_own_name(self, history: History, ctx: Context) -> None:
        strategy = TrailMem(HybridRetriever(None), build_chat=scripted(by_words))
        report = strategy.build(history, ctx, flush=True)
        assert (report.strategy, report.put, len(report.usage)) == ("trailmem", 3, 3)
        assert [entry.entry_id for entry in history.entries("trailmem", "episode")] == [
            f"episode:{session}" for session in TALK
        ]
        assert not history.entries("t2mem")
        assert strategy.build(history, ctx, flush=True).put == 0
        assert strategy.maintain(history, ctx) == BuildReport("trailmem")

    def test_the_latest_session_is_left_until_it_is_over(self, history: History, ctx: Context) -> None:
        strategy = TrailMem(HybridRetriever(None), build_chat=scripted(by_words))
        assert strategy.build(history, ctx).put == 2

    def test_all_presets_share_the_entries(self, history: History, ctx: Context) -> None:
        parts = Parts(HybridRetriever(None), build_chat=scripted(by_words))
        report = create("trailmem:fixed5", parts).build(history, ctx, flush=True)
        assert (report.strategy, report.put) == ("trailmem:fixed5", 3)
        assert create("trailmem", parts).build(history, ctx, flush=True) == BuildReport("trailmem")

    def test_without_a_model_nothing_is_built(self, history: History, ctx: Context) -> None:
        strategy = TrailMem(HybridRetriever(None), FunctionChat(by_words))
        assert strategy.build(history, ctx, flush=True) == BuildReport("trailmem")
        assert history.strategy_state("trailmem") == (0, None)


class TestConfig:
    def test_with_models(self) -> None:
        parts = Parts(Bm25Retriever(k1=3.0), chat=FunctionChat(by_words), build_chat=scripted(by_words))
        config = create("trailmem", parts).config
        assert (config["strategy"], config["form"], config["unit"], config["k1"]) == (
            "trailmem",
            "keep or drop",
            "turn",
            3.0,
        )
        assert (config["steps"], config["patience"], config["windows"], config["top_k"]) == (5, 1, 4, 50)
        assert (config["radius"], config["longest"], config["stride"], config["cue_share"]) == (2, 8, 7, 0.3)
        assert (config["model"], config["build_model"]) == ("function", "scripted")
        assert config["prompts"] == {"episode": episode_prompt("episode").hash, "keep_drop": prompt_hash()}
        assert "gap" not in config
        json.dumps(dict(config))

    def test_without(self) -> None:
        config = create("trailmem", Parts(Bm25Retriever())).config
        assert (config["form"], config["gap"], config["least"], config["looks"]) == ("score", 0.76, 4, None)
        assert (config["build_model"], config["prompts"]) == (None, {})
        assert not {"steps", "model"} & config.keys()

    def test_of_a_preset(self) -> None:
        config = create("trailmem:fixed5", Parts(Bm25Retriever(), chat=FunctionChat(by_words))).config
        assert (config["strategy"], config["looks"]) == ("trailmem:fixed5", 5)
        assert not {"gap", "patience", "steps"} & config.keys()


class TestRecall:
    def test_entries_decide_where_it_looks_first(self, history: History, ctx: Context) -> None:
        scores = {"The": 3.0, "Tomatoes": 2.8, "Roses": 1.0, "episode:garden": 5.0}
        plain = TrailMem(Given(scores), looks=1)
        assert plain.recall(history, "what?", None, ctx).evidence[0].session_id == "kitchen"
        TrailMem(Given(scores), build_chat=scripted(by_words)).build(history, ctx, flush=True)
        made = plain.recall(history, "what?", None, ctx)
        assert {line.session_id for line in made.evidence} == {"garden"}
        assert [step.detail.get("session") for step in made.steps] == [None, "garden"]

    def test_what_is_shown_with_a_model_and_entries(self, history: History, ctx: Context) -> None:
        strategy = TrailMem(HybridRetriever(None), FunctionChat(by_words), scripted(by_words))
        strategy.build(history, ctx, flush=True)
        made = strategy.recall(history, "Which kettle came from Porto?", 200, ctx, asked_at=NOON)
        assert [(line.kind, line.text) for line in made.evidence] == [
            ("rewrite", "The kettle is copper."),
            ("rewrite", "It came from Porto."),
        ]
        assert re.search(r"\[1\] Ann: The kettle is copper\.", made.rendered)
        assert (made.asked_at, made.counter, made.tokens <= 200) == (NOON, "estimate-1", True)
        assert {usage.purpose for usage in made.usage} == {"recall"}

    def test_turns_of_unknown_time_are_counted_in_a_view_of_the_past(self, store: SqliteStore, ctx: Context) -> None:
        history = fill(store, TALK)
        store.append("ann", [TurnDraft("kitchen", "user", "The kettle whistles.", speaker="Ann")])
        made = TrailMem(HybridRetriever(None)).recall(History(store, history.user_id, as_of=NOON), "kettle?", None, ctx)
        assert [line.text for line in made.evidence] == ["The kettle is copper."]
        assert made.degraded == (Degradation("as_of", "turns of unknown time are left out", 1),)
