"""Merging the scores of several scorers.

Pure functions on arrays of shape (size,), one value per unit of the same corpus, NaN for "can't say". Both give float32
(size,) with 0 for units no scorer matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from backread.arrays import NDArray, np
from backread.errors import InvalidInputError

__all__ = ["interpolation", "min_max", "reciprocal_rank_fusion"]

Scores: TypeAlias = "NDArray[np.float32]"


def min_max(scores: Scores) -> Scores:
    """Scores scaled to [0, 1]; NaN becomes 0. All equal gives 1 for positive scores, 0 otherwise."""
    known = scores[~np.isnan(scores)]
    if not len(known):
        return np.zeros_like(scores)
    low, high = float(known.min()), float(known.max())
    if high == low:
        return np.where(np.isnan(scores), np.float32(0), np.float32(high > 0))
    scaled: Scores = np.nan_to_num((scores - low) / (high - low), nan=0.0).astype(np.float32)
    return scaled


def interpolation(first: Scores, second: Scores, alpha: float = 0.5) -> Scores:
    """`alpha` of `first` and the rest of `second`, each min-max normalised.

    Convex combination as in Bruch, Gai & Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023,
    section 3. Differs from the paper in that a unit without a score in one list counts as its lowest.

    Raises:
        InvalidInputError: `alpha` is outside [0, 1].
    """
    if not 0 <= alpha <= 1:
        raise InvalidInputError(f"alpha must be between 0 and 1, not {alpha}")
    return (alpha * min_max(first) + (1 - alpha) * min_max(second)).astype(np.float32)


def reciprocal_rank_fusion(lists: Sequence[Scores], *, k: int = 60, depth: int = 100) -> Scores:
    """Sum over lists of 1 / (k + rank), rank from 1 among the `depth` best positive scores of each list.

    Cormack, Clarke & Büttcher, SIGIR 2009; k = 60 is theirs. Equal scores rank in history order. The values are small
    (at most len(lists) / (k + 1)) and must not be compared with a cosine.

    Raises:
        InvalidInputError: there is no list.
    """
    if not lists:
        raise InvalidInputError("there is nothing to fuse")
    fused = np.zeros(len(lists[0]), dtype=np.float32)
    for scores in lists:
        matching = np.flatnonzero(scores > 0)
        ranked = matching[np.argsort(-scores[matching], kind="stable")][:depth]
        fused[ranked] += (1.0 / (k + 1 + np.arange(len(ranked)))).astype(np.float32)
    return fused
