"""The retrieval plan of a question: LeanMem, section 3.4, equation 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from backread.errors import ModelOutputError
from backread.models.base import ChatMessage, ChatModel
from backread.models.structured import complete_as
from backread.strategies.leanmem.asking import prompt
from backread.strategies.leanmem.design import KINDS
from backread.strategies.leanmem.matching import Constraints
from backread.text.fencing import quote
from backread.text.times import format_time

if TYPE_CHECKING:
    from backread.strategies.leanmem.replies import PlanReply

__all__ = ["DEEPEST", "DEPTH", "MOST", "Plan", "make_plan", "shares", "uniform_plan"]

DEPTH = 5
"""Entries of each kind where a plan doesn't say."""

DEEPEST = 10
"""Entries of one kind at most."""

MOST = 20
"""Entries of all kinds together at most."""

_MAX_TOKENS = 500


@dataclass(frozen=True, slots=True)
class Plan:
    """pi = <C, d, M, w, k> of equation 8.

    Attributes:
        constraints: C.
        demand: d, in words; "" where no model made the plan.
        detail: the part of d that is acted on: records are read word for word.
        weights: w by kind, for the kinds of M, together 1.
        depths: k by kind, for the kinds of M.
    """

    weights: Mapping[str, float]
    depths: Mapping[str, int]
    constraints: Constraints = field(default_factory=Constraints)
    demand: str = ""
    detail: bool = True


def uniform_plan(kinds: Sequence[str] = KINDS, depth: int = DEPTH) -> Plan:
    """The plan without a planner: every kind counts the same, and details are wanted."""
    return Plan(dict.fromkeys(kinds, 1 / len(kinds)), dict.fromkeys(kinds, depth))


def make_plan(chat: ChatModel, question: str, asked_at: datetime | None) -> Plan | None:
    """The plan a model makes from the question alone; None when it gives no valid one, also at the second try.

    A kind is in M when it is named or has a weight: small models forget one of the two. A named one without a weight
    has the smallest there is, one without a depth has 5.

    Raises:
        ModelError: the model can't be asked.
    """
    from backread.strategies.leanmem.replies import PlanReply

    used = prompt("plan")
    now = f"Now: {format_time(asked_at)}\n" if asked_at is not None else ""
    asked = f"{now}Question: {quote(question)}\n\n{used.form}"
    messages = [ChatMessage("system", used.rules), ChatMessage("user", asked)]
    try:
        reply = complete_as(chat, messages, PlanReply, purpose="recall", max_tokens=_MAX_TOKENS, instruct=False).value
    except ModelOutputError:
        return None
    return _plan(reply)


def _plan(reply: PlanReply) -> Plan:
    given = {kind: getattr(reply.weights, kind) for kind in KINDS}
    named = [kind for kind in KINDS if kind in reply.memory_types or (given[kind] or 0) > 0]
    least = min((weight for kind in named if (weight := given[kind] or 0) > 0), default=None)
    wanted = reply.constraints
    return Plan(
        weights=shares({kind: given[kind] if (given[kind] or 0) > 0 else least for kind in named}),
        depths=_depths({kind: getattr(reply.depths, kind) or None for kind in named}),
        constraints=Constraints(*map(tuple, (wanted.entity, wanted.attribute, wanted.temporal, wanted.relational))),
        demand=reply.evidence_demand,
        detail=reply.detail,
    )


def shares(weights: Mapping[str, float | None]) -> dict[str, float]:
    """Weights with the sum 1; equal ones when none is above 0. What is missing or below 0 counts as 0."""
    known = {kind: weight if weight is not None and weight > 0 else 0.0 for kind, weight in weights.items()}
    total = sum(known.values())
    if not total or total == float("inf"):
        return dict.fromkeys(known, 1 / len(known))
    return {kind: weight / total for kind, weight in known.items()}


def _depths(given: Mapping[str, int | None]) -> dict[str, int]:
    """Depths from 1 to 10, together 20 at most: the deepest give way, of equal ones the first."""
    depths = {kind: DEPTH if depth is None else min(max(depth, 1), DEEPEST) for kind, depth in given.items()}
    while sum(depths.values()) > MOST:
        depths[max(depths, key=lambda kind: depths[kind])] -= 1
    return depths
