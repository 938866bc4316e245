"""A session's share in the score of its turns, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from backread.retrieval.prior import session_prior


def prior(scores: list[float], session: list[int], best: int = 3) -> list[float]:
    out = session_prior(np.array(scores, dtype=np.float32), np.array(session, dtype=np.int32), best)
    assert out.dtype == np.float32
    return [float(value) for value in out]


def test_nothing_gives_nothing() -> None:
    assert prior([], []) == []


def test_each_session_gets_the_mean_of_its_best() -> None:
    # Session 0: (4 + 2) / 2; session 1: (9 + 5) / 2, its 1 is not among the two best.
    assert prior([2, 4, 5, 1, 9], [0, 0, 1, 1, 1], best=2) == pytest.approx([3, 3, 7, 7, 7])


def test_a_shorter_session_takes_what_it_has() -> None:
    assert prior([2, 8, 4], [0, 1, 1], best=3) == pytest.approx([2, 6, 6])


def test_one_turn_is_its_own_session() -> None:
    assert prior([-1.5], [4]) == pytest.approx([-1.5])


def test_sessions_need_not_start_at_0_nor_be_ordered() -> None:
    assert prior([1, 10, 3], [7, 2, 7], best=1) == pytest.approx([3, 10, 3])
