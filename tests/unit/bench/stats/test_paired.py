"""Paired tests: worked by hand, compared with scipy and statsmodels, and their degenerate cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from backread.bench.stats import paired
from backread.bench.stats.paired import McNemar, PairedTest, mcnemar, paired_t, sign_flip
from backread.errors import InvalidInputError

values = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=9)


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_t_worked_by_hand() -> None:
    # Differences 1, 2, 3: mean 2, s = 1, t = 2 / (1 / sqrt 3) = 3.4641; p of t with 2 degrees of freedom is
    # 1 - t / sqrt(2 + t^2) = 1 - 3.4641 / 3.7417 = 0.0742.
    found = paired_t([2, 4, 6], [1, 2, 3])
    assert (found.method, found.n, found.difference) == ("paired t", 3, 2.0)
    assert found.statistic == pytest.approx(3.4641, abs=1e-4)
    assert found.p == pytest.approx(0.0742, abs=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_t_is_that_of_scipy(seed: int) -> None:
    rng = generator(seed)
    first, second = rng.random(30), rng.random(30) + 0.1 * seed
    found, theirs = paired_t(first.tolist(), second.tolist()), stats.ttest_rel(first, second)
    assert found.statistic == pytest.approx(float(theirs.statistic), rel=1e-9)
    assert found.p == pytest.approx(float(theirs.pvalue), rel=1e-9)
    swapped = paired_t(second.tolist(), first.tolist())
    assert swapped.p == pytest.approx(found.p)
    assert swapped.statistic == pytest.approx(-(found.statistic or 0))


def test_t_of_too_little_or_without_spread_is_undefined() -> None:
    assert paired_t([], []) == PairedTest("paired t", 0, None, None, None)
    assert paired_t([1], [0]) == PairedTest("paired t", 1, 1.0, None, None)
    assert paired_t([1, 1, 1], [0, 0, 0]) == PairedTest("paired t", 3, 1.0, None, None)
    # 0.3 - 0.2 and 0.4 - 0.3 differ by rounding alone.
    assert paired_t([0.3, 0.4], [0.2, 0.3]).p is None


def test_t_of_no_difference_at_all_is_1() -> None:
    assert paired_t([1, 0, 1], [1, 0, 1]) == PairedTest("paired t", 3, 0.0, 0.0, 1.0)
    assert paired_t([0.1 + 0.2, 1], [0.3, 1]) == PairedTest("paired t", 2, 0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # Discordant 1 and 5: 2 (C(6,0) + C(6,1)) / 64 = 14/64.
        ("100000" + "11", "011111" + "11", McNemar(8, 1, 5, 0.21875)),
        ("11111", "00000", McNemar(5, 5, 0, 0.0625)),  # 2 / 32
        ("10", "01", McNemar(2, 1, 1, 1.0)),  # 2 (1 + 2) / 4 is cut to 1
        ("1", "0", McNemar(1, 1, 0, 1.0)),
        ("1010", "1010", McNemar(4, 0, 0, 1.0)),
        ("", "", McNemar(0, 0, 0, None)),
    ],
)
def test_mcnemar_worked_by_hand(first: str, second: str, expected: McNemar) -> None:
    assert mcnemar([char == "1" for char in first], [char == "1" for char in second]) == expected


@pytest.mark.parametrize("seed", range(8))
def test_mcnemar_is_that_of_statsmodels(seed: int) -> None:
    rng = generator(seed)
    size = int(rng.integers(5, 400))
    first, second = rng.random(size) < 0.5 + 0.05 * seed, rng.random(size) < 0.5
    found = mcnemar(first.tolist(), second.tolist())
    table = [[(first & second).sum(), (first & ~second).sum()], [(~first & second).sum(), (~first & ~second).sum()]]
    assert found.p == pytest.approx(float(statsmodels_mcnemar(table, exact=True).pvalue), rel=1e-9)
    assert (found.first_only, found.second_only) == (int(table[0][1]), int(table[1][0]))


def test_mcnemar_of_many_questions_stays_exact() -> None:
    # 1,540 questions, 700 to 840: scipy's binomial test agrees.
    found = mcnemar([True] * 700 + [False] * 840, [False] * 700 + [True] * 840)
    assert found.p == pytest.approx(float(stats.binomtest(700, 1540, 0.5).pvalue), rel=1e-9)


def test_sign_flips_worked_by_hand() -> None:
    # Differences 1, 1, -1/2, so the sum seen is 1.5. With other signs: ±2.5, ±1.5, ±0.5, ±0.5: four of eight as far.
    found = sign_flip([1, 1, 0], [0, 0, 0.5], generator())
    assert found == PairedTest("sign flip, exact", 3, 0.5, None, 0.5)
    assert sign_flip([1] * 5, [0] * 5, generator()).p == 2 / 32


def test_questions_of_a_conversation_flip_together() -> None:
    first, second, clusters = [1.0] * 6, [0.0] * 6, ["a", "a", "a", "b", "b", "b"]
    assert sign_flip(first, second, generator()).p == 2 / 64
    assert sign_flip(first, second, generator(), clusters=clusters).p == 2 / 4
    # Within a the differences cancel, so only b has a sign to flip.
    assert sign_flip([1, 0, 1], [0, 1, 0], generator(), clusters=["a", "a", "b"]).p == 1.0


def test_sign_flips_of_nothing() -> None:
    assert sign_flip([], [], generator()) == PairedTest("sign flip", 0, None, None, None)
    assert sign_flip([1, 0], [1, 0], generator()) == PairedTest("sign flip, exact", 2, 0.0, None, 1.0)


def test_random_flips_never_give_0() -> None:
    found = sign_flip([1.0] * 40, [0.0] * 40, generator(), resamples=99)
    # Of 99 random changes of 40 signs none keeps all: (0 + 1) / (99 + 1).
    assert found == PairedTest("sign flip", 40, 1.0, None, 0.01)


def test_random_flips_are_near_the_exact_ones() -> None:
    rng = generator(5)
    first, second = rng.random(12).tolist(), (rng.random(12) - 0.2).tolist()
    exact, drawn = sign_flip(first, second, rng), sign_flip(first, second, rng, resamples=4000)
    assert (exact.method, drawn.method) == ("sign flip, exact", "sign flip")
    # 4000 draws of a p of 0.05 to 0.5 have a standard error below 0.008.
    assert drawn.p == pytest.approx(exact.p, abs=0.04)
    theirs = stats.permutation_test(
        (np.array(first), np.array(second)),
        lambda a, b: np.mean(a - b),
        permutation_type="samples",
        n_resamples=math.inf,
    )
    assert exact.p == pytest.approx(float(theirs.pvalue))


def test_the_same_state_gives_the_same_p(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = generator(9)
    first, second = rng.random(200).tolist(), rng.random(200).tolist()
    whole = [sign_flip(first, second, generator(3)).p for _ in range(2)]
    assert whole[0] == whole[1]
    assert sign_flip(first, second, generator(4)).p != whole[0]
    monkeypatch.setattr(paired, "_BLOCK", 200 * 1000)
    assert sign_flip(first, second, generator(3)).p == whole[0]


def test_the_order_of_questions_changes_nothing() -> None:
    rng = generator(9)
    first, second = rng.random(90).tolist(), rng.random(90).tolist()
    clusters = [f"c{number % 30}" for number in range(90)]
    order = rng.permutation(90).tolist()
    turned = ([first[i] for i in order], [second[i] for i in order], [clusters[i] for i in order])
    assert sign_flip(first, second, generator(), clusters=clusters, resamples=500) == sign_flip(
        turned[0], turned[1], generator(), clusters=turned[2], resamples=500
    )


def test_what_is_no_pair_or_no_number_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="2 and 1 values are no pairs"):
        paired_t([1, 2], [1])
    with pytest.raises(InvalidInputError, match="2 and 1 answers are no pairs"):
        mcnemar([True, False], [True])
    with pytest.raises(InvalidInputError, match="not a finite number"):
        paired_t([1, math.nan], [1, 2])
    with pytest.raises(InvalidInputError, match="not a finite number"):
        sign_flip([1, 2], [1, math.inf], generator())
    with pytest.raises(InvalidInputError, match="2 values have 1 clusters"):
        sign_flip([1, 2], [1, 1], generator(), clusters=["a"])
    with pytest.raises(InvalidInputError, match="at least 1, not 0"):
        sign_flip([1], [1], generator(), resamples=0)


@given(values, st.integers(0, 3))
def test_a_p_is_a_p_and_the_sides_may_change_places(first: list[float], seed: int) -> None:
    second = generator(seed).choice([0.0, 0.5, 1.0], size=len(first)).tolist()
    for one, other in (
        (sign_flip(first, second, generator()), sign_flip(second, first, generator())),
        (paired_t(first, second), paired_t(second, first)),
    ):
        assert one.p is None or 0 <= one.p <= 1
        assert one.p == pytest.approx(other.p)
    flipped = sign_flip(first, second, generator())
    assert flipped.p is not None
    assert flipped.p > 0
    right = mcnemar([value > 0.4 for value in first], [value > 0.4 for value in second])
    assert right.p is not None
    assert 0 < right.p <= 1
