"""Match(C, m): how much of what a question asks for an entry is about. LeanMem, section 3.4, equation 9."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backread.strategies.leanmem.dating import Days, days_in, months_in
from backread.text.support import content

__all__ = ["Constraints", "match"]


@dataclass(frozen=True, slots=True)
class Constraints:
    """C of equation 8: what a question says that a memory must be about, in its own words."""

    entity: tuple[str, ...] = ()
    attribute: tuple[str, ...] = ()
    temporal: tuple[str, ...] = ()
    relational: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Every constraint."""
        return (*self.entity, *self.attribute, *self.temporal, *self.relational)


def match(constraints: Constraints, text: str, days: Sequence[Days]) -> float:
    """The share of the constraints that a text meets, in [0, 1]; 0 where there are none.

    A constraint is met by a text that has all its content words, in any form, or holds it as it is written. A date is
    met by a day in common; a month without a year by a day in it.

    Args:
        constraints: C.
        text: of the entry.
        days: when what the entry says took place.
    """
    wanted = constraints.all
    if not wanted:
        return 0.0
    words = content(text)
    folded = text.casefold()
    met = sum(_is_said(item, words, folded) for item in (*constraints.entity, *constraints.attribute))
    met += sum(_is_said(item, words, folded) for item in constraints.relational)
    met += sum(_is_then(item, days) or _is_said(item, words, folded) for item in constraints.temporal)
    return met / len(wanted)


def _is_said(constraint: str, words: set[str], folded: str) -> bool:
    needed = content(constraint)
    return bool(needed and needed <= words) or (bool(constraint.strip()) and constraint.strip().casefold() in folded)


def _is_then(constraint: str, days: Sequence[Days]) -> bool:
    if asked := days_in(constraint):
        return any(one.overlaps(other) for one in asked for other in days)
    return any(
        month in range(item.first.month, item.last.month + 1)
        for month in months_in(constraint)
        for item in days
        if item.first.year == item.last.year
    )
