"""Correction for many tests: with 20 of them at 0.05, one "significant" result is to be expected of nothing.

The family is every test whose smallest p someone might quote: all rows of a column, as in the LightMem reproduction
(arXiv 2607.29104), or all cells against the baseline. Its size is part of the result, because an adjusted p means
nothing without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backread.errors import InvalidInputError

__all__ = ["Adjusted", "bonferroni", "holm"]


@dataclass(frozen=True, slots=True)
class Adjusted:
    """Adjusted p-values, to be compared with the level itself (p < 0.05).

    Attributes:
        p: in the order given; None where a test was undefined.
        family: tests that were corrected for, undefined ones not counted.
        method: "Bonferroni" or "Holm".
    """

    p: tuple[float | None, ...]
    family: int
    method: str


def bonferroni(p_values: Sequence[float | None]) -> Adjusted:
    """min(1, m p) for each p of m tests.

    Holds for any dependence of the tests. An undefined test (None) stays None and is not in the family; an empty
    family has no p.

    Raises:
        InvalidInputError: a p-value lies outside [0, 1].
    """
    family = len(_known(p_values))
    return Adjusted(tuple(None if p is None else min(1.0, family * p) for p in p_values), family, "Bonferroni")


def holm(p_values: Sequence[float | None]) -> Adjusted:
    """Holm's step-down: the i-th smallest p of m is multiplied by m + 1 - i, and never below the one before it.

    Holm, Scandinavian Journal of Statistics 1979. Holds for any dependence of the tests, and never gives more than
    `bonferroni`. An undefined test (None) stays None and is not in the family; an empty family has no p.

    Raises:
        InvalidInputError: a p-value lies outside [0, 1].
    """
    known = _known(p_values)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for place, (p, index) in enumerate(sorted(known)):
        highest = max(highest, min(1.0, (len(known) - place) * p))
        adjusted[index] = highest
    return Adjusted(tuple(adjusted), len(known), "Holm")


def _known(p_values: Sequence[float | None]) -> list[tuple[float, int]]:
    """The p-values there are, each with its place."""
    known = [(float(p), index) for index, p in enumerate(p_values) if p is not None]
    for p, _ in known:
        if not 0 <= p <= 1:
            raise InvalidInputError(f"{p} is no p-value: it must lie between 0 and 1")
    return known
