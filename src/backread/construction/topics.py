"""Where one topic ends and the next begins in a run of rounds, as LightMem cuts it (arXiv 2510.18866, released code).

A boundary b parts a run before item b: items below b are one topic, item b begins the next. Two signals: the similarity
of neighbours, and, where a model tells it, how much they attend to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["LADDER", "NEAR", "agreed", "attention_boundaries", "neighbours", "parted", "similarity_boundaries"]

LADDER = (0.20, 0.25, 0.30, 0.35, 0.40, 0.45, 0.50)
"""Similarities below which neighbours are parted; the first that parts any is used."""

NEAR = 3
"""Items a boundary by similarity may be away from one by attention to be confirmed by it."""

_PLACES = 4  # the same text may differ in the seventh by the batch it was embedded in

_ItemT = TypeVar("_ItemT")


def neighbours(vectors: NDArray[np.float32]) -> list[float]:
    """The cosine of each item and the next, one fewer than there are rows; rows have unit length."""
    if len(vectors) < 2:
        return []
    return [round(float(value), _PLACES) for value in np.einsum("ij,ij->i", vectors[:-1], vectors[1:])]


def similarity_boundaries(similarities: Sequence[float]) -> list[int]:
    """Boundaries where neighbours are less alike than the first threshold of `LADDER` that finds any; ascending.

    Args:
        similarities: of each item and the next, as of `neighbours`.
    """
    for threshold in LADDER:
        found = [place + 1 for place, value in enumerate(similarities) if value < threshold]
        if found:
            return found
    return []


def attention_boundaries(attention: NDArray[np.float32], *, as_coded: bool = False) -> list[int]:
    """Boundaries where an item attends to the one before it more than both its neighbours do; ascending.

    Of the sequence c[k] = attention[k + 1, k] strict local maxima count, the ends excepted. A maximum k parts before
    item k + 1, the later of the two it is of; `as_coded` parts before item k, as the released code does, whose two
    signals thereby lie one apart (its issue 27).

    Args:
        attention: as of `models.base.Attending`.
        as_coded: see above.
    """
    near = np.diagonal(attention, -1)
    peaks = [k for k in range(1, len(near) - 1) if near[k - 1] < near[k] > near[k + 1]]
    return peaks if as_coded else [k + 1 for k in peaks]


def agreed(fine: Sequence[int], coarse: Sequence[int] | None) -> list[int]:
    """Boundaries by similarity that one by attention confirms; all of them when none is confirmed.

    Args:
        fine: boundaries by similarity.
        coarse: boundaries by attention; none of them means that the run is one topic. None where there is no such
            signal: then similarity alone decides, in which this differs from the paper.
    """
    if coarse is None:
        return list(fine)
    if not coarse:
        return []
    return [b for b in fine if any(abs(b - other) <= NEAR for other in coarse)] or list(fine)


def parted(items: Sequence[_ItemT], boundaries: Sequence[int], *, last: bool) -> tuple[list[list[_ItemT]], int]:
    """The topics of a run, and how many of its items they hold: the rest goes on and is no topic yet.

    Without a boundary the whole run is one topic. With one, what stands behind the last boundary is the rest, unless
    `last` says that nothing follows: then it is a topic too.
    """
    if not items:
        return [], 0
    ends = [*boundaries, len(items)] if last or not boundaries else list(boundaries)
    starts = [0, *ends[:-1]]
    return [list(items[start:end]) for start, end in zip(starts, ends, strict=True)], ends[-1]
