"""LazyMem: what is found, which windows are read, what is kept of them and shown."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backread.answering.citations import check
from backread.errors import ModelOutputError, ModelRequestError
from backread.retrieval.bm25 import Bm25Retriever
from backread.retrieval.hybrid import HybridRetriever
from backread.retrieval.indexing import embed_pending
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Context, Parts
from backread.strategies.lazymem.strategy import LazyMem
from backread.strategies.registry import create
from backread.testing.fake_rerankers import FakeReranker
from backread.testing.fakes import ChatRequest, FunctionChat, HashEmbedder
from backread.text.tokens import EstimateCounter
from backread.types import Degradation, Recall, Source, Step, TurnDraft

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
QUESTION = "Which kettle?"
KETTLE = ("The kettle is copper.", "It came from Porto.")
TALK = (
    *(("garden", text) for text in ("Roses.", "Tulips.", "The kettle is in the shed.", "Beans.", "Peas.", "Kale.")),
    *(("kitchen", text) for text in (KETTLE[0], KETTLE[1], "So it did.", "Bread.", "Salt.")),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "m.db")
    yield opened
    opened.close()


def keep(store: SqliteStore, *talk: tuple[str, str]) -> History:
    drafts = [
        TurnDraft(session, "user", text, speaker="Ann", external_id=f"m{place}", said_at=NOON + timedelta(hours=place))
        for place, (session, text) in enumerate(talk)
    ]
    store.append("ann", drafts)
    return History(store, "ann")


@pytest.fixture
def history(store: SqliteStore) -> History:
    return keep(store, *TALK)


def shown(request: ChatRequest) -> list[str]:
    """The texts of the messages of a window."""
    return re.findall(r"^\[\d+\] \([^)]*\) Ann: (.*)$", request.question, re.MULTILINE)


def decided(request: ChatRequest, texts: Mapping[str, str]) -> str:
    """Keeps the messages that have a text."""
    found = [texts.get(text, "") for text in shown(request)]
    items = [
        {"index": number, "action": "KEEP" if text else "DROP", "compressed": text}
        for number, text in enumerate(found, 1)
    ]
    return json.dumps({"decisions": items})


def keeping(texts: Mapping[str, str]) -> FunctionChat:
    return FunctionChat(lambda request: decided(request, texts))


def recall(history: History, chat: FunctionChat | None = None, budget: int | None = None, **given: Any) -> Recall:
    """With words alone, which are enough here."""
    ctx = given.pop("ctx", None) or Context(counter=EstimateCounter())
    question, asked_at = given.pop("question", QUESTION), given.pop("asked_at", None)
    return LazyMem(Bm25Retriever(), chat, **given).recall(history, question, budget, ctx, asked_at=asked_at)


def lines(made: Recall) -> list[str]:
    return [line.text for line in made.evidence]


class TestRetrieval:
    def test_as_published_when_all_parts_are_there(self, store: SqliteStore) -> None:
        history = keep(store, *(("s", f"kettle number{place} {'red ' * (place % 3)}") for place in range(130)))
        embedder, reranker = HashEmbedder(256), FakeReranker(lambda question, text: float(text.count("red")))
        embed_pending(store, "ann", embedder)
        strategy = create("lazymem", Parts(Bm25Retriever(k1=9.0), embedder=embedder, reranker=reranker))
        made = strategy.recall(history, "red kettle", None, Context(counter=EstimateCounter()))
        ((_, read),) = reranker.requests
        assert len(read) == len(set(read)) == 100  # the best of both lists, not three times what is kept
        assert len(made.ranked) == 50
        best = history.turns_by_id([item.unit_id for item in made.ranked])
        assert {turn.text.count("red") for turn in best[:30]} == {2}
        assert made.degraded == ()
        config = made.config
        assert (config["retriever"], config["top_k"], config["missing"]) == ("rrf+rerank", 50, [])
        assert (config["k1"], config["b"], config["k"], config["depth"]) == (1.5, 0.75, 60, 100)
        assert (config["embedder"], config["reranker"]) == (embedder.fingerprint, reranker.fingerprint)

    def test_what_is_missing_is_said(self, history: History, store: SqliteStore) -> None:
        embedder = HashEmbedder(256)
        embed_pending(store, "ann", embedder)
        for parts, retriever, missing in (
            (Parts(HybridRetriever(None), embedder=embedder), "rrf", ["rerank"]),
            (Parts(HybridRetriever(None), reranker=FakeReranker()), "bm25+rerank", ["dense"]),
            (Parts(HybridRetriever(None)), "bm25", ["dense", "rerank"]),
        ):
            made = create("lazymem", parts).recall(history, QUESTION, None, Context(counter=EstimateCounter()))
            assert (made.config["retriever"], made.config["missing"]) == (retriever, missing)
            assert [item.part for item in made.degraded] == missing
            assert made.evidence

    def test_a_chosen_retriever_is_used_and_nothing_is_missing(self, history: History) -> None:
        parts = Parts(Bm25Retriever(k1=9.0), reranker=FakeReranker(), fixed_retriever=True)
        made = create("lazymem", parts).recall(history, QUESTION, None, Context(counter=EstimateCounter()))
        assert (made.config["retriever"], made.config["k1"], made.config["missing"]) == ("bm25", 9.0, [])
        assert made.degraded == ()

    def test_what_the_retriever_had_to_do_without_is_passed_on(self, history: History) -> None:
        made = create("lazymem", Parts(HybridRetriever(None), embedder=HashEmbedder())).recall(
            history, QUESTION, None, Context(counter=EstimateCounter())
        )
        assert [(item.part, item.count) for item in made.degraded] == [("rerank", None), ("dense", len(TALK))]


class TestKeepOrDrop:
    def test_what_is_kept_is_shown_in_the_order_it_was_said(self, history: History) -> None:
        chat = keeping(
            {KETTLE[0]: "Ann's kettle is copper.", "The kettle is in the shed.": "Ann keeps it in the shed."}
        )
        made = recall(history, chat)
        assert lines(made) == ["Ann keeps it in the shed.", "Ann's kettle is copper."]
        turns = {turn.external_id: turn for turn in history.turns()}
        shed, copper = made.evidence
        assert (copper.kind, copper.speaker, copper.time, copper.session_id, copper.cut) == (
            "rewrite",
            "Ann",
            NOON + timedelta(hours=6),
            "kitchen",
            False,
        )
        assert copper.sources == (Source(turns["m6"].turn_id, 0, len(KETTLE[0])),)
        assert (copper.rank, shed.rank) == (0, 1)  # the shorter turn has the better score
        assert "# 2024-05-01 18:00\n[2] Ann: Ann's kettle is copper." in made.rendered

    def test_each_turn_of_a_window_has_a_decision(self, history: History) -> None:
        made = recall(history, keeping({KETTLE[1]: "The kettle came from Porto."}))
        named = {turn.turn_id: turn.external_id for turn in history.turns()}
        seen = [(named[item.turn_id], item.kept, item.text, item.window) for item in made.decisions]
        assert seen == [
            *((f"m{place}", False, None, 0) for place in range(5)),  # m5 is out of reach of m2
            ("m6", False, None, 1),
            ("m7", True, "The kettle came from Porto.", 1),
            ("m8", False, None, 1),
        ]
        assert [named[turn_id] for turn_id in made.considered] == [name for name, *_ in seen]
        assert [named[item.unit_id] for item in made.ranked] == ["m6", "m2"]

    def test_a_turn_at_a_seam_is_shown_once(self, store: SqliteStore) -> None:
        # Found at 2, 6 and 9: places 0 to 11 are windows 0-7 and 7-11; 7 is in both.
        history = keep(store, *(("s", f"{'kettle' if place in (2, 6, 9) else 'word'} {place}") for place in range(14)))
        chat = keeping({"word 7": "Seven."})
        made = recall(history, chat, ctx=Context(counter=EstimateCounter(), concurrency=1))
        assert [len(shown(request)) for request in chat.requests] == [8, 5]
        assert lines(made) == ["Seven."]
        kept = [item for item in made.decisions if item.kept]
        assert [item.window for item in kept] == [0, 1]
        assert len(made.considered) == 12
        first = keeping({})
        answers = iter([{"word 7": "Seven."}, {"word 7": "Ann said: seven. So."}])
        either = FunctionChat(lambda request: decided(request, next(answers)))
        assert lines(recall(history, either, ctx=Context(counter=EstimateCounter(), concurrency=1))) == [
            "Ann said: seven. So."
        ]
        assert lines(recall(history, first)) == []

    def test_the_same_said_twice_is_shown_once(self, history: History) -> None:
        texts = {KETTLE[0]: "It is  copper.", KETTLE[1]: "it is copper."}
        assert lines(recall(history, keeping(texts))) == ["It is  copper."]

    def test_when_nothing_is_kept_there_is_no_evidence(self, history: History) -> None:
        made = recall(history, keeping({}), budget=1000)
        assert (made.evidence, made.rendered, made.overflow, made.degraded) == ((), "", False, ())
        assert len(made.decisions) == 8

    def test_nothing_found_asks_nothing(self, history: History) -> None:
        chat = keeping({})
        made = recall(history, chat, question="zebra")
        assert (made.evidence, chat.requests, made.decisions) == ((), [], ())
        assert [step.name for step in made.steps] == ["retrieve", "windows"]

    def test_a_short_budget_takes_the_best_window_first(self, history: History) -> None:
        texts = {"The kettle is in the shed.": "S " * 30, KETTLE[1]: "P " * 30, KETTLE[0]: "C " * 30}
        whole = recall(history, keeping(texts))
        assert [line.rank for line in whole.evidence] == [2, 0, 1]  # the hit before what stands beside it
        made = recall(history, keeping(texts), budget=whole.tokens - 20)
        assert [line.text[0] for line in made.evidence if not line.cut] == ["C", "P"]
        assert made.tokens <= whole.tokens - 20
        made = recall(history, keeping(texts), budget=whole.tokens - 80)
        assert [line.text[0] for line in made.evidence if not line.cut] == ["C"]

    def test_a_kept_line_can_be_cited(self, history: History) -> None:
        made = recall(history, keeping({KETTLE[1]: "Ann's copper kettle came from Porto."}))
        turns = {turn.turn_id: turn for turn in history.turns()}
        for reply in ("From Porto [1].", 'Porto [1].\nQUOTES\n[1] "copper kettle came from Porto"'):
            checked = check(reply, made.evidence, turns)
            assert [citation.quote for citation in checked.citations] == [KETTLE[1]]
            assert checked.dropped == 0

    def test_a_kept_image_can_be_cited(self, store: SqliteStore) -> None:
        store.append("ann", [TurnDraft("s", "user", "Look!", speaker="Ann", caption="a red kettle")])
        history = History(store, "ann")
        made = recall(history, keeping({"Look! [image: a red kettle]": "Ann shows a red kettle."}))
        assert (lines(made), made.evidence[0].caption) == (["Ann shows a red kettle."], None)
        checked = check("It is red [1].", made.evidence, {turn.turn_id: turn for turn in history.turns()})
        assert [(citation.quote, citation.start) for citation in checked.citations] == [("Look!", 0)]

    def test_the_model_is_told_when_it_is(self, history: History) -> None:
        chat = keeping({})
        recall(history, chat, asked_at=datetime(2025, 1, 2, 3, 4, tzinfo=UTC))
        dates = {re.search(r"Date of the conversation: (.*)", request.question)[1] for request in chat.requests}  # type: ignore[index]
        assert dates == {"2024-05-01, a Wednesday"}
        assert all("\nNow: 2025-01-02 03:04\nQuestion: Which kettle?\n" in item.question for item in chat.requests)

    def test_limits_reach_the_model(self, store: SqliteStore) -> None:
        history = keep(store, ("s", "The kettle. " * 2000), ("s", "Salt."))
        chat = keeping({})
        made = recall(history, chat, prompt_tokens=1300, response_tokens=77)
        assert [request.max_tokens for request in chat.requests] == [77]
        assert made.degraded == (Degradation("prompt", "turns were read in part, as a window was too long", 1),)


class TestTrace:
    def test_a_step_for_each_window_told_in_order_in_this_thread(self, history: History) -> None:
        second = threading.Event()

        def slow_first(request: ChatRequest) -> str:
            if KETTLE[0] in shown(request):
                second.set()
            else:
                assert second.wait(5)
            return decided(request, {KETTLE[0]: "It is copper."})

        told: list[tuple[Step, threading.Thread]] = []
        ctx = Context(
            counter=EstimateCounter(),
            on_step=lambda step: told.append((step, threading.current_thread())),
            concurrency=2,
        )
        made = recall(history, FunctionChat(slow_first), ctx=ctx)
        assert [step for step, _ in told] == list(made.steps)
        assert {thread for _, thread in told} == {threading.current_thread()}
        assert [step.name for step in made.steps] == ["retrieve", "windows", "window", "window"]
        found, shaped, first, last = (dict(step.detail) for step in made.steps)
        assert (found, shaped) == ({"found": 2}, {"windows": 2, "turns": 8})
        assert (first["window"], first["session"], first["kept"], first["dropped"]) == (0, "garden", 0, 5)
        assert (last["window"], last["session"], last["kept"], last["dropped"]) == (1, "kitchen", 1, 2)
        assert all(step.seconds is not None and step.seconds >= 0 for step in made.steps)
        assert [first["input_tokens"], last["input_tokens"]] == [usage.input_tokens for usage in made.usage]
        assert (first["valid"], first["calls"], first["turns"]) == (True, 1, 5)

    def test_usage_is_of_every_call(self, history: History) -> None:
        made = recall(history, FunctionChat(lambda request: "I can't."))
        assert len(made.usage) == 4  # two windows, twice each
        assert {usage.purpose for usage in made.usage} == {"recall"}

    def test_the_config_names_all_that_changes_a_result(self, history: History) -> None:
        config = recall(history, keeping({}), top_k=7).config
        assert (config["strategy"], config["form"], config["top_k"]) == ("lazymem", "keep or drop", 7)
        assert (config["radius"], config["longest"], config["stride"]) == (2, 8, 7)
        assert (config["prompt_tokens"], config["response_tokens"], config["model"]) == (8192, 3072, "function")
        assert re.fullmatch("[0-9a-f]{16}", config["prompt"])
        assert LazyMem(Bm25Retriever(), keep_hits_when_invalid=True).name == "lazymem:keep_hits"
        json.dumps(dict(config))


def unreadable_kitchen(request: ChatRequest) -> str:
    """Nothing of use for the window with the copper kettle; the shed is kept of the other."""
    return "?" if KETTLE[0] in shown(request) else decided(request, {"The kettle is in the shed.": "In the shed."})


class TestFaults:
    def test_a_window_without_valid_decisions_is_left_out_and_counted(self, history: History) -> None:
        made = recall(history, FunctionChat(unreadable_kitchen))
        assert lines(made) == ["In the shed."]
        assert made.degraded == (
            Degradation("windows", "windows got no valid decisions at two tries: nothing of them is shown", 1),
        )
        assert {item.window for item in made.decisions} == {0}
        assert len(made.considered) == 8
        assert [step.detail.get("valid") for step in made.steps] == [None, None, True, False]

    def test_or_its_hits_are_shown_as_they_were_said(self, history: History) -> None:
        made = recall(history, FunctionChat(unreadable_kitchen), keep_hits_when_invalid=True)
        assert [(line.kind, line.text) for line in made.evidence] == [
            ("rewrite", "In the shed."),
            ("verbatim", KETTLE[0]),
        ]
        assert [(item.part, item.count) for item in made.degraded] == [("windows", 1)]
        assert "as it was said" in made.degraded[0].reason

    def test_a_model_that_is_down_is_an_error(self, history: History) -> None:
        def down(request: ChatRequest) -> str:
            raise ModelRequestError("down")

        with pytest.raises(ModelRequestError, match="down"):
            recall(history, FunctionChat(down), keep_hits_when_invalid=True)

    def test_a_model_without_words_is_an_invalid_window(self, history: History) -> None:
        def silent(request: ChatRequest) -> str:
            raise ModelOutputError("function: no text")

        assert [item.count for item in recall(history, FunctionChat(silent)).degraded] == [2]

    def test_once_cancelled_no_window_is_read(self, history: History) -> None:
        cancel = threading.Event()

        def cancelling(request: ChatRequest) -> str:
            cancel.set()
            return decided(request, {"The kettle is in the shed.": "In the shed."})

        ctx = Context(counter=EstimateCounter(), cancel=cancel, concurrency=1)
        made = recall(history, FunctionChat(cancelling), ctx=ctx)
        assert lines(made) == ["In the shed."]
        assert made.degraded == (
            Degradation("windows", "windows were not read, as the call was to end: nothing of them is shown", 1),
        )
        assert [step.name for step in made.steps] == ["retrieve", "windows", "window"]

    @pytest.mark.parametrize("keep_hits", [False, True])
    def test_nor_after_the_deadline(self, history: History, keep_hits: bool) -> None:
        chat = keeping({})
        ctx = Context(counter=EstimateCounter(), deadline=time.monotonic() - 1)
        made = recall(history, chat, ctx=ctx, keep_hits_when_invalid=keep_hits)
        assert (chat.requests, made.degraded[0].count) == ([], 2)
        assert lines(made) == (["The kettle is in the shed.", KETTLE[0]] if keep_hits else [])

    def test_turns_deleted_meanwhile_are_left_out(self, history: History, store: SqliteStore) -> None:
        class Deleting(Bm25Retriever):
            def search(self, corpus: Any, question: str, top_k: int) -> Any:
                found = super().search(corpus, question, top_k)
                store.delete("ann", turn_ids=["m6", "m3"])
                return found

        chat = keeping({"The kettle is in the shed.": "In the shed."})
        strategy = LazyMem(Deleting(), chat)
        made = strategy.recall(history, QUESTION, None, Context(counter=EstimateCounter()))
        assert lines(made) == ["In the shed."]
        assert [shown(request) for request in chat.requests] == [["Roses.", "Tulips.", TALK[2][1], "Peas."]]


class TestWithoutAModel:
    def test_the_turns_of_the_windows_are_shown_as_they_were_said(self, history: History) -> None:
        made = recall(history)
        assert [line.kind for line in made.evidence] == ["verbatim"] * 8
        assert lines(made) == [text for _, text in (*TALK[:5], *TALK[6:9])]
        assert (made.config["form"], made.decisions, made.usage, made.degraded) == ("verbatim windows", (), (), ())
        assert not {"model", "prompt"} & made.config.keys()

    def test_the_best_window_goes_first_and_in_it_what_was_found(self, history: History) -> None:
        by_rank = sorted(recall(history).evidence, key=lambda line: line.rank)
        assert [line.text for line in by_rank] == [
            *(KETTLE[0], KETTLE[1], "So it did."),
            *("The kettle is in the shed.", "Roses.", "Tulips.", "Beans.", "Peas."),
        ]
        assert [line.rank for line in by_rank] == list(range(8))

    def test_a_budget_is_filled_in_this_order(self, history: History) -> None:
        made = recall(history, budget=100)  # 16 for the fence, about 25 for a line and its heading
        assert lines(made) == [KETTLE[0], KETTLE[1], "So it did."]
        assert made.tokens <= 100
        assert recall(history, budget=5).overflow
