"""Fusion never invents a match, never loses the best, and always gives the same for the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from backread.retrieval.base import best
from backread.retrieval.fusion import interpolation, min_max, reciprocal_rank_fusion

value = st.one_of(st.just(float("nan")), st.just(0.0), st.floats(-10, 10, width=16))


def arrays(size: int) -> st.SearchStrategy[NDArray[np.float32]]:
    return st.lists(value, min_size=size, max_size=size).map(lambda row: np.array(row, dtype=np.float32))


pairs = st.integers(0, 12).flatmap(lambda size: st.tuples(arrays(size), arrays(size)))


@given(pairs)
def test_min_max_stays_between_0_and_1_and_keeps_the_order(pair: tuple[NDArray[np.float32], ...]) -> None:
    scores = pair[0]
    scaled = min_max(scores)
    assert scaled.dtype == np.float32
    assert ((scaled >= 0) & (scaled <= 1)).all()
    known = ~np.isnan(scores)
    order = np.argsort(scores[known], kind="stable")
    assert (np.diff(scaled[known][order]) >= 0).all()


@given(pairs, st.floats(0, 1))
def test_interpolation_is_symmetric(pair: tuple[NDArray[np.float32], NDArray[np.float32]], alpha: float) -> None:
    first, second = pair
    fused = interpolation(first, second, alpha)
    np.testing.assert_allclose(fused, interpolation(second, first, 1 - alpha), atol=1e-6)
    assert ((fused >= 0) & (fused <= 1 + 1e-6)).all()


@given(pairs)
def test_reciprocal_ranks_are_those_of_units_that_match(pair: tuple[NDArray[np.float32], NDArray[np.float32]]) -> None:
    fused = reciprocal_rank_fusion(list(pair))
    matched = (pair[0] > 0) | (pair[1] > 0)
    np.testing.assert_array_equal(fused > 0, matched)
    assert (fused <= 2 / 61 + 1e-9).all()
    for scores in pair:  # what is best in both is best
        top = best(scores, 1)
        if len(top) and all(best(other, 1).tolist() == top.tolist() for other in pair):
            assert best(fused, 1).tolist() == top.tolist()


@given(pairs, st.integers(1, 15))
def test_best_is_sorted_and_complete(pair: tuple[NDArray[np.float32], ...], top_k: int) -> None:
    scores = pair[0]
    chosen = best(scores, top_k).tolist()
    expected = sorted((place for place in range(len(scores)) if scores[place] > 0), key=lambda at: (-scores[at], at))
    assert chosen == expected[:top_k]
