"""Fusion by hand: every expected value is worked out beside it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from backread.errors import InvalidInputError
from backread.retrieval.fusion import interpolation, min_max, reciprocal_rank_fusion

NAN = float("nan")


def scores(*values: float) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), ()),
        ((2, 4, 3), (0, 1, 0.5)),  # (x - 2) / 2
        ((-1, 3, NAN, 1), (0, 1, 0, 0.5)),  # (x + 1) / 4; what can't be said counts as the lowest
        ((5, 5), (1, 1)),  # all equal and positive: all match alike
        ((0, 0), (0, 0)),  # nothing matches
        ((-2, -2), (0, 0)),
        ((7,), (1,)),
        ((7, NAN), (1, 0)),
        ((NAN, NAN), (0, 0)),
    ],
)
def test_min_max(given: tuple[float, ...], expected: tuple[float, ...]) -> None:
    scaled = min_max(scores(*given))
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled, scores(*expected))


def test_interpolation_weighs_the_first_list_by_alpha() -> None:
    # first scaled (0, 1, .5), second scaled (1, 0, 0)
    fused = interpolation(scores(2, 4, 3), scores(0.9, 0.1, 0.1), 0.25)
    np.testing.assert_allclose(fused, (0.75, 0.25, 0.125))
    assert fused.dtype == np.float32


def test_interpolation_at_the_ends_is_one_list() -> None:
    first, second = scores(2, 4, 3), scores(9, 1, 5)
    np.testing.assert_allclose(interpolation(first, second, 1), min_max(first))
    np.testing.assert_allclose(interpolation(first, second, 0), min_max(second))


def test_interpolation_without_vectors_keeps_the_order_of_the_text() -> None:
    fused = interpolation(scores(1, 3, 2), scores(NAN, NAN, NAN))
    np.testing.assert_allclose(fused, (0, 0.5, 0.25))


@pytest.mark.parametrize("alpha", [-0.1, 1.1, NAN])
def test_alpha_is_a_share(alpha: float) -> None:
    with pytest.raises(InvalidInputError, match="alpha"):
        interpolation(scores(1), scores(1), alpha)


def test_reciprocal_rank_fusion_by_hand() -> None:
    # First ranks units 1, 0, 2; second ranks 1 then 3, while 0 has no score and 2 doesn't match.
    fused = reciprocal_rank_fusion([scores(2, 5, 1, 0), scores(NAN, 0.9, -0.2, 0.4)])
    np.testing.assert_allclose(fused, (1 / 62, 1 / 61 + 1 / 61, 1 / 63, 1 / 62), rtol=1e-6)


def test_equal_scores_rank_in_history_order() -> None:
    fused = reciprocal_rank_fusion([scores(1, 1, 2, 1)], k=0)
    np.testing.assert_allclose(fused, (1 / 2, 1 / 3, 1, 1 / 4))


def test_ranks_beyond_the_depth_do_not_count() -> None:
    np.testing.assert_allclose(reciprocal_rank_fusion([scores(3, 2, 1)], k=1, depth=2), (1 / 2, 1 / 3, 0))


def test_reciprocal_rank_fusion_of_nothing() -> None:
    assert reciprocal_rank_fusion([scores()]).shape == (0,)
    np.testing.assert_array_equal(reciprocal_rank_fusion([scores(0, NAN), scores(-1, 0)]), (0, 0))
    with pytest.raises(InvalidInputError, match="nothing to fuse"):
        reciprocal_rank_fusion([])


def test_what_is_given_is_not_changed() -> None:
    given = scores(3, NAN, 1)
    before = given.copy()
    interpolation(given, given)
    reciprocal_rank_fusion([given])
    np.testing.assert_array_equal(given, before)
