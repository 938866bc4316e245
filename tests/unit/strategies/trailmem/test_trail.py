"""When TrailMem stops looking, and what it keeps until then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trailmem_samples import NOON, Given, fill
from window_samples import decided, messages

from backread.construction.stretches import Stretch
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Context
from backread.strategies.trace import Trace
from backread.strategies.trailmem.looks import Ground, Look
from backread.strategies.trailmem.strategy import TrailMem
from backread.strategies.trailmem.trail import LEAST, Rules, Trail
from backread.testing.fakes import ChatRequest, FunctionChat
from backread.text.tokens import EstimateCounter
from backread.types import Degradation, Recall, ScoredUnit, Turn

SEVEN = {name: 20.0 - place for place, name in enumerate(("one", "two", "three", "four", "five", "six", "seven"))}
"""Turns that are found, each in a session of its own, one nearly as good as the other."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "m.db")
    yield opened
    opened.close()


@pytest.fixture
def history(store: SqliteStore) -> History:
    return fill(store, {name: ["Hello.", f"{name} kettle.", "Bye."] for name in SEVEN})


def keeping(*names: str, words: str = "is kept.") -> FunctionChat:
    """Keeps the turns that were found, of these sessions."""
    texts = {f"{name} kettle.": f"{name} {words}" for name in names}
    return FunctionChat(lambda request: decided(request, texts))


def recall(
    history: History,
    chat: FunctionChat | None = None,
    scores: Mapping[str, float] = SEVEN,
    budget: int | None = None,
    ctx: Context | None = None,
    **given: Any,
) -> Recall:
    ctx = ctx or Context(counter=EstimateCounter())
    return TrailMem(Given(scores), chat, **given).recall(history, "kettle?", budget, ctx)


def looks(made: Recall, *names: str) -> list[Any]:
    """What the steps say of each look: one value for one name, else tuples."""
    told = [[step.detail[name] for name in names] for step in made.steps if step.name == "trailmem"]
    return [values[0] if len(values) == 1 else tuple(values) for values in told]


def first_words(made: Recall) -> list[str]:
    return [line.text.split()[0] for line in made.evidence]


class TestStepsAreSpent:
    def test_after_five_looks_with_a_model(self, history: History) -> None:
        made = recall(history, keeping(*SEVEN))
        assert looks(made, "session", "stop") == [
            *((name, None) for name in ("one", "two", "three", "four")),
            ("five", "steps"),
        ]
        assert first_words(made) == ["one", "two", "three", "four", "five"]

    def test_or_as_many_as_are_allowed(self, history: History) -> None:
        assert looks(recall(history, keeping(*SEVEN), steps=2), "stop") == [None, "steps"]

    def test_without_a_model_looks_cost_nothing(self, history: History) -> None:
        made = recall(history, gap=1.0)
        assert looks(made, "stop") == [None] * 6 + ["all seen"]
        assert first_words(made) == list(SEVEN)


class TestNothingIsLeft:
    def test_when_every_session_was_seen(self, store: SqliteStore) -> None:
        history = fill(store, {"a": ["one kettle."], "b": ["two kettle."]})
        made = recall(history, keeping("one", "two"))
        assert looks(made, "session", "stop") == [("a", None), ("b", "all seen")]

    def test_or_none_was_found(self, history: History) -> None:
        made = recall(history, keeping(), scores={})
        assert (made.evidence, made.considered, looks(made, "stop")) == ((), (), [])
        assert [step.detail for step in made.steps] == [{"found": 0, "windows": 0, "looks": 0}]


class TestNothingChanges:
    def test_one_look_that_changes_nothing_is_the_last(self, history: History) -> None:
        chat = keeping("one", "three")
        made = recall(history, chat)
        assert looks(made, "changed", "kept", "stop") == [(True, 1, None), (False, 0, "unchanged")]
        assert (first_words(made), len(chat.requests)) == (["one"], 2)

    def test_patience_allows_some_in_a_row(self, history: History) -> None:
        made = recall(history, keeping("one", "three", "six"), patience=2, steps=7)
        assert looks(made, "changed") == [True, False, True, False, False]
        assert looks(made, "stop")[-1] == "unchanged"
        assert first_words(made) == ["one", "three"]

    def test_an_empty_memory_is_not_left_for_that(self, history: History) -> None:
        made = recall(history, keeping("three"))
        assert looks(made, "changed", "stop") == [(False, None), (False, None), (True, None), (False, "unchanged")]
        assert looks(recall(history, keeping()), "stop") == [None] * 4 + ["steps"]

    def test_what_was_kept_already_changes_nothing(self, history: History) -> None:
        texts = {"one kettle.": "The same.", "two kettle.": "the  same.", "three kettle.": "Another."}
        made = recall(history, FunctionChat(lambda request: decided(request, texts)))
        assert [line.text for line in made.evidence] == ["The same."]
        assert looks(made, "stop") == [None, "unchanged"]


class TestTheBudgetIsFull:
    def test_of_better_turns(self, history: History) -> None:
        chat = keeping(*SEVEN, words="word " * 30)
        room = recall(history, chat, steps=2).tokens + 12  # two lines, and no room for a third
        made = recall(history, chat, budget=room)
        assert looks(made, "stop") == [None, None, "full"]
        assert first_words(made) == ["one", "two"]
        assert made.tokens <= room

    def test_a_turn_that_ranks_above_one_that_is_shown_is_still_looked_at(self, store: SqliteStore) -> None:
        # What is found in `late` is 4, 3 and 2 good; `early` is opened later for its best turn is 3.5 good.
        texts = [f"{name} kettle." if name else "Hm." for name in ("one", *[""] * 5, "three", *[""] * 5, "four")]
        history = fill(store, {"late": texts, "early": ["two kettle."]})
        scores = {"one": 4.0, "two": 3.5, "three": 3.0, "four": 2.0}
        chat = keeping(*scores, words="word " * 30)
        room = recall(history, keeping("one", "two", words="word " * 30)).tokens + 12
        made = recall(history, chat, scores, room)
        assert looks(made, "session", "stop") == [("late", None), ("early", "all seen")]
        assert first_words(made) == ["one", "two"]  # three gave way

    def test_also_without_a_model(self, history: History) -> None:
        room = recall(history, scores={"one": 3.0, "two": 2.0}).tokens + 12
        made = recall(history, budget=room, gap=1.0)
        assert looks(made, "stop") == [None, None, "full"]
        assert first_words(made) == ["one", "two"]

    def test_a_budget_that_holds_nothing_is_full_at_once(self, history: History) -> None:
        made = recall(history, keeping(*SEVEN), budget=5)
        assert (made.overflow, looks(made, "stop")) == (True, ["full"])


class TestTheNextTurnIsTooFar:
    SCORES = SEVEN | {"five": 16.0, "six": 2.0, "seven": 1.0}
    # The distance from best to worst is 19, and 0.76 of it below the best is 5.56.

    def test_without_a_model(self, history: History) -> None:
        made = recall(history, scores=self.SCORES)
        assert looks(made, "session", "stop")[-1] == ("five", "gap")
        assert first_words(made) == ["one", "two", "three", "four", "five"]

    def test_never_with_fewer_than_four_turns(self, history: History) -> None:
        made = recall(history, scores={"one": 20.0, "two": 2.0, "three": 2.0, "four": 2.0, "five": 2.0, "six": 1.0})
        assert first_words(made) == ["one", "two", "three", "four"]
        assert looks(made, "stop")[-1] == "gap"

    def test_a_wider_gap_shows_more(self, history: History) -> None:
        assert first_words(recall(history, scores=self.SCORES, gap=0.95))[-1] == "six"

    def test_a_turn_of_an_opened_window_that_is_too_far_is_not_kept(self, store: SqliteStore) -> None:
        texts = [f"{name} kettle." for name in ("one", "two", "three", "four", "five", "zero")]
        history = fill(store, {"a": texts})
        scores = {"one": 9.0, "two": 8.0, "three": 8.0, "four": 8.0, "five": 7.0, "zero": 1.0}
        made = recall(history, scores=scores)
        assert first_words(made) == ["one", "two", "three", "four", "five"]
        assert len(made.considered) == 6

    def test_nor_are_turns_around_what_was_found(self, history: History) -> None:
        made = recall(history, scores={"one": 3.0, "two": 2.0})
        assert [line.text for line in made.evidence] == ["one kettle.", "two kettle."]
        assert looks(made, "kept") == [1, 1]

    def test_with_a_model_it_is_looked_at(self, history: History) -> None:
        made = recall(history, keeping(*SEVEN), scores=self.SCORES, steps=6)
        assert first_words(made)[-1] == "six"


class TestFixed:
    def test_takes_its_looks_whatever_they_bring(self, history: History) -> None:
        made = recall(history, keeping("one"), looks=5)
        assert looks(made, "changed", "stop") == [(True, None), *[(False, None)] * 3, (False, "steps")]

    def test_shows_the_turns_around_what_was_found_behind_it(self, history: History) -> None:
        made = recall(history, looks=2)
        best_first = [line.text for line in sorted(made.evidence, key=lambda line: line.rank)]
        assert best_first == ["one kettle.", "two kettle.", "Hello.", "Bye.", "Hello.", "Bye."]

    def test_has_no_gap(self, history: History) -> None:
        scores = {"one": 20.0, "two": 2.0, "three": 2.0, "four": 2.0, "five": 1.5, "six": 1.0}
        found = [
            line.text.split()[0] for line in recall(history, scores=scores, looks=6).evidence if "kettle" in line.text
        ]
        assert found == ["one", "two", "three", "four", "five", "six"]


class TestTheCallIsToEnd:
    def test_no_look_is_begun_after_it_was_cancelled(self, history: History) -> None:
        cancel = threading.Event()

        def cancelling(request: ChatRequest) -> str:
            cancel.set()
            return decided(request, {"one kettle.": "one is kept."})

        chat = FunctionChat(cancelling)
        made = recall(history, chat, ctx=Context(counter=EstimateCounter(), cancel=cancel))
        assert (first_words(made), looks(made, "stop"), len(chat.requests)) == (["one"], [None], 1)
        assert made.degraded == (Degradation("trailmem", "stopped before its end; the memory so far is shown"),)

    def test_nor_after_the_deadline(self, history: History) -> None:
        chat = keeping(*SEVEN)
        made = recall(history, chat, ctx=Context(counter=EstimateCounter(), deadline=0.0))
        assert (made.evidence, chat.requests, [item.part for item in made.degraded]) == ((), [], ["trailmem"])

    def test_a_window_of_a_look_that_was_not_read_is_shown_as_it_was_said(self, store: SqliteStore) -> None:
        texts = ["one kettle.", *["Hm."] * 5, "two kettle."]
        history = fill(store, {"a": texts})
        cancel = threading.Event()

        def cancelling(request: ChatRequest) -> str:
            cancel.set()
            return decided(request, {"one kettle.": "one is kept."})

        ctx = Context(counter=EstimateCounter(), cancel=cancel, concurrency=1)
        made = recall(history, FunctionChat(cancelling), {"one": 2.0, "two": 1.0}, ctx=ctx)
        assert [(line.kind, line.text) for line in made.evidence] == [
            ("rewrite", "one is kept."),
            ("verbatim", "two kettle."),
        ]
        assert [(item.part, item.count) for item in made.degraded] == [("windows", 1)]


class TestALook:
    def test_reads_its_windows_side_by_side(self, store: SqliteStore) -> None:
        history = fill(store, {"a": ["one kettle.", *["Hm."] * 5, "two kettle."], "b": ["three kettle."]})
        together = threading.Barrier(2, timeout=5)

        def waiting(request: ChatRequest) -> str:
            if "three" not in messages(request)[0]:
                together.wait()
            return decided(request, {"one kettle.": "one is kept.", "two kettle.": "two is kept."})

        made = recall(history, FunctionChat(waiting), {"one": 3.0, "two": 2.5, "three": 1.0})
        assert looks(made, "windows", "kept", "calls") == [(2, 2, 2), (1, 0, 1)]
        assert first_words(made) == ["one", "two"]

    def test_what_it_cost_is_told_in_the_calling_thread(self, history: History) -> None:
        told: list[threading.Thread] = []
        ctx = Context(counter=EstimateCounter(), on_step=lambda step: told.append(threading.current_thread()))
        made = recall(history, keeping("one"), ctx=ctx)
        assert set(told) == {threading.current_thread()}
        assert [step.name for step in made.steps] == ["retrieve", "trailmem", "trailmem"]
        assert looks(made, "look", "tokens") == [(1, made.tokens), (2, made.tokens)]
        assert looks(made, "input_tokens") == [usage.input_tokens for usage in made.usage]

    def test_an_unreadable_window_is_shown_as_it_was_said_and_counted(self, history: History) -> None:
        made = recall(history, FunctionChat(lambda request: "I can't."), steps=2)
        assert [(line.kind, line.text) for line in made.evidence] == [
            ("verbatim", "one kettle."),
            ("verbatim", "two kettle."),
        ]
        reason = "windows got no valid decisions at two tries: what was found in them is shown as it was said"
        assert (made.degraded, made.decisions) == ((Degradation("windows", reason, 2),), ())
        assert len(made.usage) == 4

    def test_decisions_are_of_what_was_opened(self, history: History) -> None:
        made = recall(history, keeping("one", "two"), steps=2)
        opened = {turn.turn_id: turn.text for turn in history.turns() if turn.session_id in ("one", "two")}
        assert made.considered == tuple(opened)
        assert [(opened[item.turn_id], item.kept, item.window) for item in made.decisions] == [
            ("Hello.", False, 0),
            ("one kettle.", True, 0),
            ("Bye.", False, 0),
            ("Hello.", False, 1),
            ("two kettle.", True, 1),
            ("Bye.", False, 1),
        ]
        assert len(made.ranked) == 7


def ground(scores: Sequence[float], sessions: Callable[[int], int]) -> Ground:
    """Turns with these scores, best first, spread over sessions, each a window of its own."""
    turns = [
        Turn(str(place), str(sessions(place)), place, "user", f"turn {place}", NOON, said_at=NOON)
        for place in range(len(scores))
    ]
    windows = [Stretch((turn,), {turn.turn_id: place}) for place, turn in enumerate(turns)]
    of_session: dict[str, list[int]] = {}
    for place, turn in enumerate(turns):
        of_session.setdefault(turn.session_id, []).append(place)
    ranked = tuple(ScoredUnit(str(place), score) for place, score in enumerate(scores))
    looked = [Look(key, tuple(places), places[0], -places[0]) for key, places in of_session.items()]
    return Ground(ranked, tuple(windows), tuple(looked), ())


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=12),
    st.integers(1, 5),
    st.floats(0.01, 1.0),
)
def test_without_a_budget_what_is_shown_depends_on_scores_alone(scores: list[int], sessions: int, gap: float) -> None:
    ordered = sorted(map(float, scores), reverse=True)
    trail = Trail(
        ground(ordered, lambda place: place % sessions), Rules(None, 1, gap), None, "", None, Trace(Context())
    )
    trail.follow()
    spread = ordered[0] - ordered[-1]
    near = [
        place
        for place, score in enumerate(ordered)
        if place < LEAST or not spread or (score - ordered[-1]) / spread >= 1 - gap
    ]
    assert sorted(int(line.sources[0].turn_id) for line in trail.fitted.evidence) == near
