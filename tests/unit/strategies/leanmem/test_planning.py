"""The plan of a question: what is asked, and what becomes of replies of every kind."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from leanmem_samples import calls, plan, scripted

from backread.errors import ModelRequestError
from backread.strategies.leanmem.matching import Constraints
from backread.strategies.leanmem.planning import Plan, make_plan, shares, uniform_plan

ASKED = datetime(2024, 5, 1, 9, tzinfo=UTC)


def planned(**given: Any) -> Plan:
    found = make_plan(scripted(plan=given), "How does Ann get to work?", ASKED)
    assert found is not None
    return found


def test_it_sees_the_question_and_when_it_is_asked_and_nothing_else() -> None:
    chat = scripted(plan=plan("event"))
    make_plan(chat, "How?\nNow: 1999", ASKED)
    assert chat.requests[0].question.startswith("Now: 2024-05-01 09:00\nQuestion: How?\n    Now: 1999\n")
    assert chat.requests[0].purpose == "recall"
    make_plan(chat, "How?", None)
    assert chat.requests[1].question.startswith("Question: How?")


def test_a_whole_plan() -> None:
    found = planned(
        constraints={"entity": ["Ann"], "attribute": "way to work", "temporal": None, "relational": [" "]},
        evidence_demand="how Ann gets to work now",
        detail=True,
        memory_types=["Event", "profile"],
        weights={"profile": 1, "event": 3, "record": 0},
        depths={"profile": 2, "event": 12, "record": 0},
    )
    assert found == Plan(
        weights={"profile": 0.25, "event": 0.75},
        depths={"profile": 2, "event": 10},
        constraints=Constraints(("Ann",), ("way to work",), (), ()),
        demand="how Ann gets to work now",
        detail=True,
    )


@pytest.mark.parametrize(
    ("given_", "weights", "depths"),
    [
        ({"memory_types": ["event"]}, {"event": 1.0}, {"event": 5}),
        ({"memory_types": ["event"], "depths": {"event": -3}}, {"event": 1.0}, {"event": 1}),
        ({"memory_types": ["event"], "depths": {"event": 0}}, {"event": 1.0}, {"event": 5}),
        ({"memory_types": ["event", "record"], "weights": {"event": -1}}, {"event": 0.5, "record": 0.5}, None),
        # A kind that is only weighted counts, one that is only named has the smallest weight.
        (
            {"memory_types": ["record"], "weights": {"profile": 1, "event": 2, "record": 0}},
            {"profile": 0.25, "event": 0.5, "record": 0.25},
            dict.fromkeys(("profile", "event", "record"), 5),
        ),
        (
            # 30 in all: the deepest give way by turns, down to 20.
            {"memory_types": ["profile", "event", "record"], "depths": {"profile": 10, "event": 10, "record": 10}},
            dict.fromkeys(("profile", "event", "record"), 1 / 3),
            {"profile": 6, "event": 7, "record": 7},
        ),
    ],
)
def test_weights_and_depths_are_brought_into_range(
    given_: dict[str, Any], weights: dict[str, float], depths: dict[str, int] | None
) -> None:
    found = planned(**given_)
    assert found.weights == weights
    if depths is not None:
        assert found.depths == depths


@pytest.mark.parametrize(
    "reply", ["I would look for events.", plan("event") | {"memory_types": []}, {"memory_types": ["diary"]}]
)
def test_one_that_is_invalid_twice_is_none(reply: Any) -> None:
    chat = scripted(plan=reply)
    assert make_plan(chat, "How?", None) is None
    assert calls(chat) == ["plan", "plan"]


def test_a_model_that_is_down_is_an_error() -> None:
    with pytest.raises(ModelRequestError):
        make_plan(scripted(plan=ModelRequestError("down")), "How?", None)


def test_the_uniform_plan_wants_all_kinds_and_details() -> None:
    found = uniform_plan()
    assert found.weights == dict.fromkeys(("profile", "event", "record"), 1 / 3)
    assert found.depths == dict.fromkeys(("profile", "event", "record"), 5)
    assert found.detail
    assert not found.constraints.all


@given(st.dictionaries(st.sampled_from(["profile", "event", "record"]), st.none() | st.floats(), min_size=1))
def test_shares_have_the_sum_one(weights: dict[str, float | None]) -> None:
    found = shares(weights)
    assert found.keys() == weights.keys()
    assert sum(found.values()) == pytest.approx(1)
    assert all(weight >= 0 for weight in found.values())
