"""Tests of two designs on the same questions: paired t-test, exact McNemar, sign flips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backread.bench.extra import needs
from backread.bench.stats._values import Floats, by_cluster, differences
from backread.errors import InvalidInputError

__all__ = ["McNemar", "PairedTest", "mcnemar", "paired_t", "sign_flip"]

_EXACT = 1 << 13
_BLOCK = 1 << 20
_SPREAD = 1e-12


@dataclass(frozen=True, slots=True)
class PairedTest:
    """A two-sided test of "the two don't differ on average".

    Attributes:
        method: "paired t", "sign flip, exact" or "sign flip".
        n: pairs.
        difference: mean of first - second; None of no pairs.
        statistic: t; None where it is undefined, and of sign flips, whose statistic is the difference.
        p: None where it is undefined.
    """

    method: str
    n: int
    difference: float | None
    statistic: float | None
    p: float | None


@dataclass(frozen=True, slots=True)
class McNemar:
    """An exact McNemar test of `n` pairs; `p` is None of no pairs.

    Attributes:
        n: pairs.
        first_only: pairs where only the first is right.
        second_only: pairs where only the second is right.
        p: two-sided.
    """

    n: int
    first_only: int
    second_only: int
    p: float | None


def paired_t(first: Sequence[float], second: Sequence[float]) -> PairedTest:
    """Student's paired t-test, n - 1 degrees of freedom, two-sided.

        t = mean(d) / (s(d) / sqrt(n)), d = first - second, s with n - 1

    It takes questions for independent, as published comparisons do; where they share conversations, `sign_flip` with
    clusters or `clustered_bootstrap_difference` tells more.

    Degenerate cases: below two pairs t and p are None. All differences 0 (but for rounding) give t = 0 and p = 1. All
    differences equal, but not 0, have no spread to compare with: t and p are None, not infinite and 0.

    Raises:
        MissingExtraError: scipy isn't installed.
        InvalidInputError: the two have different lengths, or a value isn't finite.
    """
    deltas = differences(first, second)
    n = len(deltas)
    mean = math.fsum(deltas) / n if n else None
    if n < 2:
        return PairedTest("paired t", n, mean, None, None)
    if not any(deltas):
        return PairedTest("paired t", n, 0.0, 0.0, 1.0)
    if max(deltas) - min(deltas) <= _SPREAD * max(map(abs, deltas)):
        return PairedTest("paired t", n, mean, None, None)
    needs("scipy")
    from scipy import stats

    result = stats.ttest_1samp(np.array(deltas, np.float64), 0.0)
    return PairedTest("paired t", n, mean, float(result.statistic), float(result.pvalue))


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> McNemar:
    """McNemar's test of two designs' right and wrong answers, exact and two-sided.

        p = min(1, 2 P(X <= min(b, c))), X binomial with b + c trials of 1/2

    b and c are the discordant pairs: questions only one of the two answers right. McNemar, Psychometrika 1947, in the
    exact form (no chi-squared approximation, no mid-p).

    Degenerate cases: no discordant pair gives p = 1; no pair at all gives None.

    Raises:
        InvalidInputError: the two have different lengths.
    """
    if len(first) != len(second):
        raise InvalidInputError(
            f"{len(first)} and {len(second)} answers are no pairs", hint="pair the answers by question"
        )
    pairs = list(zip(map(bool, first), map(bool, second), strict=True))
    first_only, second_only = pairs.count((True, False)), pairs.count((False, True))
    if not pairs:
        return McNemar(0, 0, 0, None)
    trials, fewer = first_only + second_only, min(first_only, second_only)
    tail = sum(math.comb(trials, successes) for successes in range(fewer + 1))
    return McNemar(len(pairs), first_only, second_only, min(1.0, 2 * tail / 2**trials))


def sign_flip(
    first: Sequence[float],
    second: Sequence[float],
    rng: np.random.Generator,
    *,
    clusters: Sequence[str] | None = None,
    resamples: int = 9999,
) -> PairedTest:
    """A sign-flip (permutation) test of the mean difference, two-sided.

    If the two don't differ, first and second may change places: in a question, or in all questions of a conversation
    together when `clusters` are given. p is the share of such changes whose mean difference is at least as far from 0
    as the one seen. With few enough signs (2^m <= `resamples`, at most 8,192) all of them are tried and p is exact;
    otherwise p = (hits + 1) / (resamples + 1) for random ones, so that it is never 0 (Phipson & Smyth 2010).

    The same state of `rng` gives the same p, in any order of the questions of a clustered test.

    Degenerate cases: no pairs give None; all differences 0 give p = 1; m conversations can't give less than
    2 / 2^m, so five of them or fewer never reach 0.05.

    Args:
        first: values of one design.
        second: values of the other, question by question.
        rng: where random signs come from.
        clusters: the conversation of each question; None takes questions for independent.
        resamples: random changes.

    Raises:
        InvalidInputError: lengths differ, a value isn't finite, or `resamples` is below 1.
    """
    if resamples < 1:
        raise InvalidInputError(f"resamples must be at least 1, not {resamples}")
    deltas = differences(first, second)
    n = len(deltas)
    sums = np.array(deltas, np.float64) if clusters is None else by_cluster(deltas, clusters)[0]
    if not n:
        return PairedTest("sign flip", 0, None, None, None)
    mean = math.fsum(deltas) / n
    size = float(np.abs(sums).sum())
    sums = sums[np.abs(sums) > _SPREAD * size]  # a sign in front of nothing changes nothing
    if not len(sums):
        return PairedTest("sign flip, exact", n, mean, None, 1.0)
    bar = abs(math.fsum(sums)) - _SPREAD * size
    every = 2 ** len(sums)
    if every <= min(resamples, _EXACT):
        places = np.arange(len(sums))
        signs = (np.arange(every)[:, None] >> places & 1) * 2 - 1
        return PairedTest("sign flip, exact", n, mean, None, _as_far(signs * sums, bar) / every)
    return PairedTest("sign flip", n, mean, None, (_drawn_as_far(sums, bar, rng, resamples) + 1) / (resamples + 1))


def _drawn_as_far(sums: Floats, bar: float, rng: np.random.Generator, resamples: int) -> int:
    """How many of so many random signs give a sum at least `bar` from 0."""
    hits = 0
    block = max(1, _BLOCK // len(sums))
    for start in range(0, resamples, block):
        signs = rng.integers(2, size=(min(block, resamples - start), len(sums))) * 2 - 1
        hits += _as_far(signs * sums, bar)
    return hits


def _as_far(flipped: Floats, bar: float) -> int:
    """How many rows have a sum at least `bar` from 0; summed without BLAS, whose order depends on its threads."""
    return int((np.abs(flipped.sum(axis=1)) >= bar).sum())
