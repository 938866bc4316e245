"""What the statistics share: checked numbers, paired differences, sums by cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from backread.errors import InvalidInputError

__all__ = ["Floats", "by_cluster", "checked", "differences"]

Floats = NDArray[np.float64]

_ROUNDING = 1e-12


def checked(values: Sequence[float]) -> list[float]:
    """The numbers as floats.

    Raises:
        InvalidInputError: one is infinite or no number; what is undefined is to be left out first.
    """
    numbers = [float(value) for value in values]
    if not all(map(math.isfinite, numbers)):
        raise InvalidInputError("a value is not a finite number", hint="leave out questions without a value")
    return numbers


def differences(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """The differences first - second, pair by pair; 0.0 where the two differ by rounding alone (a part in 10^12).

    Raises:
        InvalidInputError: the two have different lengths, or a value isn't finite.
    """
    if len(first) != len(second):
        raise InvalidInputError(
            f"{len(first)} and {len(second)} values are no pairs", hint="pair the values by question"
        )
    pairs = zip(checked(first), checked(second), strict=True)
    return [0.0 if math.isclose(one, other, rel_tol=_ROUNDING, abs_tol=0) else one - other for one, other in pairs]


def by_cluster(values: Sequence[float], clusters: Sequence[str]) -> tuple[Floats, Floats]:
    """Sum and count of the values of each cluster, float64 (clusters,), by cluster name.

    Sums are exact and the order is that of names, so the order of questions changes nothing.

    Raises:
        InvalidInputError: there isn't one cluster for each value, or a value isn't finite.
    """
    if len(values) != len(clusters):
        raise InvalidInputError(f"{len(values)} values have {len(clusters)} clusters", hint="give one for each value")
    members: dict[str, list[float]] = {}
    for cluster, value in zip(clusters, checked(values), strict=True):
        members.setdefault(cluster, []).append(value)
    names = sorted(members)
    return (
        np.array([math.fsum(members[name]) for name in names], np.float64),
        np.array([len(members[name]) for name in names], np.float64),
    )
