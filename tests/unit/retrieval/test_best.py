"""Choosing the best of an array of scores."""

from __future__ import annotations

import numpy as np
import pytest

from backread.errors import InvalidInputError
from backread.retrieval.base import best

NAN = float("nan")


@pytest.mark.parametrize(
    ("given", "top_k", "expected"),
    [
        ((), 3, []),
        ((0, -1, NAN), 3, []),
        ((1, 3, 2), 3, [1, 2, 0]),
        ((1, 3, 2), 2, [1, 2]),
        ((2, 2, 5, 2), 3, [2, 0, 1]),  # ties keep history order, also where the cut falls among them
        ((2, 2, 2, 2), 2, [0, 1]),
        ((NAN, 1, NAN, 2), 4, [3, 1]),
        ((float("inf"), 1), 1, [0]),
    ],
)
def test_best_first_and_no_more_than_asked_for(given: tuple[float, ...], top_k: int, expected: list[int]) -> None:
    assert best(np.array(given, dtype=np.float32), top_k).tolist() == expected


def test_none_is_not_a_number_of_results() -> None:
    with pytest.raises(InvalidInputError, match="at least 1, not 0"):
        best(np.ones(3, dtype=np.float32), 0)
