"""Topics: the ladder of similarities, attention that confirms, and what is cut where."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from backread.construction.topics import (
    agreed,
    attention_boundaries,
    neighbours,
    parted,
    similarity_boundaries,
)


@pytest.mark.parametrize(
    ("similarities", "boundaries"),
    [
        ([], []),
        ([0.9, 0.5, 0.7], []),  # nothing is below .50
        ([0.9, 0.49, 0.7], [2]),  # found at .50
        ([0.1, 0.21, 0.4], [1]),  # .20 finds one, so .25 is not tried
        ([0.24, 0.9, 0.22, 0.26], [1, 3]),  # .20 finds none, .25 two
        ([0.2, 0.3], [1]),  # strictly below: .20 is not below .20, but below .25
        ([-1.0, -1.0], [1, 2]),
    ],
)
def test_the_first_threshold_that_parts_any(similarities: list[float], boundaries: list[int]) -> None:
    assert similarity_boundaries(similarities) == boundaries


def test_neighbours_are_compared_by_cosine() -> None:
    vectors = np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32)
    assert neighbours(vectors) == [0.6, 0.8]
    assert neighbours(vectors[:1]) == []
    assert neighbours(vectors[:0]) == []


def attention(*near: float) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """A matrix with these values of c, the attention of each text to the one before it."""
    made = np.zeros((len(near) + 1, len(near) + 1), np.float32)
    for k, value in enumerate(near):
        made[k + 1, k] = value
    return made


@pytest.mark.parametrize(
    ("near", "coded"),
    [
        ([], []),
        ([0.9, 0.1], []),  # the ends are no maxima
        ([0.1, 0.8, 0.2, 0.9, 0.3], [1, 3]),
        ([0.1, 0.8, 0.8, 0.3], []),  # strictly more than both neighbours
    ],
)
def test_maxima_of_attention(near: list[float], coded: list[int]) -> None:
    assert attention_boundaries(attention(*near), as_coded=True) == coded
    assert attention_boundaries(attention(*near)) == [k + 1 for k in coded]


@pytest.mark.parametrize(
    ("fine", "coarse", "kept"),
    [
        ([2, 7], None, [2, 7]),  # no such signal
        ([2, 7], [], []),  # the signal says: one topic
        ([2, 7], [4], [2, 7]),  # two and three away
        ([2, 8], [4], [2]),  # four away
        ([2, 9], [20], [2, 9]),  # none is confirmed: all stay
        ([], [3], []),
    ],
)
def test_similarity_confirmed_by_attention(fine: list[int], coarse: list[int] | None, kept: list[int]) -> None:
    assert agreed(fine, coarse) == kept


@pytest.mark.parametrize(
    ("boundaries", "last", "topics", "taken"),
    [
        ([], False, ["abcde"], 5),
        ([2], False, ["ab"], 2),  # the rest goes on
        ([2], True, ["ab", "cde"], 5),
        ([1, 4], False, ["a", "bcd"], 4),
        ([1, 4], True, ["a", "bcd", "e"], 5),
    ],
)
def test_a_run_is_cut(boundaries: list[int], last: bool, topics: list[str], taken: int) -> None:
    found, count = parted("abcde", boundaries, last=last)
    assert ["".join(topic) for topic in found] == topics
    assert count == taken


@given(some.lists(some.integers()), some.sets(some.integers(1, 9)), some.booleans())
def test_nothing_is_lost_or_doubled(items: list[int], at: set[int], last: bool) -> None:
    boundaries = sorted(b for b in at if b < len(items))
    topics, taken = parted(items, boundaries, last=last)
    assert [item for topic in topics for item in topic] == items[:taken]
    assert all(topics)
    assert taken == len(items) or (not last and boundaries)
    assert parted([], [], last=last) == ([], 0)
