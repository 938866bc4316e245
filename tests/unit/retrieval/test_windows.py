"""Windows around hits: worked by hand from radius 2, at most 8 places, stride 7."""

from __future__ import annotations

import numpy as np
import pytest

from backread.errors import InvalidInputError
from backread.retrieval.windows import history_windows, windows


@pytest.mark.parametrize(
    ("hits", "size", "expected"),
    [
        ([], 5, []),
        ([], 0, []),
        ([0], 1, [(0, 1)]),
        ([1], 2, [(0, 2)]),
        ([0], 9, [(0, 3)]),  # nothing before the first place
        ([8], 9, [(6, 9)]),
        ([4], 9, [(2, 7)]),
        ([4, 4, 4], 9, [(2, 7)]),
        ([7, 2], 10, [(0, 5), (5, 10)]),  # side by side, 4 and 5: not one
        ([2, 6], 9, [(0, 8), (7, 9)]),  # 0-4 and 4-8 share place 4: 9 places are 8 and 2
        ([2, 5], 8, [(0, 8)]),  # 8 places are one window
        ([2, 6, 10, 12], 15, [(0, 8), (7, 15)]),  # 15 places: a third window would hold place 14 alone
        ([2, 6, 10, 13], 16, [(0, 8), (7, 15), (14, 16)]),
        ([2, 6, 10, 14, 18, 19], 22, [(0, 8), (7, 15), (14, 22)]),  # 22 places: none for place 21 alone
        ([12, 16, 40], 50, [(10, 18), (17, 19), (38, 43)]),
    ],
)
def test_windows_of_a_session(hits: list[int], size: int, expected: list[tuple[int, int]]) -> None:
    assert [(window.start, window.stop) for window in windows(hits, size)] == expected


def test_other_shapes() -> None:
    assert windows([3, 5], 10, radius=0) == [range(3, 4), range(5, 6)]
    assert windows([4], 10, radius=4, longest=4, stride=2) == [range(4), range(2, 6), range(4, 8), range(6, 9)]
    assert windows([4], 10, radius=4, longest=3, stride=3) == [range(3), range(3, 6), range(6, 9)]


@pytest.mark.parametrize("hits", [[-1], [5], [0, 99]])
def test_a_hit_is_in_its_session(hits: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="outside a session of 5"):
        windows(hits, 5)
    with pytest.raises(InvalidInputError, match="outside a history of 5"):
        history_windows(np.zeros(5, np.int32), hits)


@pytest.mark.parametrize(
    ("radius", "longest", "stride"), [(-1, 8, 7), (2, 0, 7), (2, 8, 0), (2, 8, 9)], ids=["radius", "none", "0", "gaps"]
)
def test_shapes_that_leave_places_out(radius: int, longest: int, stride: int) -> None:
    with pytest.raises(InvalidInputError, match=f"radius {radius}, {longest} places and stride {stride}"):
        windows([0], 5, radius=radius, longest=longest, stride=stride)


def test_a_history_is_its_sessions_one_after_the_other() -> None:
    # Sessions 0, 2 and 5 (others are out of scope) at units 0-3, 4-5 and 6-15.
    sessions = np.array([0] * 4 + [2] * 2 + [5] * 10, np.int32)
    found = history_windows(sessions, [9, 3, 4, 13])
    # 3 reaches back to 1 and not on to 4; 4 stands alone in a session of two; 9 and 13 share unit 11: 7-15, 9 units.
    assert found == [range(1, 4), range(4, 6), range(7, 15), range(14, 16)]
    assert history_windows(sessions, []) == []
    assert history_windows(np.empty(0, np.int32), []) == []
