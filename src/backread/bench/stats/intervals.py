"""Means with intervals that know that questions about one conversation are not independent.

Questions share the conversations they are about: a history that is hard for a design is hard in all its questions.
LoCoMo has 1,540 questions and ten conversations; taken for independent, they promise an accuracy they don't have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backread.bench.extra import needs
from backread.bench.stats._values import Floats, by_cluster, differences
from backread.errors import InvalidInputError

__all__ = ["Interval", "clustered_bootstrap", "clustered_bootstrap_difference", "clustered_mean"]

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over questions and where it may lie.

    Attributes:
        mean: over questions, each the same weight; None of no questions.
        low: the interval's lower end; None where it is undefined, as of fewer than two clusters.
        high: its upper end.
        n: questions.
        clusters: conversations.
        method: "clustered t", "cluster bootstrap" or "paired cluster bootstrap".
        error: the standard error; of a bootstrap the standard deviation of its means. None where it is undefined.
        confidence: of the interval, 0.95 as a rule.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int
    clusters: int
    method: str
    error: float | None = None
    confidence: float = 0.95


def clustered_mean(values: Sequence[float], clusters: Sequence[str], *, confidence: float = 0.95) -> Interval:
    """The mean with its clustered standard error and a t interval, clusters - 1 degrees of freedom.

        SE^2 = C / (C - 1) / n^2 * sum over clusters of (sum of its values - its size * mean)^2

    Miller 2024, "Adding Error Bars to Evals", arXiv 2411.00640, appendix A. Differs from the paper in
    the factor C / (C - 1), without which the error is too small for few clusters, and in Student's t instead of the
    normal 1.96 (for ten conversations 2.26). Equals an OLS fit of a constant with cluster-robust covariance. With each
    question a cluster of its own it is the usual standard error of a mean.

    Degenerate cases: of no values all is None; of one cluster the mean stands alone. Values that are all equal (every
    answer right) give an interval of width 0, which says less than it seems. Intervals aren't cut to [0, 1].

    Args:
        values: one per question; undefined ones left out.
        clusters: the conversation of each question.
        confidence: share of such intervals that hold the true mean.

    Raises:
        MissingExtraError: scipy isn't installed.
        InvalidInputError: there isn't one cluster for each value, a value isn't finite, or `confidence` isn't between
            0 and 1.
    """
    _check(confidence)
    sums, counts = by_cluster(values, clusters)
    n, groups = len(values), len(sums)
    mean = math.fsum(values) / n if n else None
    if mean is None or groups < 2:
        return Interval(mean, None, None, n, groups, "clustered t", None, confidence)
    needs("scipy")
    from scipy import stats

    squares = math.fsum(((sums - counts * mean) ** 2).tolist())
    error = math.sqrt(squares * groups / (groups - 1)) / n
    reach = float(stats.t.ppf((1 + confidence) / 2, groups - 1)) * error
    return Interval(mean, mean - reach, mean + reach, n, groups, "clustered t", error, confidence)


def clustered_bootstrap(
    values: Sequence[float],
    clusters: Sequence[str],
    rng: np.random.Generator,
    *,
    resamples: int = 9999,
    confidence: float = 0.95,
) -> Interval:
    """The mean with a percentile interval of means over clusters drawn with replacement.

    Whole conversations are drawn, as many as there are, with all their questions; the mean of a draw is over its
    questions. Cameron, Gelbach & Miller 2008 (pairs cluster bootstrap): with few clusters the interval is too narrow,
    with ten of them noticeably; `clustered_mean` is the safer one there.

    The same state of `rng` gives the same interval, in any order of the questions and on any number of threads.

    Degenerate cases: of no values all is None; of one cluster the mean stands alone; equal values give width 0.

    Args:
        values: one per question; undefined ones left out.
        clusters: the conversation of each question.
        rng: what draws.
        resamples: draws.
        confidence: share of the means inside.

    Raises:
        InvalidInputError: there isn't one cluster for each value, a value isn't finite, `resamples` is below 1, or
            `confidence` isn't between 0 and 1.
    """
    return _bootstrap(values, clusters, rng, resamples, confidence, "cluster bootstrap")


def clustered_bootstrap_difference(
    first: Sequence[float],
    second: Sequence[float],
    clusters: Sequence[str],
    rng: np.random.Generator,
    *,
    resamples: int = 9999,
    confidence: float = 0.95,
) -> Interval:
    """The mean of first - second with its interval, as `clustered_bootstrap` of the differences.

    Both designs are drawn together, so what makes a conversation hard for both cancels.

    Args:
        first: values of one design, one per question.
        second: values of the other, question by question.
        clusters: the conversation of each question.
        rng: what draws.
        resamples: draws.
        confidence: share of the means inside.

    Raises:
        InvalidInputError: lengths differ, or as of `clustered_bootstrap`.
    """
    deltas = differences(first, second)
    return _bootstrap(deltas, clusters, rng, resamples, confidence, "paired cluster bootstrap")


def _bootstrap(
    values: Sequence[float],
    clusters: Sequence[str],
    rng: np.random.Generator,
    resamples: int,
    confidence: float,
    method: str,
) -> Interval:
    _check(confidence)
    if resamples < 1:
        raise InvalidInputError(f"resamples must be at least 1, not {resamples}")
    sums, counts = by_cluster(values, clusters)
    n, groups = len(values), len(sums)
    mean = math.fsum(values) / n if n else None
    if mean is None or groups < 2:
        return Interval(mean, None, None, n, groups, method, None, confidence)
    means = _drawn_means(sums, counts, rng, resamples)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2]).tolist()
    error = float(means.std(ddof=1)) if resamples > 1 else None
    return Interval(mean, low, high, n, groups, method, error, confidence)


def _drawn_means(sums: Floats, counts: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """The mean of each draw, float64 (resamples,); summed without BLAS, whose order depends on its threads."""
    means = np.empty(resamples, np.float64)
    block = max(1, _BLOCK // len(sums))
    for start in range(0, resamples, block):
        stop = min(start + block, resamples)
        drawn = rng.integers(len(sums), size=(stop - start, len(sums)))
        means[start:stop] = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    return means


def _check(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise InvalidInputError(f"confidence must lie between 0 and 1, not {confidence}")
