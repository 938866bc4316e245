"""What the measures of rankings share: their checks, and where the gold items are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from backread.errors import InvalidInputError

__all__ = ["check_ranking", "hits"]


def hits(ranked: Sequence[str], gold: Collection[str], k: int | None) -> list[bool] | None:
    """For each of the first `k` items (None: of all) whether it is gold; None when `gold` is empty.

    Raises:
        InvalidInputError: an id is ranked twice, or `k` is below 1.
    """
    check_ranking(ranked, k)
    wanted = frozenset(gold)
    if not wanted:
        return None
    return [item in wanted for item in ranked[:k]]


def check_ranking(ranked: Sequence[str], k: int | None) -> None:
    """Raise InvalidInputError when an id is ranked twice, which would count it twice, or `k` is below 1."""
    if k is not None and k < 1:
        raise InvalidInputError(f"the cut-off of a measure must be at least 1, not {k}")
    if len(set(ranked)) < len(ranked):
        twice = next(item for item, times in Counter(ranked).items() if times > 1)
        raise InvalidInputError(f"{twice!r} is ranked more than once", hint="rank every item once, at its best place")
