"""Means with intervals by conversation: worked by hand, compared with statsmodels, the same for the same state."""

from __future__ import annotations

import inspect
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import statsmodels.api
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from backread.bench.stats import intervals
from backread.bench.stats.intervals import Interval, clustered_bootstrap, clustered_bootstrap_difference, clustered_mean
from backread.bench.stats.paired import sign_flip
from backread.errors import InvalidInputError

samples = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from("abcd")), min_size=1, max_size=20)


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def sample(seed: int, size: int = 60, groups: int = 6) -> tuple[list[float], list[str]]:
    rng = generator(seed)
    codes = rng.integers(groups, size=size)
    return (rng.random(size) + 0.3 * (codes % 3)).tolist(), [f"c{code}" for code in codes]


def test_worked_by_hand() -> None:
    # Clusters (1, 1, 0) and (0, 0): mean 2/5. Residual sums: 2 - 6/5 = 4/5 and 0 - 4/5 = -4/5; squares 16/25 twice.
    # SE^2 = 2/1 / 25 * 32/25 = 64/625, SE = 8/25 = 0.32. t(0.975, 1) = 12.7062: ± 4.0660.
    found = clustered_mean([1, 1, 0, 0, 0], ["a", "a", "a", "b", "b"])
    assert (found.mean, found.n, found.clusters, found.method, found.confidence) == (0.4, 5, 2, "clustered t", 0.95)
    assert found.error == pytest.approx(0.32)
    assert found.low == pytest.approx(0.4 - 4.0660, abs=1e-3)
    assert found.high == pytest.approx(0.4 + 4.0660, abs=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_the_error_is_that_of_a_clustered_regression(seed: int) -> None:
    values, clusters = sample(seed)
    codes = np.unique(clusters, return_inverse=True)[1]
    fit = statsmodels.api.OLS(values, np.ones(len(values))).fit(
        cov_type="cluster", cov_kwds={"groups": codes}, use_t=True
    )
    found = clustered_mean(values, clusters, confidence=0.9)
    assert found.mean == pytest.approx(float(fit.params[0]))
    assert found.error == pytest.approx(float(fit.bse[0]))
    assert [found.low, found.high] == pytest.approx(fit.conf_int(0.1)[0].tolist())


def test_questions_of_their_own_give_the_usual_error() -> None:
    values = sample(3)[0]
    found = clustered_mean(values, [f"q{number}" for number in range(len(values))])
    assert found.error == pytest.approx(float(stats.sem(values)))


def test_the_formula_of_the_paper_and_where_this_deviates() -> None:
    values, clusters = sample(4)
    mean = sum(values) / len(values)
    pairs = sum(
        (values[i] - mean) * (values[j] - mean)
        for i in range(len(values))
        for j in range(len(values))
        if clusters[i] == clusters[j]
    )
    groups = len(set(clusters))
    paper = math.sqrt(pairs) / len(values)
    assert clustered_mean(values, clusters).error == pytest.approx(paper * math.sqrt(groups / (groups - 1)))


def test_of_nothing_and_of_one_conversation_there_is_no_interval() -> None:
    assert clustered_mean([], []) == Interval(None, None, None, 0, 0, "clustered t")
    assert clustered_mean([1, 0], ["a", "a"]) == Interval(0.5, None, None, 2, 1, "clustered t")
    rng = generator()
    assert clustered_bootstrap([], [], rng) == Interval(None, None, None, 0, 0, "cluster bootstrap")
    assert clustered_bootstrap([1, 0], ["a", "a"], rng) == Interval(0.5, None, None, 2, 1, "cluster bootstrap")
    assert clustered_bootstrap_difference([1, 0], [0, 0], ["a", "a"], rng) == Interval(
        0.5, None, None, 2, 1, "paired cluster bootstrap"
    )


def test_equal_values_give_a_width_of_0() -> None:
    values, clusters = [1.0] * 6, list("aabbcc")
    for found in (clustered_mean(values, clusters), clustered_bootstrap(values, clusters, generator())):
        assert (found.mean, found.low, found.high, found.error) == (1.0, 1.0, 1.0, 0.0)


def test_two_conversations_drawn_worked_by_hand() -> None:
    # Clusters of means 1 (one question) and 0 (three): draws aa, ab, ba, bb have means 1, 1/4, 1/4, 0. Every quantile
    # is one of them; 2.5 and 97.5 % are 0 and 1, and half of the draws are mixed.
    found = clustered_bootstrap([1, 0, 0, 0], ["a", "b", "b", "b"], generator())
    assert (found.mean, found.low, found.high) == (0.25, 0.0, 1.0)
    half = clustered_bootstrap([1, 0, 0, 0], ["a", "b", "b", "b"], generator(), confidence=0.4)
    assert (half.low, half.high, half.confidence) == (0.25, 0.25, 0.4)
    # The standard deviation of (1, 1/4, 1/4, 0) with mean 3/8: sqrt((25 + 1 + 1 + 9) / 64 / 4) = 3/8.
    assert found.error == pytest.approx(0.375, abs=0.01)


def test_the_bootstrap_is_near_the_clustered_error() -> None:
    values, clusters = sample(2, size=800, groups=80)
    found, formula = clustered_bootstrap(values, clusters, generator()), clustered_mean(values, clusters)
    assert found.error == pytest.approx(formula.error, rel=0.06)
    assert found.low == pytest.approx(formula.low, abs=0.01)
    assert found.high == pytest.approx(formula.high, abs=0.01)


def test_a_difference_is_drawn_in_pairs() -> None:
    # What makes a conversation hard is the same for both: only the constant difference is left.
    values, clusters = sample(5)
    found = clustered_bootstrap_difference([value + 0.25 for value in values], values, clusters, generator())
    assert [found.mean, found.low, found.high] == pytest.approx([0.25] * 3)
    assert (found.method, found.n, found.clusters) == ("paired cluster bootstrap", 60, 6)
    alone = clustered_bootstrap(values, clusters, generator())
    assert alone.low is not None
    assert alone.high is not None
    assert alone.high - alone.low > 0.05


def test_one_draw_has_no_error() -> None:
    found = clustered_bootstrap([1, 0, 0], ["a", "b", "c"], generator(), resamples=1)
    assert found.error is None
    assert found.low == found.high


@pytest.mark.parametrize("seed", range(3))
def test_the_same_state_gives_the_same_interval_in_any_order(seed: int) -> None:
    values, clusters = sample(seed)
    order = generator(seed).permutation(len(values)).tolist()
    turned = ([values[place] for place in order], [clusters[place] for place in order])
    first = clustered_bootstrap(values, clusters, generator(7), resamples=500)
    assert clustered_bootstrap(*turned, generator(7), resamples=500) == first
    assert clustered_mean(*turned) == clustered_mean(values, clusters)
    assert clustered_bootstrap(values, clusters, generator(8), resamples=500) != first


def test_many_draws_are_made_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values, clusters = sample(1)
    whole = clustered_bootstrap(values, clusters, generator(), resamples=1001)
    monkeypatch.setattr(intervals, "_BLOCK", 6 * 100)
    assert clustered_bootstrap(values, clusters, generator(), resamples=1001) == whole


def _work() -> str:
    rng = generator(42)
    first, second = rng.random((2, 500)).tolist()
    clusters = [f"c{number % 50}" for number in range(500)]
    return " ".join(
        (
            str(clustered_bootstrap(first, clusters, rng)),
            str(clustered_bootstrap_difference(first, second, clusters, rng)),
            str(sign_flip(first, second, rng, clusters=clusters)),
        )
    )


def test_the_number_of_threads_changes_nothing() -> None:
    lines = [
        "from numpy.random import default_rng as generator",
        "from backread.bench.stats.intervals import clustered_bootstrap, clustered_bootstrap_difference",
        "from backread.bench.stats.paired import sign_flip",
        inspect.getsource(_work),
        "print(_work())",
    ]
    command = [sys.executable, "-c", "from __future__ import annotations\n" + "\n".join(lines)]
    one = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    alone = subprocess.run(command, capture_output=True, text=True, check=True, env=one).stdout.strip()
    with ThreadPoolExecutor(4) as pool:
        found = {future.result() for future in [pool.submit(_work) for _ in range(4)]}
    assert found == {alone}
    assert "paired cluster bootstrap" in alone


def test_what_cannot_be_used_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="1 values have 2 clusters"):
        clustered_mean([1], ["a", "b"])
    with pytest.raises(InvalidInputError, match="not a finite number"):
        clustered_bootstrap([math.nan, 1], ["a", "b"], generator())
    with pytest.raises(InvalidInputError, match="2 and 1 values are no pairs"):
        clustered_bootstrap_difference([1, 2], [1], ["a", "b"], generator())
    with pytest.raises(InvalidInputError, match="resamples must be at least 1"):
        clustered_bootstrap([1, 2], ["a", "b"], generator(), resamples=0)
    for confidence in (0.0, 1.0, 95):
        with pytest.raises(InvalidInputError, match="confidence"):
            clustered_mean([1, 2], ["a", "b"], confidence=confidence)


@given(samples)
def test_intervals_hold_their_mean_and_names_of_conversations_change_nothing(pairs: list[tuple[float, str]]) -> None:
    values, clusters = [value for value, _ in pairs], [cluster for _, cluster in pairs]
    found = clustered_mean(values, clusters)
    assert found.mean == pytest.approx(np.mean(values))
    if found.clusters > 1:
        assert found.low is not None
        assert found.high is not None
        assert found.mean is not None
        assert found.low <= found.mean <= found.high
    renamed = clustered_mean(values, [f"x{cluster}" for cluster in clusters])
    assert renamed == found
    drawn = clustered_bootstrap(values, clusters, generator(), resamples=200)
    if drawn.low is not None and drawn.high is not None:
        assert min(values) - 1e-12 <= drawn.low <= drawn.high <= max(values) + 1e-12
