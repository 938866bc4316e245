"""How every strategy hands over what it found."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from backread.construction.sessions import together
from backread.rendering import Fitted
from backread.store.history import History
from backread.strategies.base import Context, Strategy
from backread.strategies.evidence import undated
from backread.types import Decision, Degradation, Recall, ScoredUnit, Step, Usage

__all__ = ["recalled"]


def recalled(
    strategy: Strategy,
    history: History,
    question: str,
    fitted: Fitted,
    ctx: Context,
    *,
    asked_at: datetime | None,
    ranked: Iterable[ScoredUnit] = (),
    considered: Iterable[str] = (),
    decisions: Iterable[Decision] = (),
    steps: Iterable[Step] = (),
    usage: Iterable[Usage] = (),
    degraded: Iterable[Degradation] = (),
) -> Recall:
    """The `Recall` of a strategy, its name and settings included.

    Args:
        strategy: whose work it is.
        history: what it looked at; turns that an `as_of` view of it leaves out are added to `degraded`.
        question: what was asked.
        fitted: the evidence, as it fits the budget.
        ctx: counted the budget.
        asked_at: when it is asked.
        ranked: units with scores, best first, before the budget.
        considered: ids of turns that were looked at; one that is named twice counts once.
        decisions: see `Recall`.
        steps: what was done, in order.
        usage: of model calls that `ctx.meter` doesn't have.
        degraded: what could not be used; equal ones are told once, their counts added up.
    """
    return Recall(
        question=question,
        strategy=strategy.name,
        evidence=fitted.evidence,
        rendered=fitted.rendered,
        tokens=fitted.tokens,
        counter=ctx.counter.name,
        ranked=tuple(ranked),
        considered=tuple(dict.fromkeys(considered)),
        decisions=tuple(decisions),
        overflow=fitted.overflow,
        steps=tuple(steps),
        usage=tuple(usage),
        degraded=together([*degraded, *undated(history)]),
        config=strategy.config,
        asked_at=asked_at,
    )
