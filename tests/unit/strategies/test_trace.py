"""The steps of a recall, told while they happen."""

from __future__ import annotations

import threading
import time

import pytest

from backread.strategies.base import Context
from backread.strategies.trace import Trace
from backread.types import Step


def test_a_step_is_kept_and_told_at_once() -> None:
    told: list[Step] = []
    trace = Trace(Context(on_step=told.append))
    trace.tell("retrieve", {"found": 3}, 1.5)
    assert told == [Step("retrieve", {"found": 3}, 1.5)]
    trace.tell("windows", {})
    assert trace.steps == told
    assert [step.name for step in told] == ["retrieve", "windows"]


def test_a_step_takes_the_time_since_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 12.5, 13.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    trace = Trace(Context())
    trace.tell("one", {})
    trace.tell("two", {})
    assert [step.seconds for step in trace.steps] == [2.5, 0.5]


def test_a_call_is_over_when_it_was_cancelled_or_its_time_is_up() -> None:
    cancel = threading.Event()
    cancelled = Trace(Context(cancel=cancel, deadline=time.monotonic() + 600))
    before = cancelled.over
    cancel.set()
    assert (before, cancelled.over) == (False, True)
    assert Trace(Context(deadline=time.monotonic())).over
    assert not Trace(Context()).over
