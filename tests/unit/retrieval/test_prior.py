"""A session's share in the score of its turns."""

from __future__ import annotations

import numpy as np

from backread.retrieval.prior import session_prior

NAN = float("nan")


def prior(scores: list[float], session: list[int]) -> list[float]:
    out = session_prior(np.array(scores, dtype=np.float32), np.array(session, dtype=np.int32))
    assert out.dtype == np.float32
    return [float(value) for value in out]


def test_nothing_gives_nothing() -> None:
    assert prior([], []) == []


def test_each_turn_gets_the_best_of_its_session() -> None:
    assert prior([2, 4, 5, 1, 9, -3], [0, 0, 1, 1, 1, 2]) == [4, 4, 9, 9, 9, -3]


def test_numbers_of_sessions_may_be_left_out() -> None:
    assert prior([2, 1, 7], [3, 3, 8]) == [2, 2, 7]


def test_what_has_no_score_yet_takes_that_of_the_others() -> None:
    assert prior([NAN, 0.5, NAN], [0, 0, 0]) == [0.5, 0.5, 0.5]


def test_a_session_without_a_score_has_none() -> None:
    first, *rest = prior([NAN, NAN, 1], [0, 0, 1])
    assert np.isnan([first, rest[0]]).all()
    assert rest[1] == 1
