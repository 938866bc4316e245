"""Sums of token usage, with the rules of what is in what.

Cached tokens are a part of `input_tokens`, reasoning tokens a part of `output_tokens`: they are never added to them.
A number is the sum over the calls that reported it, None when none did, and `uncounted` and `unpriced` say how many
calls are missing from it: a total with a hole names the hole. Costs of calls are priced one by one and then added, as
prices may change with the size of a call.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backread.types import Usage

__all__ = ["PURPOSES", "UsageTotal", "by_purpose", "total"]

PURPOSES = ("build", "recall", "answer", "judge")
"""What model calls are for, in the order of the work."""


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """The usage of several calls.

    Attributes:
        models: which models, each once, in the order they came.
        calls: how many, failed ones included.
        input_tokens: of prompts, cached ones included.
        output_tokens: of replies, reasoning included.
        cache_read_tokens: the part of `input_tokens` that the endpoint had in its cache.
        reasoning_tokens: the part of `output_tokens` that is no answer.
        cost: in the currency of the prices.
        seconds: of all calls, one after the other; calls at the same time took less.
        uncounted: calls whose input or output tokens are unknown.
        unpriced: calls whose cost is unknown.
    """

    models: tuple[str, ...]
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    reasoning_tokens: int | None
    cost: float | None
    seconds: float | None
    uncounted: int
    unpriced: int


def total(usages: Iterable[Usage]) -> UsageTotal:
    """The sum; of no usages it is 0 calls and None for every number."""
    items = list(usages)
    return UsageTotal(
        models=tuple(dict.fromkeys(item.model for item in items)),
        calls=sum(item.calls for item in items),
        input_tokens=_tokens([item.input_tokens for item in items]),
        output_tokens=_tokens([item.output_tokens for item in items]),
        cache_read_tokens=_tokens([item.cache_read_tokens for item in items]),
        reasoning_tokens=_tokens([item.reasoning_tokens for item in items]),
        cost=_amount([item.cost for item in items]),
        seconds=_amount([item.seconds for item in items]),
        uncounted=sum(item.calls for item in items if item.input_tokens is None or item.output_tokens is None),
        unpriced=sum(item.calls for item in items if item.cost is None),
    )


def by_purpose(usages: Iterable[Usage]) -> dict[str, UsageTotal]:
    """A sum for every purpose there is: those of `PURPOSES` first and in that order, others by name."""
    items = list(usages)
    found = {item.purpose for item in items}
    ordered = [*(name for name in PURPOSES if name in found), *sorted(found.difference(PURPOSES))]
    return {name: total(item for item in items if item.purpose == name) for name in ordered}


def _tokens(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _amount(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return math.fsum(known) if known else None
