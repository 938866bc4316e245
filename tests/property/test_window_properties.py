"""Whatever was found: windows hold it, stay in their session, and none is longer or shorter than it should be."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from backread.retrieval.windows import LONGEST, RADIUS, STRIDE, history_windows, windows


@st.composite
def sessions_with_hits(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Sizes of sessions, and hits as units of the whole history."""
    sizes = draw(st.lists(st.integers(1, 60), min_size=1, max_size=5))
    return sizes, draw(st.lists(st.integers(0, sum(sizes) - 1), max_size=60))


@st.composite
def session_with_hits(draw: st.DrawFn) -> tuple[int, list[int]]:
    size = draw(st.integers(1, 80))
    return size, draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=40))


@given(session_with_hits())
def test_every_hit_and_what_is_near_it_is_in_a_window(given_: tuple[int, list[int]]) -> None:
    size, hits = given_
    near = {place for hit in hits for place in range(max(0, hit - RADIUS), min(size, hit + RADIUS + 1))}
    assert {place for window in windows(hits, size) for place in window} == near


@given(session_with_hits())
def test_windows_have_at_most_eight_places_and_at_least_two(given_: tuple[int, list[int]]) -> None:
    size, hits = given_
    for window in windows(hits, size):
        assert min(2, size) <= len(window) <= LONGEST


@given(session_with_hits())
def test_windows_come_in_order_and_share_one_place_where_a_span_was_cut(given_: tuple[int, list[int]]) -> None:
    size, hits = given_
    shaped = windows(hits, size)
    for before, after in pairwise(shaped):
        shared = before.stop - after.start
        assert shared <= LONGEST - STRIDE == 1
        assert after.stop > before.stop  # none lies inside the one before
        if shared == 1:
            assert len(before) == LONGEST


@given(session_with_hits())
def test_a_span_has_as_few_windows_as_cover_it(given_: tuple[int, list[int]]) -> None:
    size, hits = given_
    spans: list[list[int]] = []
    for window in windows(hits, size):
        if spans and window.start < spans[-1][1]:
            spans[-1] = [spans[-1][0], window.stop, spans[-1][2] + 1]
        else:
            spans.append([window.start, window.stop, 1])
    for start, stop, count in spans:
        length = stop - start
        assert count == (1 if length <= LONGEST else 1 + -(-(length - LONGEST) // STRIDE))


@given(session_with_hits())
def test_neither_order_nor_repeats_matter(given_: tuple[int, list[int]]) -> None:
    size, hits = given_
    assert windows(hits, size) == windows(hits[::-1] + hits, size)


@given(sessions_with_hits())
def test_no_window_crosses_sessions(given_: tuple[list[int], list[int]]) -> None:
    sizes, hits = given_
    numbers = [2 * number for number, size in enumerate(sizes) for _ in range(size)]
    shaped = history_windows(np.array(numbers, np.int32), hits)
    assert all(len({numbers[unit] for unit in window}) == 1 for window in shaped)
    assert set(hits) <= {unit for window in shaped for unit in window}
    assert [window.start for window in shaped] == sorted(window.start for window in shaped)
    start, expected = 0, []
    for size in sizes:
        own = [hit - start for hit in hits if start <= hit < start + size]
        expected += [range(start + window.start, start + window.stop) for window in windows(own, size)]
        start += size
    assert shaped == expected
