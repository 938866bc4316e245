"""Events that evolve: the buffer, what is related, what becomes of replies, and what is never lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from leanmem_samples import Script, calls, context, draft, event, opened, said, scripted

from backread.errors import ModelRequestError
from backread.retrieval.hybrid import HybridRetriever
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.leanmem.events import Events
from backread.strategies.leanmem.evolution import CAPACITY
from backread.strategies.leanmem.strategy import LeanMem
from backread.testing.fakes import ChatRequest, FunctionChat
from backread.types import BuildReport, Entry, Step, TurnDraft

Kept = tuple[SqliteStore, History]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    store, history = opened(tmp_path)
    yield store, history
    store.close()


def told(request: ChatRequest) -> dict[str, str]:
    """The event a turn tells, word for word: "topic: state"."""
    topic, _, state = said(request)[0].removeprefix("Ann: ").partition(": ")
    return {"topic": topic, "temporal_anchor": "", "state": state}


def merged(op: str = "revise", target: str = "E1") -> Callable[[ChatRequest], dict[str, str]]:
    """Merges the new event into one that is shown; the later of the two says how things stand."""

    def reply(request: ChatRequest) -> dict[str, str]:
        new, *others = said(request)
        known = {f"E{number}": line for number, line in enumerate(others, 1)}
        _, topic, state = max(new, known.get(target, new)).split(" | ")
        return {
            "op": op,
            "target_id": target,
            "topic": topic,
            "temporal_anchor": "",
            "state": state.partition(" (so far")[0],
        }

    return reply


def lean(evolve: Script, name: str = "leanmem") -> tuple[LeanMem, FunctionChat]:
    chat = scripted(schedule=event, event=told, evolve=evolve)
    return LeanMem(HybridRetriever(None), None, chat, name=name), chat


NEWS = (
    ("2024-01-08", "way to work: takes the early bus to work"),
    ("2024-02-01", "cello lessons: started cello lessons with Gwen"),
    ("2024-03-04", "way to work: cycles to work"),
)


def drafts(news: Sequence[tuple[str, str]] = NEWS) -> list[TurnDraft]:
    return [draft(f"s-{day}", day, text) for day, text in news]


def current(history: History) -> list[Entry]:
    return Events(history.entries("leanmem", "event")).current


def states(history: History) -> list[str]:
    return [entry.data["state"] for entry in current(history)]


def alone(history: History) -> set[str]:
    """Events that were looked at and merged with none."""
    _, state = history.strategy_state("leanmem")
    return set(json.loads(state or b"{}").get("evolution", {}).get("alone", {}))


def build(strategy: LeanMem, history: History, **given: Any) -> BuildReport:
    return strategy.build(history, context(**given), flush=True)


class TestBuffer:
    def test_it_waits_until_it_is_full(self, kept: Kept) -> None:
        store, history = kept
        strategy, chat = lean({"op": "none"})
        days = [f"2024-01-{day:02}" for day in range(1, CAPACITY + 1)]
        store.append("ann", drafts([(day, f"topic {day}: bus number {day} again") for day in days]))
        strategy.build(history, context())  # the latest session is not sealed: seven events
        assert len(current(history)) == CAPACITY - 1
        assert "evolve" not in calls(chat)
        assert alone(history) == set()
        store.append("ann", drafts([("2024-02-01", "topic: bus number 9 again")]))
        strategy.build(history, context())  # now there are eight, all alike
        # Each is looked at; the first has seven others to be compared with, and so on.
        assert calls(chat).count("evolve") == CAPACITY
        assert len(alone(history)) == CAPACITY

    def test_what_is_in_it_is_found_at_once(self, kept: Kept) -> None:
        store, history = kept
        strategy, _ = lean({"op": "none"})
        store.append("ann", drafts())
        strategy.build(history, context())
        recall = strategy.recall(history, "How do I get to work?", 500, context())
        assert alone(history) == set()
        assert "[event] way to work: takes the early bus to work" in recall.rendered

    def test_a_flush_and_maintain_empty_it(self, kept: Kept) -> None:
        store, history = kept
        strategy, chat = lean(merged())
        store.append("ann", drafts())
        strategy.build(history, context())
        assert "evolve" not in calls(chat)
        report = strategy.maintain(history, context())
        assert len(alone(history)) == 2
        assert report.put == 0  # the bus and the cello have nothing in common
        assert build(strategy, history).put == 2  # the third event, and what became of it and the first
        assert states(history) == ["started cello lessons with Gwen", "cycles to work"]

    def test_a_full_one_leaves_the_rest_in_it(self, kept: Kept) -> None:
        store, history = kept
        strategy, _ = lean({"op": "none"})
        news = [(f"2024-01-{day:02}", f"topic {day}: state {day}") for day in range(1, 13)]
        store.append("ann", drafts(news))
        strategy.build(history, context())  # eleven sealed sessions: eight are looked at, the oldest first
        first = [f"event:s-2024-01-{day:02}" for day in range(1, 9)]
        assert sorted(entry_id.rpartition(":")[0] for entry_id in alone(history)) == first

    def test_without_evolution_nothing_is_compared(self, kept: Kept) -> None:
        store, history = kept
        strategy, chat = lean(merged(), "leanmem:no_evolution")
        store.append("ann", drafts())
        build(strategy, history)
        strategy.maintain(history, context())
        assert "evolve" not in calls(chat)
        assert len(Events(history.entries("leanmem:no_evolution", "event")).current) == 3
        base, other = lean(merged())
        build(base, history)
        assert "evolve" in calls(other)
        assert len(current(history)) == 2


class TestRelated:
    def test_they_are_shown_with_their_dates_the_new_one_first(self, kept: Kept) -> None:
        store, history = kept
        strategy, chat = lean(merged())
        store.append("ann", drafts())
        build(strategy, history)
        (request,) = [item for item in chat.requests if "<events" in item.question]
        # The oldest is looked at first, and sees the later one.
        assert said(request) == [
            "2024-01-08 | way to work | takes the early bus to work",
            "2024-03-04 | way to work | cycles to work",
        ]
        assert "[E1] 2024-03-04" in request.question

    def test_at_most_five_in_order_of_time(self, kept: Kept) -> None:
        store, history = kept
        strategy, chat = lean({"op": "none"})
        days = [f"2024-01-{day:02}" for day in (3, 1, 7, 5, 6, 2, 4)]
        store.append("ann", drafts([(day, f"way to work: takes bus {day[-1]} to work") for day in days]))
        build(strategy, history)
        seen = [said(item)[1:] for item in chat.requests if "<events" in item.question]
        assert {len(lines) for lines in seen} == {5}
        assert all(lines == sorted(lines) for lines in seen)

    def test_an_event_that_nothing_is_related_to_costs_no_call(self, kept: Kept) -> None:
        store, history = kept
        strategy, chat = lean({"op": "none"})
        store.append("ann", drafts(NEWS[:2]))
        build(strategy, history)
        assert calls(chat) == ["schedule", "event"] * 2
        assert len(alone(history)) == 2


class TestMerging:
    def test_old_states_stay_in_the_timeline_word_for_word(self, kept: Kept) -> None:
        store, history = kept
        strategy, _ = lean(lambda request: merged()(request) | {"state": "cycles to work now"})
        store.append("ann", drafts())
        report = build(strategy, history)
        cello, way = current(history)
        assert cello.data["topic"] == "cello lessons"
        assert way.data["state"] == "cycles to work now"
        assert way.data["timeline"] == [
            {"t": "2024-01-08", "state": "takes the early bus to work"},
            {"t": "2024-03-04", "state": "cycles to work"},
        ]
        assert "takes the early bus to work" in way.index_text  # it is indexed anew, with all it says
        assert report.put == 4
        assert len(report.usage) == 7

    def test_sources_are_those_of_both_the_latest_first(self, kept: Kept) -> None:
        store, history = kept
        strategy, _ = lean(merged())
        store.append("ann", drafts())
        build(strategy, history)
        way = current(history)[1]
        texts = {turn.turn_id: turn.text for turn in history.turns()}
        assert [texts[source.turn_id] for source in way.sources] == [NEWS[2][1], NEWS[0][1]]
        assert way.said_at is not None
        assert way.said_at.date().isoformat() == "2024-03-04"

    def test_a_third_event_goes_on_from_the_evolved_one(self, kept: Kept) -> None:
        store, history = kept
        strategy, chat = lean(merged("extend"))
        store.append("ann", drafts())
        build(strategy, history)
        store.append("ann", drafts([("2024-05-02", "way to work: rides a scooter to work")]))
        report = build(strategy, history)
        last = [item for item in chat.requests if "<events" in item.question][-1]
        assert said(last)[1].endswith("(so far: 2024-01-08: takes the early bus to work; 2024-03-04: cycles to work)")
        way = current(history)[-1]
        assert [item["t"] for item in way.data["timeline"]] == ["2024-01-08", "2024-03-04", "2024-05-02"]
        assert (report.put, report.dropped) == (2, 1)  # its predecessor is gone, its parts are not
        assert len(history.entries("leanmem", "event")) == 5

    @pytest.mark.parametrize("op", ["add", "revise", "extend"])
    def test_no_operation_loses_a_state(self, kept: Kept, op: str) -> None:
        store, history = kept
        strategy, _ = lean(merged(op))
        store.append("ann", drafts())
        build(strategy, history)
        assert len(current(history)[-1].data["timeline"]) == 2

    @pytest.mark.parametrize(
        ("reply", "degraded"),
        [
            ({"op": "none", "target_id": "E1", "state": "cycles"}, []),
            (
                {"op": "revise", "target_id": "E7", "state": "cycles"},
                ["events stay as they are: the reply named none that was shown"],
            ),
            ("revise it!", ["events stay as they are: no reply could be used"]),
        ],
    )
    def test_what_names_nothing_leaves_events_as_they_are(self, kept: Kept, reply: Any, degraded: list[str]) -> None:
        store, history = kept
        strategy, _ = lean(reply)
        store.append("ann", drafts())
        report = build(strategy, history)
        assert len(current(history)) == 3
        assert [item.reason for item in report.degraded] == degraded
        assert len(alone(history)) == 3  # it is not asked again and again
        assert build(strategy, history).usage == ()

    @pytest.mark.parametrize("state", ["", "Bob sells umbrellas.", "cycles to work with the locker code 7719"])
    def test_a_state_in_other_words_is_not_taken(self, kept: Kept, state: str) -> None:
        """Empty, about nothing that was said, or with a word of an event that was only shown beside."""
        store, history = kept

        def reply(request: ChatRequest) -> dict[str, str]:
            return {"op": "none"} if "locker" in said(request)[0] else merged()(request) | {"state": state}

        strategy, chat = lean(reply)
        store.append("ann", drafts([NEWS[0], NEWS[2], ("2024-03-05", "way to work: locker code 7719 at work")]))
        report = build(strategy, history)
        assert "7719" in next(item for item in chat.requests if "<events" in item.question).question
        way, locker = current(history)
        assert (way.data["state"], locker.data["state"]) == ("cycles to work", "locker code 7719 at work")
        assert "7719" not in json.dumps(way.data)
        assert any("latest state" in item.reason for item in report.degraded)

    @pytest.mark.parametrize(
        ("op", "state"),
        [("revise", "cycles to work"), ("extend", "cycles to work"), ("add", "takes the early bus to work")],
    )
    def test_a_change_that_repeats_the_state_before_it_is_not_taken(self, kept: Kept, op: str, state: str) -> None:
        store, history = kept
        strategy, _ = lean(lambda request: merged(op)(request) | {"state": "takes the early bus to work"})
        store.append("ann", drafts())
        build(strategy, history)
        assert current(history)[-1].data["state"] == state

    def test_a_date_must_be_one_of_the_events(self, kept: Kept) -> None:
        store, history = kept
        strategy, _ = lean(lambda request: merged()(request) | {"temporal_anchor": "2026-11-28"})
        store.append("ann", drafts())
        build(strategy, history)
        assert current(history)[-1].data["anchor"] == ""
        other, _ = lean(lambda request: merged()(request) | {"temporal_anchor": "2024-03"})
        store.append("ann", drafts([("2024-03-05", "way to work: cycles fast to work")]))
        build(other, history)
        assert current(history)[-1].data["anchor"] == "2024-03"


class TestDeleting:
    def test_an_evolved_event_falls_back_to_what_is_left(self, kept: Kept) -> None:  # DEL-01
        store, history = kept
        strategy, chat = lean(merged())
        store.append("ann", drafts())
        build(strategy, history)
        march = next(turn for turn in history.turns() if "cycles" in turn.text)
        store.delete("ann", turn_ids=[march.turn_id])
        dump = json.dumps([[entry.data, entry.index_text] for entry in history.entries("leanmem")])
        assert "cycles" not in dump
        recall = strategy.recall(history, "How do I get to work?", 500, context())
        assert "takes the early bus to work" in recall.rendered  # at once, with no model
        asked = len(chat.requests)
        build(strategy, history)
        assert states(history) == ["takes the early bus to work", "started cello lessons with Gwen"]
        assert len(chat.requests) == asked  # the rest of the parts is still there
        store.delete("ann", turn_ids=[turn.turn_id for turn in history.turns()])
        build(strategy, history)
        assert history.entries("leanmem") == []
        assert alone(history) == set()

    def test_what_is_left_of_three_is_consolidated_again(self, kept: Kept) -> None:
        store, history = kept
        strategy, _ = lean(merged())
        store.append("ann", drafts([NEWS[0], NEWS[2], ("2024-05-02", "way to work: rides a scooter to work")]))
        build(strategy, history)
        assert states(history) == ["rides a scooter to work"]
        middle = next(turn for turn in history.turns() if "cycles" in turn.text)
        store.delete("ann", turn_ids=[middle.turn_id])
        build(strategy, history)
        (way,) = current(history)
        assert [item["state"] for item in way.data["timeline"]] == [
            "takes the early bus to work",
            "rides a scooter to work",
        ]

    def test_a_superseded_turn_takes_its_state_with_it(self, kept: Kept) -> None:
        store, history = kept
        strategy, _ = lean(merged())
        store.append("ann", drafts())
        build(strategy, history)
        march = next(turn for turn in history.turns() if "cycles" in turn.text)
        new = draft("s-2024-03-04", "2024-03-04", "way to work: walks to work", supersedes=march.turn_id)
        store.append("ann", [new])
        recall = strategy.recall(history, "How do I get to work?", 500, context())
        assert "cycles" not in recall.rendered
        assert "walks to work" in recall.rendered  # as it was said
        build(strategy, history)
        assert states(history) == ["started cello lessons with Gwen", "walks to work"]
        assert "cycles" not in json.dumps(current(history)[-1].data)


class TestInterruption:
    def test_a_model_that_is_down_leaves_the_rest_in_the_buffer(self, kept: Kept) -> None:
        store, history = kept
        strategy, _ = lean(ModelRequestError("down"))
        store.append("ann", drafts())
        report = build(strategy, history)
        assert report.failed == (("s-2024-01-08", "events were not consolidated: down"),)
        assert len(current(history)) == 3  # they are written and found
        later, _ = lean(merged())
        assert later.maintain(history, context()).put == 1
        assert states(history) == ["started cello lessons with Gwen", "cycles to work"]

    def test_it_can_be_stopped_between_events(self, kept: Kept) -> None:
        store, history = kept
        stop = threading.Event()

        def stops(request: ChatRequest) -> dict[str, str]:
            stop.set()
            return {"op": "none"}

        strategy, _ = lean(stops)
        store.append("ann", drafts())
        report = build(strategy, history, cancel=stop)
        assert len(alone(history)) == 1
        assert [item.count for item in report.degraded] == [2]
        other, chat = lean({"op": "none"})
        build(other, history)
        assert calls(chat) == ["evolve"]
        assert len(alone(history)) == 3

    def test_a_delete_during_the_call_is_not_undone(self, kept: Kept) -> None:
        store, history = kept

        def deletes(request: ChatRequest) -> dict[str, str]:
            gone = [turn.turn_id for turn in history.turns() if "cycles" in turn.text]
            store.delete("ann", turn_ids=gone)
            return merged()(request)

        strategy, _ = lean(deletes)
        store.append("ann", drafts())
        report = build(strategy, history)
        assert "cycles" not in json.dumps([entry.data for entry in history.entries("leanmem")])
        assert any("changed while" in item.reason for item in report.degraded)
        again, _ = lean(merged())
        build(again, history)
        assert states(history) == ["takes the early bus to work", "started cello lessons with Gwen"]

    def test_turns_that_arrive_during_the_call_change_nothing_of_it(self, kept: Kept) -> None:
        store, history = kept
        left = [drafts([("2024-06-01", "cat: the cat is ill")])]

        def adds(request: ChatRequest) -> dict[str, str]:
            for batch in left[:1]:
                store.append("ann", batch)
                left.clear()
            return merged()(request)

        strategy, _ = lean(adds)
        store.append("ann", drafts())
        build(strategy, history)
        assert states(history) == ["started cello lessons with Gwen", "cycles to work"]
        build(strategy, history)
        assert states(history)[-1] == "the cat is ill"

    def test_another_build_that_was_faster_wins(self, kept: Kept) -> None:
        store, history = kept
        other, _ = lean(merged())

        def overtaken(request: ChatRequest) -> dict[str, str]:
            other.maintain(history, context())
            return merged()(request)

        strategy, _ = lean(overtaken)
        store.append("ann", drafts())
        build(strategy, history)
        assert len(current(history)) == 2
        assert len([entry for entry in history.entries("leanmem", "event") if "parts" in entry.data]) == 1

    def test_a_commit_that_came_between_is_no_loss(self, kept: Kept) -> None:
        store, history = kept
        left = [2]

        class Raced(History):
            """Another build commits right before this one, twice."""

            def now(self) -> History:
                return self

            def commit(self, strategy: str, expected_version: int, *given: Any) -> int:
                if left[0]:
                    left[0] -= 1
                    super().commit(strategy, expected_version)
                return super().commit(strategy, expected_version, *given)

        strategy, _ = lean(merged())
        store.append("ann", drafts())
        strategy.build(history, context())
        strategy.build(history, context(), flush=True)
        store.append("ann", drafts([("2024-05-02", "way to work: rides a scooter to work")]))
        LeanMem(HybridRetriever(None), None, scripted(schedule=event, event=told), name="leanmem").build(
            history, context()
        )
        other, chat = lean(merged())
        other.build(Raced(store, "ann"), context(), flush=True)
        assert calls(chat).count("evolve") == 1
        assert states(history)[-1] == "rides a scooter to work"
        assert left == [0]

    def test_steps_tell_what_was_done(self, kept: Kept) -> None:
        store, history = kept
        steps: list[Step] = []
        strategy, _ = lean(merged())
        store.append("ann", drafts())
        build(strategy, history, on_step=steps.append)
        assert [step.name for step in steps] == ["build"] * 3 + ["evolve"]
        assert steps[-1].detail["op"] == "revise"
        assert steps[-1].detail["related"] == 1
        assert steps[-1].detail["input_tokens"] > 0
