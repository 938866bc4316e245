"""T2Mem as a whole: evidence, entries, presets, and its forms without a model."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from t2mem_samples import block, copying_chat, scripted, seen, step

from backread import Memory
from backread.retrieval.bm25 import Bm25Retriever
from backread.settings import Settings
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Context
from backread.strategies.registry import STRATEGIES
from backread.strategies.t2mem.strategy import Preset, T2Mem
from backread.testing.fakes import ChatRequest, FunctionChat, HashEmbedder
from backread.text.tokens import EstimateCounter
from backread.types import Recall, Step, TurnDraft

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
QUESTION = "Where did the copper kettle come from?"
TALK: dict[str, Sequence[str]] = {
    "market": ("I bought a copper kettle.", "Where?", "In Bergen, by the fish hall."),
    "ferry": ("The ferry leaves at seven.",),
    "tea": ("The copper kettle boils fast.", "Nice."),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "m.db")
    for day, (session, texts) in enumerate(TALK.items()):
        say(opened, session, day, *texts)
    yield opened
    opened.close()


@pytest.fixture
def history(store: SqliteStore) -> History:
    return History(store, "ann")


def say(store: SqliteStore, session: str, day: int, *texts: str) -> None:
    at = NOON + timedelta(days=day)
    drafts = [
        TurnDraft(session, "user", text, speaker=("Ann", "Bob")[place % 2], said_at=at + timedelta(minutes=place))
        for place, text in enumerate(texts)
    ]
    store.append("ann", drafts)


def strategy(chat: FunctionChat | None, preset: Preset | None = None, **settings: int) -> T2Mem:
    return T2Mem(Bm25Retriever(), chat, chat, preset=preset, **settings)


def ask(made: T2Mem, history: History, budget: int | None = None, ctx: Context | None = None) -> Recall:
    return made.recall(history, QUESTION, budget, ctx or Context(counter=EstimateCounter()))


def texts(recall: Recall) -> list[str]:
    return [line.text for line in recall.evidence]


def ready(made: T2Mem, history: History) -> T2Mem:
    made.build(history, Context(concurrency=1), flush=True)
    return made


def test_evidence_is_the_memory_with_the_spans_it_rests_on(history: History) -> None:
    def recall(request: ChatRequest) -> str:
        if "the whole session" in block(request, "observation"):
            place = "[1.3] Ann: In Bergen, by the fish hall."
            assert place in request.question
            return step("Answer", memory=[("The kettle came from Bergen.", ["1.3"]), ("It cost 40 euros.", ["1.1"])])
        return step("ReadRaw", 1, [("Ann bought a copper kettle.", ["1.1"])])

    made = ask(ready(strategy(scripted(recall)), history), history)
    assert texts(made) == [
        "Ann bought a copper kettle.",
        "The kettle came from Bergen.",
        "It cost 40 euros. [unchecked]",
    ]
    turns = {turn.turn_id: turn.text for turn in history.turns()}
    spans = [[turns[source.turn_id][source.start : source.end] for source in line.sources] for line in made.evidence]
    assert spans == [["I bought a copper kettle."], ["In Bergen, by the fish hall."], []]
    assert {line.kind for line in made.evidence} == {"rewrite"}
    assert [(item.part, item.count) for item in made.degraded] == [("t2mem", 1)]
    assert [item.unit_id for item in made.ranked[:2]] == ["episode:tea", "episode:market"]
    assert len(made.considered) == 6  # o_0 shows all three sessions
    assert [item.name for item in made.steps] == ["retrieve", "t2mem", "t2mem"]
    assert [usage.purpose for usage in made.usage] == ["recall", "recall"]


def test_an_empty_memory_gives_no_evidence_and_says_so(history: History) -> None:
    made = ask(ready(strategy(scripted(lambda request: step("Answer"))), history), history)
    assert (made.evidence, made.rendered, made.overflow) == ((), "", False)
    assert [item.reason for item in made.degraded] == ["the model found nothing to remember for this question"]


def test_a_question_that_matches_nothing_costs_no_call(history: History) -> None:
    chat = copying_chat()
    made = ready(strategy(chat), history)
    built = len(chat.requests)
    recall = made.recall(history, "zebra?", None, Context(counter=EstimateCounter()))
    assert (recall.evidence, recall.degraded, len(chat.requests)) == ((), (), built)


def test_one_call_a_session_gives_one_entry_linked_to_it(history: History) -> None:
    chat = copying_chat()
    ready(strategy(chat), history)
    assert [request.purpose for request in chat.requests] == ["build"] * 3
    entries = history.entries("t2mem", "episode")
    assert [(entry.entry_id, len(entry.sources)) for entry in entries] == [
        ("episode:market", 3),
        ("episode:ferry", 1),
        ("episode:tea", 2),
    ]


def test_a_deleted_turn_is_in_no_entry_and_no_prompt(store: SqliteStore, history: History) -> None:  # DEL-01
    say(store, "codes", 9, "Rui's copper locker code is 7719", "Rui likes copper chess sets")
    for chat in (copying_chat(), None):
        ready(strategy(chat), history)
    code = next(turn for turn in history.turns() if "7719" in turn.text)
    receipt = store.delete("ann", turn_ids=[code.turn_id])
    assert receipt.entries == 2  # the page and the extract
    for flushed in (False, True):
        for chat in (copying_chat(), None):
            made = strategy(chat)
            if flushed:
                ready(made, history)
            assert "7719" not in ask(made, history).rendered
            assert all("7719" not in request.question for request in (chat.requests if chat else ()))
    assert all("7719" not in entry.index_text for entry in history.entries("t2mem"))
    assert any("chess" in entry.index_text for entry in history.entries("t2mem", "episode"))


# --- presets; each test fails for the base design


def test_summaries_and_graphs_are_other_entries_of_their_own(history: History) -> None:
    chat = copying_chat()
    for preset in (None, "summary", "graph"):
        ready(strategy(chat, preset), history)
    rules = {request.messages[0].content for request in chat.requests}
    assert len(rules) == 3
    assert [entry.kind for entry in history.entries("t2mem")] == ["episode"] * 3
    summary = history.entries("t2mem:summary", "summary")[0]
    assert summary.data["summary"] == "Ann: I bought a copper kettle. Bob: Where? Ann: In Bergen, by the fish hall."
    graph = history.entries("t2mem:graph", "graph")[0]
    assert graph.data["relations"][0]["object"] == "I bought a copper kettle."
    assert "Ann – said – I bought a copper kettle." in graph.index_text


@pytest.mark.parametrize(("preset", "line"), [("summary", "Bob: Nice."), ("graph", "Ann – said – The copper")])
def test_summaries_and_graphs_are_what_the_loop_sees(history: History, preset: Preset, line: str) -> None:
    observed: list[str] = []

    def recall(request: ChatRequest) -> str:
        observed.append(block(request, "observation"))
        return step("Answer")

    made = ready(strategy(scripted(recall), preset), history)
    assert ask(made, history).ranked[0].unit_id == f"{preset}:tea"
    assert line in observed[0]


def test_without_metadata_whole_sessions_are_searched_and_shown(store: SqliteStore, history: History) -> None:
    for day in range(9, 15):
        say(store, f"more{day}", day, f"Copper pot {day}.")
    observed: list[list[str]] = []

    def recall(request: ChatRequest) -> str:
        lines = block(request, "observation").splitlines()
        observed.append([text for text in lines if "the whole session" in text])
        assert "ReadRaw" not in request.messages[0].content
        assert not seen(request)
        return step("SearchMeta", memory=[("Ann bought a copper kettle.", [])] if len(observed) == 1 else [])

    chat = scripted(recall)
    made = strategy(chat, "no_metadata")
    assert (made.build(history, Context(), flush=True).put, chat.requests) == (0, [])
    recalled = ask(made, history)
    assert [len(lines) for lines in observed] == [5, 1, 1, 1, 1]  # k is 5, then 1, of nine sessions
    assert {item.unit_id for item in recalled.ranked} >= {"market", "tea", "more9"}
    assert texts(recalled) == ["Ann bought a copper kettle."]
    assert history.entries("t2mem") == []


def test_without_raw_data_no_session_is_read(history: History) -> None:
    tried: list[str] = []

    def recall(request: ChatRequest) -> str:
        tried.append(request.messages[1].content)
        assert "ReadRaw" not in request.messages[0].content
        return step("ReadRaw", 1) if len(tried) == 1 else step("Answer", memory=[("A copper kettle.", ["1.1"])])

    made = ready(strategy(scripted(recall), "no_raw"), history)
    recalled = ask(made, history)
    assert len(tried) == 2
    assert tried[0] == tried[1]  # an invalid reply, asked again about the same entries
    assert "the whole session" not in "".join(tried)
    assert texts(recalled) == ["A copper kettle."]
    assert len(recalled.steps) == 2


def test_without_rollout_the_first_entries_are_the_evidence(store: SqliteStore, history: History) -> None:
    for day in range(9, 14):
        say(store, f"more{day}", day, f"Copper pot {day}.")
    chat = copying_chat()
    made = ready(strategy(chat, "no_rollout"), history)
    built = len(chat.requests)
    recalled = ask(made, history)
    assert len(chat.requests) == built
    assert [line.kind for line in recalled.evidence] == ["summary"] * 5
    assert recalled.evidence[0].text == (
        "A talk\nThey talk.\nAnn: I bought a copper kettle.\nBob: Where?\nAnn: In Bergen, by the fish hall."
    )
    assert len(recalled.evidence[0].sources) == 2  # "Where?" says nothing a line could rest on
    assert [line.session_id for line in recalled.evidence][:2] == ["market", "tea"]


def test_designs_with_the_same_entries_share_them(history: History) -> None:
    chat = copying_chat()
    ready(strategy(chat), history)
    for preset in ("no_raw", "no_rollout"):
        assert strategy(chat, preset).build(history, Context(), flush=True).put == 0
        assert strategy(chat, preset).build(history, Context(), flush=True).strategy == f"t2mem:{preset}"
    assert len(chat.requests) == 3


def test_an_entry_without_references_rests_on_its_whole_session(history: History) -> None:
    def reply(request: ChatRequest) -> str:
        return json.dumps({"overview": "A copper kettle."})

    made = ready(strategy(FunctionChat(reply), "no_rollout"), history)
    assert [len(line.sources) for line in ask(made, history).evidence] == [3, 1, 2]


# --- forms without a model, and what is not built


def test_without_a_model_the_best_turns_of_the_best_sessions_are_shown(history: History) -> None:
    made = ready(strategy(None), history)
    recalled = ask(made, history, budget=85)
    assert [(line.kind, line.text) for line in recalled.evidence] == [
        ("verbatim", "I bought a copper kettle."),
        ("verbatim", "The copper kettle boils fast."),
    ]
    assert made.config["form"] == "turns"
    assert made.config["entries"] == "episode-extract"
    assert [item.unit_id for item in recalled.ranked[:2]] == ["episode-extract:tea", "episode-extract:market"]
    assert recalled.usage == ()


def test_of_equal_turns_that_of_the_better_session_goes_first(store: SqliteStore, history: History) -> None:
    far = ("Bergen is by the sea.", *["Snow, ice and reindeer in the north."] * 9)
    say(store, "far", 5, *far)
    say(store, "near", 6, "Bergen is by the sea.", "Bergen has copper.")
    recalled = strategy(None).recall(history, "sea at Bergen", None, Context(counter=EstimateCounter()))
    ranks = {line.session_id: line.rank for line in recalled.evidence if line.text == far[0]}
    assert ranks["near"] < ranks["far"]  # though it was said later


@pytest.mark.parametrize("preset", ["no_raw", "no_rollout"])
def test_without_a_model_designs_that_read_no_session_show_entries(history: History, preset: Preset) -> None:
    made = ready(strategy(None, preset), history)
    recalled = ask(made, history)
    assert [line.kind for line in recalled.evidence] == ["summary"] * 3
    assert made.config["form"] == "entries"


def test_extracts_and_pages_are_kept_apart(history: History) -> None:
    ready(strategy(None), history)
    ready(strategy(copying_chat()), history)
    assert [entry.kind for entry in history.entries("t2mem")] == ["episode"] * 3 + ["episode-extract"] * 3
    assert ask(strategy(None), history).ranked[0].unit_id == "episode-extract:tea"


def test_an_open_session_is_seen_raw_beside_the_entries(store: SqliteStore, history: History) -> None:
    chat = copying_chat()
    made = ready(strategy(chat), history)
    say(store, "today", 9, "The kettle came from Bergen, of copper.")
    made.build(history, Context())
    recalled = ask(made, history)
    assert "today" in [item.unit_id for item in recalled.ranked]
    first = next(request for request in chat.requests if request.purpose == "recall")
    assert "[4] the whole session" in block(first, "observation")
    assert any("from Bergen, of copper" in text for text in texts(recalled))


def test_stopping_and_telling(history: History) -> None:
    told: list[Step] = []
    made = ready(strategy(copying_chat()), history)
    ctx = Context(counter=EstimateCounter(), on_step=told.append)
    cancelled = threading.Event()
    cancelled.set()
    recalled = ask(made, history, ctx=replace(ctx, cancel=cancelled))
    assert [item.reason for item in recalled.degraded] == ["stopped before its end; the memory so far is shown"]
    assert [item.name for item in told] == ["retrieve"]
    late = ask(made, history, ctx=replace(ctx, deadline=time.monotonic() - 1))
    assert (late.evidence, len(late.degraded)) == ((), 1)


def test_the_config_names_everything_that_changes_a_result() -> None:
    chat = copying_chat()
    configs = [json.dumps(dict(strategy(chat, preset).config), sort_keys=True) for preset in PRESETS]
    assert len(set(configs)) == len(PRESETS)
    config = strategy(chat, steps=7, first=3, reasoning_tokens=64).config
    assert (config["steps"], config["first"], config["reasoning_tokens"]) == (7, 3, 64)
    assert set(config["prompts"]) == {"controller", "tools", "episode"}
    assert (config["model"], config["build_model"], config["retriever"]) == ("scripted", "scripted", "bm25")
    assert strategy(None).config["model"] is None


PRESETS: tuple[Preset | None, ...] = (None, "summary", "graph", "no_metadata", "no_raw", "no_rollout")


def test_every_preset_is_registered() -> None:
    names = {strategy(None, preset).name for preset in PRESETS}
    assert names == {name for name in STRATEGIES if name.split(":")[0] == "t2mem"}


def test_entries_get_vectors_with_the_turns(tmp_path: Path) -> None:
    chat = copying_chat()
    settings = Settings(path=tmp_path / "m.db", embedder="none", strategy="t2mem")
    with Memory.open(embedder=HashEmbedder(), model=chat, settings=settings, counter=EstimateCounter()) as memory:
        for session, said in TALK.items():
            memory.add([{"role": "user", "content": text} for text in said], user_id="ann", session_id=session)
        report = memory.build(user_id="ann", flush=True)
        assert (report.put, len(report.usage), report.degraded) == (3, 3, ())
        recalled = memory.recall(QUESTION, user_id="ann")
        assert recalled.degraded == ()  # no vector is missing
        assert memory.pending(user_id="ann") == 0
        assert recalled.usage
        assert any("copper kettle" in line.text for line in recalled.evidence)
