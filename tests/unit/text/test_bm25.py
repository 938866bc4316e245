"""The BM25 formula against values worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from backread.text.bm25 import idf, term_scores


def test_idf_by_hand() -> None:
    # n = 2. df 1: ln(1 + 1.5 / 1.5) = ln 2; df 2: ln(1 + .5 / 2.5) = ln 1.2; df 0: ln(1 + 2.5 / .5) = ln 6
    assert idf([1, 2, 0], 2) == pytest.approx([math.log(2), math.log(1.2), math.log(6)])


def test_tok_04_idf_is_positive_for_a_term_in_every_turn() -> None:
    for n in range(1, 50):
        weights = idf(np.arange(n + 1), n)
        assert (weights > 0).all()
        assert (np.diff(weights) < 0).all()


def test_tok_04_small_stores_rank_right() -> None:
    # Store 1: "kettle" is in one of two turns of length 2: idf ln 2, tf part 2.2 / (1 + 1.2) = 1.
    assert idf(1, 2) * term_scores([1, 0], [2, 2], 2.0) == pytest.approx([math.log(2), 0.0])
    # Store 2: the only turn has the term.
    assert (idf(1, 1) * term_scores([1], [2], 2.0))[0] > 0
    # Store 3: lengths 2, 2, 3; "kettle" in all three, "red" in the last only.
    lengths = [2, 2, 3]
    scores = idf(3, 3) * term_scores([1, 1, 1], lengths, 7 / 3) + idf(1, 3) * term_scores([0, 0, 1], lengths, 7 / 3)
    assert scores.argmax() == 2
    assert (scores > 0).all()


def test_term_scores_by_hand() -> None:
    # tf 2 in a turn of twice the mean length: 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 2)) = 4.4 / 4.1
    assert term_scores([2], [20], 10.0) == pytest.approx([4.4 / 4.1])
    # without length normalisation: 4.4 / (2 + 1.2)
    assert term_scores([2], [20], 10.0, b=0.0) == pytest.approx([4.4 / 3.2])


def test_term_scores_saturate_below_k1_plus_1() -> None:
    scores = term_scores([1, 10, 1000, 10**9], [10] * 4, 10.0)
    assert (np.diff(scores) > 0).all()
    assert scores[-1] <= 2.2


def test_longer_turns_score_lower() -> None:
    assert (np.diff(term_scores([1, 1, 1], [5, 10, 40], 10.0)) < 0).all()


@pytest.mark.parametrize("avgdl", [0.0, -1.0, float("nan")])
def test_empty_collections_are_finite(avgdl: float) -> None:
    assert term_scores([0, 1], [0, 0], avgdl) == pytest.approx([0.0, 1.0])
    assert term_scores([0], [0], 3.0, b=1.0) == pytest.approx([0.0])


def test_empty_arrays() -> None:
    assert idf([], 0).shape == (0,)
    assert term_scores([], [], 1.0).shape == (0,)


def test_counts_from_another_collection_are_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 2"):
        idf([3], 2)
    with pytest.raises(ValueError, match="between 0 and 2"):
        idf([-1], 2)


@pytest.mark.parametrize(("k1", "b"), [(0.0, 0.75), (-1.0, 0.75), (1.2, -0.1), (1.2, 1.1), (float("nan"), 0.5)])
def test_parameters_out_of_range_are_refused(k1: float, b: float) -> None:
    with pytest.raises(ValueError, match="k1 must be positive"):
        term_scores([1], [1], 1.0, k1, b)
