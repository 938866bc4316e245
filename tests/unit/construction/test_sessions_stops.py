"""Building session by session: failures, stops, and the order of things."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from session_samples import ALL, Maker, build, say, texts

from backread.construction.ledger import Ledger
from backread.construction.sessions import Made, build_sessions
from backread.errors import InvalidInputError, ModelOutputError, ModelRequestError, NotFoundError
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Context
from backread.types import EntryDraft, Session, Source, Step, Turn, Usage


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "m.db")
    yield opened
    opened.close()


@pytest.fixture
def history(store: SqliteStore) -> History:
    """Three sessions of two turns: "a", "b", "c", one a day."""
    for day, session in enumerate("abc"):
        say(store, session, day, "first", "second")
    return History(store, "ann")


def test_a_session_that_fails_is_tried_again_and_the_others_go_on(history: History) -> None:
    down = True

    def fail(session: Session, turns: Sequence[Turn]) -> None:
        if down and session.session_id == "b":
            usage = Usage("build", "m", input_tokens=40, output_tokens=2)
            raise ModelOutputError("no page in the reply", usage=usage, raw="b first")

    told: list[Step] = []
    ctx = Context(concurrency=1, on_step=told.append)
    for tries in (1, 2):
        report = build_sessions(history, ctx, Maker(fail), strategy="mine", flush=True)
        assert report.failed == (("b", "no page in the reply"),)
        _, state = history.strategy_state("mine")
        assert [(key, tuple(item)) for key, item in failures(state)] == [("b", ("ModelOutputError", tries))]
    assert sum(usage.input_tokens or 0 for usage in report.usage) == 40
    assert told[1].detail["failed"] == "no page in the reply"
    assert texts(history) == [ALL[0], ALL[2]]
    down = False
    assert build(history, Maker(fail)).failed == ()
    assert texts(history) == ALL
    assert failures(history.strategy_state("mine")[1]) == []


def failures(state: bytes | None) -> list[tuple[str, tuple[str, int]]]:
    return [(key, (item.error, item.tries)) for key, item in Ledger.read(state).failed.items()]


def test_the_state_holds_no_words_of_turns(store: SqliteStore, history: History) -> None:
    def fail(session: Session, turns: Sequence[Turn]) -> None:
        if session.session_id == "a":
            raise ModelRequestError("HTTP 400: can't read 'a first'")

    build(history, Maker(fail))
    _, state = history.strategy_state("mine")
    assert b"first" not in (state or b"")


def test_an_error_that_is_no_models_stops_the_build_and_keeps_what_is_done(history: History) -> None:
    def fail(session: Session, turns: Sequence[Turn]) -> None:
        if session.session_id == "b":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        build(history, Maker(fail))
    assert texts(history) == ALL[:1]
    assert build(history, Maker()).put == 2


def test_an_interrupt_keeps_what_is_done(history: History) -> None:
    def told(step: Step) -> None:
        if step.detail["session"] == "b":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_sessions(history, Context(concurrency=1, on_step=told), Maker(), strategy="mine", flush=True)
    assert texts(history) == ALL[:2]
    assert build(history, Maker()).put == 1


def test_a_source_that_does_not_exist_is_an_error(history: History) -> None:
    def make(session: Session, turns: Sequence[Turn]) -> Made:
        return Made((EntryDraft("e", "mine", "page", {}, "text", (Source("nothing"),)),))

    with pytest.raises(NotFoundError):
        build(history, make)


@pytest.mark.parametrize(("strategy", "ids"), [("other", ("e",)), ("mine", ("e", "e"))])
def test_entries_that_are_not_the_sessions_own_are_refused(
    history: History, strategy: str, ids: tuple[str, ...]
) -> None:
    def make(session: Session, turns: Sequence[Turn]) -> Made:
        sources = (Source(turns[0].turn_id),)
        return Made(tuple(EntryDraft(entry_id, strategy, "page", {}, "text", sources) for entry_id in ids))

    with pytest.raises(InvalidInputError):
        build(history, make)


# --- stopping, telling, order


def test_cancelling_stops_between_sessions(history: History) -> None:
    cancel = threading.Event()
    ctx = Context(concurrency=1, cancel=cancel)
    report = build_sessions(history, ctx, Maker(lambda *read: cancel.set()), strategy="mine", flush=True)
    assert (report.put, texts(history)) == (1, ALL[:1])
    assert [item.count for item in report.degraded] == [2]


def test_nothing_is_begun_after_the_deadline(history: History) -> None:
    make = Maker()
    ctx = Context(concurrency=1, deadline=time.monotonic() - 1)
    report = build_sessions(history, ctx, make, strategy="mine", flush=True)
    assert (report.put, make.asked) == (0, [])
    assert [item.count for item in report.degraded] == [3]


def test_every_session_is_told_of_in_order(history: History) -> None:
    told: list[Step] = []
    build_sessions(history, Context(on_step=told.append), Maker(parts=2), strategy="mine", flush=True)
    assert [step.detail["session"] for step in told] == ["a", "b", "c"]
    assert dict(told[0].detail) == {
        "session": "a",
        "entries": 2,
        "input_tokens": 2,
        "output_tokens": 1,
        "failed": None,
    }
    assert all((step.seconds or 0.0) >= 0 for step in told)


def test_the_same_calls_give_the_same_entries_with_any_number_of_threads(tmp_path: Path) -> None:
    made = []
    for threads in (1, 4):
        store = SqliteStore(tmp_path / f"{threads}.db")
        for day in range(9):
            say(store, f"s{day}", day % 3, "first")  # three sessions at each time
        first_done = threading.Event()

        def slow_first(session: Session, turns: Sequence[Turn], done: threading.Event = first_done) -> None:
            if session.session_id == "s0" and threads > 1:  # noqa: B023 -- called within the loop
                done.wait(5)
            else:
                done.set()

        history = History(store, "ann")
        ctx = Context(concurrency=threads)
        build_sessions(history, ctx, Maker(slow_first), strategy="mine", flush=True)
        made.append([(entry.entry_id, entry.index_text, entry.version) for entry in history.entries("mine")])
        store.close()
    assert made[0] == made[1]
