"""Where a session is cut: depths and boundaries worked by hand, ties, ends, and what always holds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from backread.construction.segmentation import boundaries, similarities, split, valley_depths, word_cosine
from backread.testing.fakes import HashEmbedder
from backread.types import Turn

STORED = datetime(2026, 1, 1, tzinfo=UTC)


def turn(place: int, text: str, role: str = "user") -> Turn:
    return Turn(f"t{place}", "s", place, role, text, STORED)


def from_depths(*depths: float) -> list[float]:
    """Similarities with these depths for w = 1: d_i = s_{i-1} + s_{i+1} - 2 s_i, so s_{i+1} = d_i + 2 s_i - s_{i-1}."""
    found = [0.0, 0.0]
    for depth in depths:
        found.append(depth + 2 * found[-1] - found[-2])
    return found


def test_depths_need_both_windows() -> None:
    # w=1: .9+.1-1.6, .8+.8-.2, .1+.9-1.6; w=2: (.9+.8)/2 + (.8+.9)/2 - .2
    assert valley_depths([0.9, 0.8, 0.1, 0.8, 0.9], 1) == {1: -0.6, 2: 1.4, 3: -0.6}
    assert valley_depths([0.9, 0.8, 0.1, 0.8, 0.9], 2) == {2: 1.5}
    assert valley_depths([0.9, 0.8, 0.1, 0.8, 0.9], 3) == {}


def test_w_is_at_least_one() -> None:
    with pytest.raises(ValueError, match="not 0"):
        valley_depths([0.5], 0)


@pytest.mark.parametrize(
    ("given_", "w", "expected"),
    [
        ([0.9, 0.8, 0.1, 0.8, 0.9], 1, [2]),  # D = -.6 1.4 -.6, mean .067, deviation .943, threshold .114
        ([0.9, 0.8, 0.1, 0.8, 0.9], 2, [2]),  # a single depth, above 0
        ([0.1, 0.1, 0.9, 0.1, 0.1], 2, []),  # a single depth, -1.6
        ([0.5, 0.5, 0.5], 1, []),  # a single depth of 0 is no valley
        ([0.9, 0.1], 1, []),  # no depth at all: three utterances are one segment
        ([], 1, []),
        ([1, 1, 0, 0, 1, 1], 1, [2]),  # D = -1 1 1 -1: the leftmost of a plateau
        ([1, 0, 0, 1], 1, []),  # D = 1 1: everything is equally deep
        (from_depths(0, 1, 1, 2, 0), 1, [4]),  # 1 1 is a shoulder of 2; threshold .837
        (from_depths(2, 0, 1), 1, [1]),  # both ends are maxima, threshold 1.041
        (from_depths(2, 0, 2), 1, [1, 3]),  # mean 1.333, deviation .943, threshold 1.38
        (from_depths(0, 2, 0, 0, 1, 0), 1, [2, 5]),  # mean .5, deviation .764, threshold .538
        (from_depths(0, 2, 0, 0.5, 0), 1, [2]),  # .5 is a maximum under the threshold of .539
        ([0.9, 0.8, 0.2, 0.1, 0.2, 0.8, 0.9], 2, [3]),  # D at 2, 3, 4: .6, 1.0, .6; threshold .743
    ],
)
def test_boundaries(given_: list[float], w: int, expected: list[int]) -> None:
    assert boundaries(given_, w) == expected


eighths = st.lists(st.integers(-8, 8).map(lambda number: number / 8), max_size=24)


@given(eighths, st.integers(1, 3))
def test_segments_at_the_ends_have_more_than_w_utterances(values: list[float], w: int) -> None:
    found = boundaries(values, w)
    assert found == sorted(set(found))
    assert all(w <= place <= len(values) - 1 - w for place in found)
    assert all(later - earlier > 1 for earlier, later in pairwise(found))


@given(eighths, st.integers(1, 3), st.integers(-8, 8))
def test_neither_a_shift_nor_a_scale_moves_a_boundary(values: list[float], w: int, shift: int) -> None:
    assert boundaries([value + shift / 8 for value in values], w) == boundaries(values, w)
    assert boundaries([4 * value for value in values], w) == boundaries(values, w)


class TestSimilarities:
    def test_of_words(self) -> None:
        # {boiler, loud} and {boiler, cold}: 1 in common of sqrt(2)·sqrt(2)
        assert word_cosine("the boiler is loud", "a cold boiler") == 0.5
        assert word_cosine("the and of", "boiler") == 0.0
        assert similarities(["boiler loud", "boiler cold", "ferry"], None) == [0.5, 0.0]

    def test_of_vectors(self) -> None:
        class Fixed(HashEmbedder):
            def embed(
                self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document"
            ) -> NDArray[np.float32]:
                return np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32)

        assert similarities(["a", "b", "c"], Fixed()) == [0.6, 0.8]

    def test_of_fewer_than_two_nothing_is_embedded(self) -> None:
        assert similarities(["one"], None) == []
        assert similarities([], HashEmbedder()) == []


BOILER, FERRY = "the boiler is loud and cold", "the ferry to Bergen sails on Friday"


class TestSplit:
    def test_a_segment_has_what_stands_between_its_first_utterance_and_the_next(self) -> None:
        texts = [BOILER, BOILER, FERRY, FERRY]
        turns = [turn(0, "Welcome back.", "assistant")]
        for text in texts:
            turns += [turn(len(turns), text), turn(len(turns) + 1, "I see.", "assistant")]
        utterances = [item for item in turns if item.role == "user"]
        first, second = split(turns, utterances, None, 1)  # similarities 1 0 1: D = 2, a single depth
        assert [item.turn_id for item in first.utterances] == ["t1", "t3"]
        assert [item.turn_id for item in first.turns] == ["t1", "t2", "t3", "t4"]
        assert [item.turn_id for item in second.turns] == ["t5", "t6", "t7", "t8"]

    def test_without_utterances_there_is_no_segment(self) -> None:
        assert split([turn(0, "Hi")], [], None, 1) == []

    @given(st.lists(st.tuples(st.sampled_from([BOILER, FERRY, "tea"]), st.booleans()), max_size=16), st.integers(1, 2))
    def test_nothing_is_lost_or_told_twice(self, said: list[tuple[str, bool]], w: int) -> None:
        turns = [turn(place, text) for place, (text, _) in enumerate(said)]
        utterances = [item for item, (_, chosen) in zip(turns, said, strict=True) if chosen]
        found = split(turns, utterances, None, w)
        assert [item for segment in found for item in segment.utterances] == utterances
        start = turns.index(utterances[0]) if utterances else len(turns)
        assert [item for segment in found for item in segment.turns] == turns[start:]
        assert all(segment.utterances[0] == segment.turns[0] for segment in found)
