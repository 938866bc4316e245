"""Building: batches across sessions, what is open, what a stop, a delete, an add or a failure in between leaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from lightmem_samples import book, context, entries, facts_of, keep, lightmem, messages_of, reply_of, said, told

from backread.errors import ModelRequestError
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Context
from backread.strategies.lightmem.settings import Settings
from backread.testing.fakes import ChatRequest, HashEmbedder
from backread.text.tokens import EstimateCounter
from backread.types import Step

# Each of these is 8 tokens by the estimate, so that a short-term buffer of 16 holds two of them.
LINES = [
    "Ann likes kettles made of copper",
    "Ann likes lamps made of brass",
    "Ann likes chairs made of oak",
    "Ann likes doors made of glass",
    "Ann likes roofs made of slate",
]
SMALL = Settings(rate=1.0, sensory=10, short_term=16)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "s.db")
    yield opened
    opened.close()


@pytest.fixture
def history(store: SqliteStore) -> History:
    return keep(store, [said(f"s{place // 2}", place, text) for place, text in enumerate(LINES)])


def test_the_sizes_the_tests_rest_on() -> None:
    assert {EstimateCounter().count(line) for line in LINES} == {8}


def test_topics_gather_across_sessions_until_a_batch_is_full(history: History) -> None:
    strategy = lightmem(settings=SMALL)
    report = strategy.build(history, context())
    # Each round fills the sensory buffer (8 + 2 of 10), so the next cuts it. The last round waits, the one before it
    # is in the sensory buffer, the third in the short-term one; the first two make a batch: a third would be 24 of 16.
    assert told(strategy, history) == LINES[:2]
    assert report.put == 2
    state = book(strategy, history)
    turn_ids = [turn.turn_id for turn in history.turns()]
    assert state.batches[0].topics == ((turn_ids[0],), (turn_ids[1],))
    assert (state.short_term, state.sensory) == (((turn_ids[2],),), ((turn_ids[3],),))
    assert [entry.data["topic"] for entry in entries(strategy, history)] == [0, 1]


def test_a_flush_reads_the_tail_wherever_it_is(history: History, store: SqliteStore) -> None:
    """The released code flushes with the last turn of the last session, so an odd one leaves a tail unread."""
    strategy = lightmem(settings=SMALL)
    strategy.build(history, context(), flush=True)
    assert told(strategy, history) == LINES
    keep(store, [said("s9", 90, "???", role="assistant")])
    strategy.build(history, context(), flush=True)
    assert told(strategy, history) == LINES  # nothing supports "???" as a fact, but it was read
    assert list(book(strategy, history).open) == []


def test_ids_in_a_request_begin_at_one_in_every_batch(history: History) -> None:
    """In the released code they run on while the largest valid one is of the batch: later facts get a wrong topic."""
    seen: list[list[int]] = []

    def reply(request: ChatRequest) -> str:
        seen.append([number for number, _, _ in messages_of(request)])
        return facts_of(request)

    strategy = lightmem(reply, settings=SMALL)
    strategy.build(history, context(), flush=True)
    assert seen == [[1, 2], [1, 2], [1]]
    assert [entry.data["topic"] for entry in entries(strategy, history)] == [0, 1, 2, 3, 4]
    assert [entry.said_at for entry in entries(strategy, history)] == [turn.said_at for turn in history.turns()]


def test_topics_are_numbered_by_history(store: SqliteStore) -> None:
    """In the released code by a counter of the process, so a second user's topics go on from the first's."""
    strategy = lightmem(settings=SMALL)
    for user in ("ann", "bob"):
        there = keep(store, [said("s", place, text) for place, text in enumerate(LINES[:2])], user)
        strategy.build(there, context(), flush=True)
        assert [entry.data["topic"] for entry in entries(strategy, there)] == [0, 1]


def test_a_batch_that_failed_shifts_no_other(history: History) -> None:
    """The released code filters failed batches before it pairs the others with their limits."""
    down = True

    def reply(request: ChatRequest) -> str:
        if down and LINES[0] in request.question:
            raise ModelRequestError("the model is down")
        return facts_of(request)

    strategy = lightmem(reply, settings=SMALL)
    report = strategy.build(history, context(), flush=True)
    assert told(strategy, history) == LINES[2:]
    assert [entry.said_at for entry in entries(strategy, history)] == [turn.said_at for turn in history.turns()][2:]
    assert report.failed == (("s0", "the model is down"),)
    assert book(strategy, history).batches[0].tries == 1
    recall = strategy.recall(history, "kettles of copper", 500, context())
    assert any(line.kind == "verbatim" and line.text == LINES[0] for line in recall.evidence)
    down = False
    again = strategy.build(history, context())
    assert (again.put, again.failed) == (2, ())
    assert told(strategy, history) == LINES


def test_the_same_calls_give_the_same_entries_however_many_threads(history: History, store: SqliteStore) -> None:
    strategy = lightmem(settings=SMALL)
    strategy.build(history, context(), flush=True)
    first = [(e.entry_id, e.data, e.sources) for e in entries(strategy, history)]
    other = keep(store, [said(f"s{place // 2}", place, text) for place, text in enumerate(LINES)], "bob")
    strategy.build(other, context(concurrency=4), flush=True)
    assert [(e.entry_id, e.data) for e in entries(strategy, other)] == [(key, data) for key, data, _ in first]
    strategy.build(history, context(), flush=True)
    assert [(e.entry_id, e.data, e.sources) for e in entries(strategy, history)] == first


@pytest.mark.parametrize("at", range(3))
def test_nothing_is_lost_when_a_build_is_killed(history: History, at: int) -> None:
    """Wherever it is killed, the next one reads the same batches, and none twice."""
    asked: list[str] = []
    killed = False

    def reply(request: ChatRequest) -> str:
        nonlocal killed
        if len(asked) == at and not killed:
            killed = True
            raise KeyboardInterrupt
        asked.append(request.question)
        return facts_of(request)

    strategy = lightmem(reply, settings=SMALL)
    with pytest.raises(KeyboardInterrupt):
        strategy.build(history, context(), flush=True)
    assert told(strategy, history) == LINES[: 2 * at]
    strategy.build(history, context(), flush=True)
    assert told(strategy, history) == LINES
    assert len(asked) == len(set(asked)) == 3
    assert sorted(book(strategy, history).batches) == [0, 1, 2]


def test_a_build_that_is_cancelled_goes_on_from_there(history: History) -> None:
    cancel = threading.Event()

    def reply(request: ChatRequest) -> str:
        cancel.set()
        return facts_of(request)

    strategy = lightmem(reply, settings=SMALL)
    ctx = Context(counter=EstimateCounter(), cancel=cancel, concurrency=1)
    report = strategy.build(history, ctx, flush=True)
    assert told(strategy, history) == LINES[:2]
    assert [item.count for item in report.degraded] == [2]
    assert strategy.build(history, context(), flush=True).put == 3
    assert told(strategy, history) == LINES


def test_an_add_during_a_call_is_not_lost(store: SqliteStore, history: History) -> None:
    late = "Ann likes walls made of clay"
    added = False

    def reply(request: ChatRequest) -> str:
        nonlocal added
        if not added:
            added = True
            keep(store, [said("s0", 1, late), said("s9", 90, late + ", she says")])
        return facts_of(request)

    strategy = lightmem(reply, settings=SMALL)
    strategy.build(history, context(), flush=True)
    assert told(strategy, history) == LINES
    recall = strategy.recall(history, "walls of clay", 500, context())
    assert [line.text for line in recall.evidence if "clay" in line.text] == [late, late + ", she says"]
    strategy.build(history, context(), flush=True)
    assert sorted(told(strategy, history)) == sorted([*LINES, late, late + ", she says"])


def test_an_old_snapshot_is_not_written_back(store: SqliteStore, history: History) -> None:
    """A turn that is deleted while the model reads it leaves nothing behind."""
    first = next(history.turns()).turn_id

    def reply(request: ChatRequest) -> str:
        if LINES[0] in request.question:
            store.delete("ann", turn_ids=[first])
        return facts_of(request)

    strategy = lightmem(reply, settings=SMALL)
    report = strategy.build(history, context(), flush=True)
    assert told(strategy, history) == LINES[2:]
    assert [(item.part, item.count) for item in report.degraded] == [("build", 1)]
    strategy.build(history, context())
    assert told(strategy, history) == LINES[1:]


def test_a_deleted_turn_has_its_batch_read_again(store: SqliteStore, history: History) -> None:
    asked: list[str] = []

    def reply(request: ChatRequest) -> str:
        asked.append(request.question)
        return facts_of(request)

    strategy = lightmem(reply, settings=SMALL)
    strategy.build(history, context(), flush=True)
    first, second, *_ = (turn.turn_id for turn in history.turns())
    asked.clear()
    store.delete("ann", turn_ids=[first])
    assert told(strategy, history) == LINES[2:]  # the model saw the first when it wrote the second
    assert strategy.build(history, context()).put == 1
    assert [LINES[0] in question for question in asked] == [False]
    assert LINES[1] in asked[0]
    store.delete("ann", turn_ids=[second])
    strategy.build(history, context())
    assert told(strategy, history) == LINES[2:]
    assert len(asked) == 1  # an empty batch needs no call
    assert sorted(book(strategy, history).batches) == [1, 2]
    assert history.turns_to_rebuild("lightmem") == []


def test_a_superseded_turn_leaves_its_batch_and_the_new_one_is_gathered(store: SqliteStore, history: History) -> None:
    strategy = lightmem(settings=SMALL)
    strategy.build(history, context(), flush=True)
    old = next(history.turns())
    new = replace(said("s9", 90, "Ann likes kettles made of steel"), supersedes=old.turn_id)
    keep(store, [new])
    recall = strategy.recall(history, "kettles", 500, context())
    assert "copper" not in recall.rendered
    assert "steel" in recall.rendered
    strategy.build(history, context(), flush=True)
    assert told(strategy, history) == [*LINES[1:], new.text]


def test_a_fact_that_rests_on_two_turns_goes_with_either(store: SqliteStore) -> None:
    history = keep(store, [said("s", 0, "Do you like chess?", "assistant"), said("s", 1, "Yes I do")])

    def reply(request: ChatRequest) -> str:
        numbers = [number for number, _, text in messages_of(request) if "Yes" in text]
        return reply_of(*((number, "The user does like chess") for number in numbers))

    strategy = lightmem(reply)
    strategy.build(history, context(), flush=True)
    assert told(strategy, history) == ["The user does like chess"]
    question, _ = (turn.turn_id for turn in history.turns())
    store.delete("ann", turn_ids=[question])
    assert told(strategy, history) == []
    assert strategy.build(history, context()).put == 0  # "Yes I do" alone says nothing of chess


def test_two_builds_at_once_ask_once(store: SqliteStore, history: History) -> None:
    """The other one finds the batches taken."""
    calls: list[str] = []

    def reply(request: ChatRequest) -> str:
        calls.append(request.question)
        if len(calls) == 1:
            lightmem(facts_of, settings=SMALL).build(History(store, "ann"), context(), flush=True)
        return facts_of(request)

    strategy = lightmem(reply, settings=SMALL)
    report = strategy.build(history, context(), flush=True)
    assert told(strategy, history) == LINES
    assert len(calls) == 1
    assert report.degraded == ()


def test_steps_tell_of_each_batch(history: History) -> None:
    steps: list[Step] = []
    ctx = Context(counter=EstimateCounter(), concurrency=1, on_step=steps.append)
    report = lightmem(settings=SMALL).build(history, ctx, flush=True)
    assert [(step.name, step.detail["batch"], step.detail["entries"]) for step in steps] == [
        ("build", 0, 2),
        ("build", 1, 2),
        ("build", 2, 1),
    ]
    assert sum(usage.calls for usage in report.usage) == 3
    assert sum(step.detail["input_tokens"] for step in steps) == sum(u.input_tokens or 0 for u in report.usage)


def test_topics_are_told_apart_by_the_embedder(store: SqliteStore) -> None:
    """A run of rounds is cut where they are about other things; each topic has a heading of its own in the request."""
    drafts = [
        said("s", 0, "copper kettles and copper pots"),
        said("s", 1, "pots of copper, kettles of copper"),
        said("s", 2, "Bergen ferries leave at seven"),
        said("s", 3, "ferries leave Bergen at noon"),
    ]
    history = keep(store, drafts)
    headings: list[list[str]] = []

    def reply(request: ChatRequest) -> str:
        block = request.question.partition("</messages")[0]
        headings.append([line for line in block.splitlines() if line.startswith(("## ", "["))])
        return facts_of(request)

    settings = Settings(rate=1.0)
    lightmem(reply, settings=settings, embedder=HashEmbedder(256)).build(history, context(), flush=True)
    assert [line[:10] for line in headings[0]] == [
        "## Topic 1",
        "[1] user: ",
        "[2] user: ",
        "## Topic 2",
        "[3] user: ",
        "[4] user: ",
    ]
