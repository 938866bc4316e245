"""LeanMem as a whole: builds that go on, recalls by plan, the ablations, and how forms stand side by side."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from leanmem_samples import calls, context, draft, opened, plan, record, said, scripted, texts_by_id
from memory_samples import Counting

from backread.errors import InvalidInputError, ModelRequestError
from backread.retrieval.bm25 import Bm25Retriever
from backread.retrieval.hybrid import HybridRetriever
from backread.retrieval.indexing import embed_pending
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Parts
from backread.strategies.leanmem.design import PRESETS
from backread.strategies.leanmem.strategy import LeanMem
from backread.strategies.registry import create
from backread.testing.fakes import ChatRequest, FunctionChat, HashEmbedder
from backread.types import Evidence, Recall, Step

Kept = tuple[SqliteStore, History]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    store, history = opened(tmp_path)
    store.append(
        "ann",
        [
            draft("s1", "2024-01-08", "My favourite tea is oolong"),
            draft("s2", "2024-02-01", "I moved to Leeds yesterday"),
            draft("s3", "2024-03-04", "What should I pack for Bergen in winter?"),
            draft("s3", "2024-03-04", "A raincoat, wool socks and the ferry ticket.", "assistant"),
            draft("s4", "2024-04-02", "The cat is ill"),
        ],
    )
    yield store, history
    store.close()


def schedules(request: ChatRequest) -> dict[str, Any]:
    """Tea is a profile, moving an event, packing a record; the cat is ignored."""
    line = said(request)[0]
    if "tea" in line:
        held = [{"attribute": "favourite tea", "value": line.split()[-1]}]
        return {"action": "profile", "source_indices": [1], "attributes": held}
    actions = {"moved": "event", "pack": "record"}
    action = next((kind for word, kind in actions.items() if word in line), "ignore")
    return {"action": action, "source_indices": [1], "attributes": []}


EVENT = {"topic": "Ann's home", "temporal_anchor": "2024-01-31", "state": "Ann moved to Leeds."}
GIST = {"gist": "Ann asks what to pack for Bergen."}


def chat(**given: Any) -> FunctionChat:
    kinds = ("profile", "event", "record")
    script: dict[str, Any] = {
        "schedule": schedules,
        "event": EVENT,
        "gist": GIST,
        "evolve": {"op": "none"},
        "plan": plan(*kinds),
    }
    return scripted(**(script | given))


def lean(model: FunctionChat | None, name: str = "leanmem", **given: Any) -> LeanMem:
    return LeanMem(given.pop("retriever", HybridRetriever(None)), model, model, name=name, **given)


def built(history: History, name: str = "leanmem", **given: Any) -> tuple[LeanMem, FunctionChat]:
    model = chat(**given)
    strategy = lean(model, name)
    strategy.build(history, context(), flush=True)
    model.requests.clear()
    return strategy, model


def ask(strategy: LeanMem, history: History, question: str, budget: int | None = 1000) -> Recall:
    return strategy.recall(history, question, budget, context())


def lines(recall: Recall) -> list[str]:
    return [line.text for line in recall.evidence]


class TestBuild:
    def test_each_segment_becomes_what_it_is(self, kept: Kept) -> None:
        _, history = kept
        report = lean(chat()).build(history, context(), flush=True)
        assert [entry.kind for entry in history.entries("leanmem")] == ["event", "profile", "record"]
        assert (report.strategy, report.put, report.dropped, report.failed) == ("leanmem", 3, 0, ())
        assert len(report.usage) == 6  # four routings, an event, a gist
        assert all(usage.purpose == "build" for usage in report.usage)

    def test_only_what_is_new_is_written_again(self, kept: Kept) -> None:
        store, history = kept
        strategy, model = built(history)
        assert strategy.build(history, context(), flush=True).usage == ()
        store.append("ann", [draft("s2", "2024-02-01", "My bike was stolen there")])  # a late turn
        strategy.build(history, context(), flush=True)
        assert calls(model) == ["schedule", "event"]
        assert said(model.requests[0]) == ["Ann: I moved to Leeds yesterday", "Ann: My bike was stolen there"]

    def test_without_flush_the_latest_session_waits_and_is_searched_as_it_was_said(self, kept: Kept) -> None:
        _, history = kept
        strategy = lean(chat())
        strategy.build(history, context())
        recall = ask(strategy, history, "Is the cat ill?")
        assert "The cat is ill" in lines(recall)
        assert [step.detail["unbuilt"] for step in recall.steps if step.name == "retrieve"] == [1]

    def test_a_session_that_failed_is_tried_again_and_the_others_go_on(self, kept: Kept) -> None:
        _, history = kept
        strategy = lean(chat(event=ModelRequestError("down")))
        report = strategy.build(history, context(), flush=True)
        assert report.failed == (("s2", "down"),)
        assert [entry.kind for entry in history.entries("leanmem")] == ["profile", "record"]
        recall = ask(strategy, history, "Where did Ann move?")
        assert "I moved to Leeds yesterday" in lines(recall)
        again = chat()
        assert lean(again).build(history, context(), flush=True).put == 1
        assert calls(again) == ["schedule", "event"]

    def test_turns_that_arrive_during_a_call_are_not_lost(self, kept: Kept) -> None:
        store, history = kept
        done = threading.Event()

        def adds(request: ChatRequest) -> dict[str, Any]:
            if "Leeds" in " ".join(said(request)) and not done.is_set():
                done.set()
                store.append("ann", [draft("s2", "2024-02-01", "My bike was stolen there")])
            return schedules(request) | ({"source_indices": []} if len(said(request)) > 1 else {})

        strategy = lean(chat(schedule=adds))
        report = strategy.build(history, context(), flush=True)
        assert [item.part for item in report.degraded] == ["build"]
        assert not history.entries("leanmem", "event")  # what was read is old: nothing of it is written
        recall = ask(strategy, history, "Was the bike stolen?")
        assert "My bike was stolen there" in lines(recall)
        strategy.build(history, context(), flush=True)
        (entry,) = history.entries("leanmem", "event")
        texts = texts_by_id(history)
        assert [texts[turn_id] for turn_id in entry.data["turns"]] == [
            "I moved to Leeds yesterday",
            "My bike was stolen there",
        ]

    def test_no_more_calls_run_at_once_than_allowed(self, kept: Kept) -> None:
        _, history = kept
        running, most = [0], [0]
        lock = threading.Lock()
        both = threading.Barrier(2, timeout=5)

        def counts(request: ChatRequest) -> dict[str, Any]:
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            both.wait()
            with lock:
                running[0] -= 1
            return {"action": "ignore"}

        lean(chat(schedule=counts)).build(history, context(concurrency=2), flush=True)
        assert most == [2]

    def test_dropped_and_built_again_it_is_the_same(self, kept: Kept, tmp_path: Path) -> None:
        _, history = kept
        built(history)
        first = [(entry.entry_id, entry.data, entry.index_text, entry.sources) for entry in history.entries("leanmem")]
        version, _ = history.strategy_state("leanmem")
        history.commit("leanmem", version, (), [entry_id for entry_id, *_ in first], b"{}")
        assert history.entries("leanmem") == []
        built(history)
        again = [(entry.entry_id, entry.data, entry.index_text, entry.sources) for entry in history.entries("leanmem")]
        assert again == first

    def test_entries_and_buffer_are_sound(self, kept: Kept) -> None:
        store, history = kept
        built(history)
        assert store.verify("ann").ok
        _, state = history.strategy_state("leanmem")
        assert set(json.loads(state or b"{}")) == {"model", "evolution"}
        assert b"Leeds" not in (state or b"")

    def test_a_delete_takes_what_rests_on_the_turn_and_the_rest_is_written_anew(self, kept: Kept) -> None:  # DEL-01
        store, history = kept
        code = draft("s3", "2024-03-04", "And my locker code 7719 is for the bag")
        store.append("ann", [code])
        strategy, model = built(history, schedule=record, gist=lambda request: {"gist": " ".join(said(request))})
        assert "7719" in json.dumps([entry.data for entry in history.entries("leanmem")])
        secret = next(turn.turn_id for turn in history.turns() if "7719" in turn.text)
        receipt = store.delete("ann", turn_ids=[secret])
        assert (receipt.entries, receipt.to_rebuild) == (1, 2)
        assert "7719" not in json.dumps([[entry.data, entry.index_text] for entry in history.entries("leanmem")])
        assert "7719" not in ask(strategy, history, "What is the locker code?").rendered
        model.requests.clear()
        strategy.build(history, context(), flush=True)
        assert calls(model) == ["schedule", "gist"]
        (entry,) = [item for item in history.entries("leanmem", "record") if "Bergen" in item.data["gist"]]
        assert "raincoat" in entry.data["gist"]


class TestRecall:
    def test_the_plan_says_which_kinds_are_read(self, kept: Kept) -> None:
        _, history = kept
        strategy, model = built(history, plan=plan("profile"))
        recall = ask(strategy, history, "What tea does Ann like, and where did she move and pack for Bergen?")
        assert calls(model) == ["plan"]
        assert lines(recall) == ["[profile] favourite tea: oolong"]
        assert [usage.purpose for usage in recall.usage] == ["recall"]
        assert [step.name for step in recall.steps] == ["plan", "retrieve"]
        both, _ = built(history, plan=plan("profile", "event"))
        assert lines(ask(both, history, "What tea does Ann like, and where did she move?")) == [
            "[profile] favourite tea: oolong",
            "[event] Ann's home: Ann moved to Leeds. (2024-01-31)",
        ]

    def test_records_are_read_word_for_word_only_where_details_are_wanted(self, kept: Kept) -> None:
        _, history = kept
        strategy, _ = built(history, plan=plan("record"))
        recall = ask(strategy, history, "What did Ann pack for Bergen?")
        assert [(line.text, line.kind) for line in recall.evidence] == [
            ("[record] Ann asks what to pack for Bergen.", "summary")
        ]
        assert len(recall.evidence[0].sources) == 2
        detailed, _ = built(history, plan=plan("record", detail=True))
        recall = ask(detailed, history, "What did Ann pack for Bergen?")
        assert [(line.text, line.kind) for line in recall.evidence] == [
            ("What should I pack for Bergen in winter?", "verbatim"),
            ("A raincoat, wool socks and the ferry ticket.", "verbatim"),
        ]
        constraints = {"entity": ["Oslo"], "attribute": ["socks"], "temporal": [], "relational": []}
        lacking, _ = built(history, plan=plan("record", constraints=constraints))
        recall = ask(lacking, history, "What did Ann pack for Bergen?")
        assert [line.kind for line in recall.evidence] == ["verbatim", "verbatim"]

    def test_scores_are_weight_times_relevance_and_match(self, kept: Kept) -> None:
        _, history = kept
        model = chat(
            plan=plan(
                "profile",
                "event",
                weights={"profile": 0.25, "event": 0.75},
                constraints={"entity": ["Ann"], "attribute": ["oolong"], "temporal": ["2023"], "relational": []},
            )
        )
        strategy = lean(model)
        strategy.build(history, context(), flush=True)
        recall = ask(strategy, history, "Ann oolong Leeds")
        # Alone of its kind each is the retriever's best: Rel = 1. The profile meets two of three, the event one.
        assert [(item.unit_id.split(":")[0], round(item.score, 4)) for item in recall.ranked] == [
            ("event", round(0.75 * (1 + 1 / 3), 4)),
            ("profile", round(0.25 * (1 + 2 / 3), 4)),
        ]

    def test_relevance_is_the_cosine_where_there_are_vectors(self, kept: Kept) -> None:
        _, history = kept
        embedder = HashEmbedder()
        model = chat(plan=plan("event"))
        strategy = lean(model, embedder=embedder)
        strategy.build(history, context(), flush=True)
        recall = ask(strategy, history, "Where did Ann move?")
        (entry,) = history.entries("leanmem", "event")
        cosine = float(embedder.embed(["Where did Ann move?"])[0] @ embedder.embed([entry.index_text])[0])
        assert recall.ranked[0].score == pytest.approx(cosine, abs=1e-4)
        chosen = lean(model, embedder=embedder, retriever=Bm25Retriever(), fixed_retriever=True)
        assert ask(chosen, history, "Where did Ann move?").ranked[0].score == 1.0

    def test_vectors_that_are_there_are_not_made_again(self, kept: Kept) -> None:
        store, history = kept
        embedder = Counting()
        model = chat(plan=plan("event"))
        strategy = lean(model, embedder=embedder)
        strategy.build(history, context(), flush=True)
        waiting = ask(strategy, history, "Where did Ann move?").ranked
        embed_pending(store, "ann", embedder)
        embedder.texts.clear()
        embedder.queries.clear()
        assert ask(strategy, history, "Where did Ann move?").ranked == waiting
        assert (embedder.texts, embedder.queries) == ([], ["Where did Ann move?"])

    def test_an_invalid_plan_is_said_and_every_kind_counts_the_same(self, kept: Kept) -> None:
        _, history = kept
        strategy, _ = built(history, plan="I would look for events.")
        recall = ask(strategy, history, "tea moved pack Bergen")
        assert {line.kind for line in recall.evidence} == {"rewrite", "verbatim"}
        assert [item.part for item in recall.degraded] == ["plan"]
        assert len(recall.usage) == 2

    def test_a_planner_that_is_down_is_an_error(self, kept: Kept) -> None:
        _, history = kept
        strategy, _ = built(history, plan=ModelRequestError("down"))
        with pytest.raises(ModelRequestError):
            ask(strategy, history, "Where did Ann move?")

    def test_nothing_is_planned_where_nothing_is_built(self, kept: Kept) -> None:
        _, history = kept
        model = chat()
        recall = ask(lean(model), history, "Where did I move?")
        assert model.requests == []
        assert "I moved to Leeds yesterday" in lines(recall)

    def test_there_is_no_plan_after_the_deadline(self, kept: Kept) -> None:
        _, history = kept
        strategy, model = built(history)
        recall = strategy.recall(history, "Where did Ann move?", 500, context(deadline=0.0))
        assert model.requests == []
        assert [item.part for item in recall.degraded] == ["plan"]
        assert recall.evidence

    def test_never_more_than_the_context_of_the_design(self, kept: Kept) -> None:
        store, history = kept
        store.append("ann", [draft("s5", "2024-05-01", "the ferry " + "is late and loud again " * 900)])
        recall = ask(lean(None), history, "Is the ferry late?", None)
        assert 2000 < recall.tokens <= 2500
        assert recall.evidence[-1].cut

    def test_lines_name_their_turns(self, kept: Kept) -> None:
        _, history = kept
        strategy, _ = built(history)
        texts = texts_by_id(history)

        def behind(line: Evidence) -> list[str]:
            return [texts[source.turn_id] for source in line.sources]

        recall = ask(strategy, history, "tea moved Bergen")
        found = {line.text.split("]")[0]: behind(line) for line in recall.evidence}
        assert found["[profile"] == ["My favourite tea is oolong"]
        assert found["[event"] == ["I moved to Leeds yesterday"]
        assert recall.evidence[0].speaker == "Ann"
        assert set(recall.considered) >= {source.turn_id for line in recall.evidence for source in line.sources}

    def test_the_same_attribute_twice_is_shown_with_both_values_once_each(self, kept: Kept) -> None:
        store, history = kept
        store.append("ann", [draft("s6", "2024-06-01", "My favourite tea is sencha")])
        store.append("ann", [draft("s7", "2024-07-01", "My favourite tea is oolong")])

        strategy, _ = built(history, plan=plan("profile"))
        recall = ask(strategy, history, "Which tea is Ann's favourite?")
        assert lines(recall) == [
            "[profile] favourite tea: oolong",
            "[profile] favourite tea: sencha",
        ]
        assert "# 2024-06-01 12:00" in recall.rendered


class TestForms:
    def test_entries_of_a_model_are_read_without_one(self, kept: Kept) -> None:
        _, history = kept
        built(history)
        recall = ask(lean(None), history, "Where did Ann move?")
        assert "[event] Ann's home: Ann moved to Leeds. (2024-01-31)" in lines(recall)
        assert recall.steps[-1].detail["written_by"] == ["model"]

    def test_rules_never_overwrite_what_a_model_wrote(self, kept: Kept) -> None:
        _, history = kept
        strategy, _ = built(history)
        by_rule = lean(None)
        assert by_rule.build(history, context(), flush=True).put == 4
        assert len(history.entries("leanmem", "event")) == 1
        assert ask(by_rule, history, "Where did I move?").steps[-1].detail["written_by"] == ["rules"]
        assert ask(strategy, history, "Where did I move?").steps[-1].detail["written_by"] == ["model"]

    def test_the_form_is_in_the_config(self) -> None:
        config = lean(None).config
        assert (config["form"], config["plan"], config["evolving"]) == ("rules", "uniform", False)
        assert (config["relevance"], config["compares"]) == ("share of the best score", "words")
        assert config["prompts"] == {}
        config = lean(chat(), embedder=HashEmbedder()).config
        assert (config["form"], config["plan"], config["evolving"]) == ("model", "model", True)
        assert (config["relevance"], config["tagger"]) == ("cosine", "rules-1")
        assert set(config["prompts"]) == {"schedule", "event", "gist", "evolve", "plan"}

    @pytest.mark.parametrize("given", [{"name": "leanmem:no_idea"}, {"window": 0}])
    def test_what_makes_no_design_is_refused(self, given: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError):
            LeanMem(HybridRetriever(None), **given)

    def test_another_w_writes_all_again(self, kept: Kept) -> None:
        _, history = kept
        lean(None).build(history, context(), flush=True)
        report = lean(None, window=2).build(history, context(), flush=True)
        assert report.put == 4


class TestAblations:
    """What each leaves out, against the design itself; those of writing are in `test_writing` and `test_evolution`."""

    def test_no_plan_takes_the_nearest_of_all_kinds(self, kept: Kept) -> None:
        _, history = kept
        _, model = built(history, plan=plan("profile"))
        strategy = lean(model, "leanmem:no_plan")
        recall = ask(strategy, history, "tea moved pack Bergen")
        assert model.requests == []
        assert {line.kind for line in recall.evidence} == {"rewrite", "verbatim"}
        assert strategy.config["plan"] == "none"
        assert lines(ask(lean(model), history, "tea moved pack Bergen")) == ["[profile] favourite tea: oolong"]

    def test_no_plan_takes_fifteen_in_one_list(self, kept: Kept) -> None:
        store, history = kept
        days = [f"2024-05-{day:02}" for day in range(1, 21)]
        store.append("ann", [draft(f"m-{day}", day, f"I moved box {day[-2:]} to Leeds") for day in days])
        _, model = built(
            history,
            event=lambda request: EVENT | {"state": said(request)[0]},
            plan=plan("event", depths={"event": 3}),
        )
        assert len(ask(lean(model, "leanmem:no_plan"), history, "moved Leeds").ranked) == 15
        assert len(ask(lean(model), history, "moved Leeds").ranked) == 3

    def test_no_schedule_shows_summaries(self, kept: Kept) -> None:
        _, history = kept
        strategy, model = built(
            history, "leanmem:no_schedule", summary=lambda request: {"summary": f"It was said: {said(request)[0]}."}
        )
        recall = ask(strategy, history, "Where did I move?")
        assert calls(model) == ["plan"]
        assert [(line.text, line.kind) for line in recall.evidence if "Leeds" in line.text] == [
            ("[summary] It was said: Ann: I moved to Leeds yesterday.", "summary")
        ]

    def test_no_segments_routes_a_session_at_once(self, kept: Kept) -> None:
        store, history = kept
        texts = ["the boiler is loud", "the boiler is cold", "the ferry sails", "the ferry is late"]
        store.append("ann", [draft("s9", "2024-09-01", text) for text in texts])
        answers: dict[str, Any] = {"schedule": record, "gist": lambda request: {"gist": " ".join(said(request))}}
        for name, segments in (("leanmem", 2), ("leanmem:no_segments", 1)):
            built(history, name, **answers)
            found = [entry for entry in history.entries(name, "record") if entry.data["sessions"] == ["s9"]]
            assert len(found) == segments

    def test_no_filter_routes_greetings_too(self, kept: Kept) -> None:
        store, history = kept
        store.append("ann", [draft("s9", "2024-09-01", "Hi there!")])
        answers: dict[str, Any] = {"schedule": record, "gist": {"gist": "Hi"}}
        for name, entries in (("leanmem", 0), ("leanmem:no_filter", 1)):
            built(history, name, **answers)
            found = [entry for entry in history.entries(name, "record") if entry.data["sessions"] == ["s9"]]
            assert len(found) == entries

    def test_designs_that_write_differently_stand_apart(self, kept: Kept) -> None:
        _, history = kept
        for name in PRESETS:
            built(history, name, summary={"summary": "Ann moved to Leeds, tea, pack, cat"})
        there = {name: [entry.kind for entry in history.entries(name)] for name in PRESETS}
        assert there["leanmem:no_schedule"] == ["summary"] * 4
        assert there["leanmem:no_plan"] == []  # it has those of the design
        assert there["leanmem:no_evolution"] == there["leanmem"] == ["event", "profile", "record"]

    @pytest.mark.parametrize("name", sorted(PRESETS))
    def test_each_is_made_by_name_with_the_parts_there_are(self, name: str) -> None:
        made = create(name, Parts(HybridRetriever(None), chat(), chat(), HashEmbedder(), fixed_retriever=True))
        assert made.name == name
        assert made.config["form"] == "model"
        assert made.config["relevance"] == "share of the best score"
        assert made.config["compares"] == HashEmbedder().fingerprint


def test_a_recall_tells_its_steps_while_it_happens(kept: Kept) -> None:
    _, history = kept
    strategy, _ = built(history)
    told: list[Step] = []
    recall = strategy.recall(history, "Where did Ann move?", 500, context(on_step=told.append))
    assert tuple(told) == recall.steps
    assert told[0].detail["valid"] is True
    assert told[0].detail["depths"] == {"profile": 5, "event": 5, "record": 5}
