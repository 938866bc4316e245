"""Adjusted p-values: worked by hand, as statsmodels has them, and tests that were undefined."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from backread.bench.stats.correction import Adjusted, bonferroni, holm
from backread.errors import InvalidInputError

p_values = st.lists(st.floats(0, 1), max_size=12)


def test_worked_by_hand() -> None:
    given_p = [0.01, 0.04, 0.03, 0.5]
    assert bonferroni(given_p) == Adjusted(pytest.approx((0.04, 0.16, 0.12, 1.0)), 4, "Bonferroni")  # type: ignore[arg-type]
    # In order 0.01 * 4 = 0.04, 0.03 * 3 = 0.09, 0.04 * 2 = 0.08 but not below 0.09, 0.5.
    assert holm(given_p) == Adjusted(pytest.approx((0.04, 0.09, 0.09, 0.5)), 4, "Holm")  # type: ignore[arg-type]


def test_undefined_tests_are_not_in_the_family() -> None:
    assert bonferroni([0.02, None, 0.5, None]) == Adjusted((0.04, None, 1.0, None), 2, "Bonferroni")
    assert holm([0.02, None, 0.5, None]) == Adjusted((0.04, None, 0.5, None), 2, "Holm")
    assert bonferroni([]) == Adjusted((), 0, "Bonferroni")
    assert holm([None]) == Adjusted((None,), 0, "Holm")


@pytest.mark.parametrize("wrong", [-0.1, 1.5, math.nan])
def test_what_is_no_p_value_is_refused(wrong: float) -> None:
    for adjust in (bonferroni, holm):
        with pytest.raises(InvalidInputError, match="is no p-value"):
            adjust([0.5, wrong])


@pytest.mark.parametrize("seed", range(5))
def test_the_same_as_statsmodels(seed: int) -> None:
    given_p = (np.random.default_rng(seed).random(11) ** 3).tolist()
    assert list(bonferroni(given_p).p) == pytest.approx(multipletests(given_p, method="bonferroni")[1].tolist())
    assert list(holm(given_p).p) == pytest.approx(multipletests(given_p, method="holm")[1].tolist())


@given(p_values)
def test_an_adjusted_p_is_no_smaller_and_holm_no_larger_than_bonferroni(given_p: list[float]) -> None:
    theirs, ours = bonferroni(given_p), holm(given_p)
    assert theirs.family == ours.family == len(given_p)
    for p, large, small in zip(given_p, theirs.p, ours.p, strict=True):
        assert large is not None
        assert small is not None
        assert p <= small <= large <= 1
    ranked = sorted(range(len(given_p)), key=lambda place: given_p[place])
    adjusted = [ours.p[place] for place in ranked]
    assert adjusted == sorted(value for value in adjusted if value is not None)


@given(p_values, st.randoms(use_true_random=False))
def test_the_order_of_tests_changes_nothing(given_p: list[float], random: object) -> None:
    order = list(range(len(given_p)))
    random.shuffle(order)  # type: ignore[attr-defined]
    turned = [given_p[place] for place in order]
    for adjust in (bonferroni, holm):
        whole = adjust(given_p).p
        assert adjust(turned).p == tuple(whole[place] for place in order)
