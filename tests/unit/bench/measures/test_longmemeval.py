"""LongMemEval's own metrics: what is odd about them is kept, under their own names."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.bench.measures.longmemeval import LmeScores, ndcg_lme, recall_all_lme, recall_any_lme, turn_to_session
from backread.bench.measures.names import session_ranking
from backread.bench.measures.ndcg import ndcg
from backread.bench.measures.recall import recall
from backread.errors import InvalidInputError

SESSION_OF = {f"s{session}:{turn}": f"s{session}" for session in range(1, 5) for turn in range(1, 4)}
TURNS = list(SESSION_OF)


def test_ranks_1_and_2_both_count_in_full() -> None:
    assert ndcg_lme(["a", "x"], ["a"], 5) == ndcg_lme(["x", "a"], ["a"], 5) == 1.0
    assert ndcg(["x", "a"], ["a"], 5) == pytest.approx(0.63093, abs=1e-5)
    # gold at 2 and 4: 1 + 1/log2 4 = 1.5; ideal for three gold items: 1 + 1 + 1/log2 3 = 2.63093.
    assert ndcg_lme(["x", "a", "y", "b"], ["a", "b", "c"], 4) == pytest.approx(1.5 / 2.63093, abs=1e-5)
    # The ideal is cut at k as well: 1.5 of 2 with two places.
    assert ndcg_lme(["x", "a", "y", "b"], ["a", "b", "c"], 2) == 0.5


def test_any_and_all_are_not_a_share() -> None:
    assert (recall_any_lme(["a", "x"], ["a", "b"], 2), recall_all_lme(["a", "x"], ["a", "b"], 2)) == (1.0, 0.0)
    assert (recall_any_lme(["x"], ["a"], 1), recall_all_lme(["b", "a"], ["a", "b"], 2)) == (0.0, 1.0)


# EVL-05
def test_without_gold_they_are_undefined() -> None:
    assert recall_any_lme(["a"], [], 1) is None
    assert recall_all_lme(["a"], [], 1) is None
    assert ndcg_lme(["a"], [], 1) is None
    assert turn_to_session(["s1:1"], [], 1, SESSION_OF) is None


def test_turns_are_read_until_there_are_k_sessions() -> None:
    ranked = ["s1:1", "s1:2", "s1:3", "s2:1", "s3:1"]
    # k = 1: one turn, s1. k = 2: four turns are read before the second session.
    assert turn_to_session(ranked, ["s2:3"], 1, SESSION_OF) == LmeScores(0.0, 0.0, 0.0)
    # Of the three turns of s2 one is read, at rank 4: 1/log2 4 = 0.5; ideal 1 + 1 + 1/log2 3 = 2.63093.
    scores = turn_to_session(ranked, ["s2:3"], 2, SESSION_OF)
    assert scores == LmeScores(1.0, 1.0, pytest.approx(0.5 / 2.63093, abs=1e-5))  # type: ignore[arg-type]
    # s4 isn't reached: any, not all.
    scores = turn_to_session(ranked, ["s2:3", "s4:1"], 3, SESSION_OF)
    assert scores is not None
    assert scores[:2] == (1.0, 0.0)


def test_a_ranking_that_ends_early_counts_against_the_whole_corpus() -> None:
    # Two sessions of the five asked for; both turns are of the gold session's three or before them.
    scores = turn_to_session(["s1:1", "s2:1"], ["s2:1", "s2:2"], 5, SESSION_OF)
    assert scores == LmeScores(1.0, 1.0, pytest.approx(1 / 2.63093, abs=1e-5))  # type: ignore[arg-type]
    assert turn_to_session([], ["s2:1"], 5, SESSION_OF) == LmeScores(0.0, 0.0, 0.0)


def test_more_places_than_turns_are_no_fault() -> None:
    scores = turn_to_session(TURNS, ["s4:1"], 50, SESSION_OF)
    # All twelve turns are read; those of s4 are at ranks 10 to 12.
    expected = sum(1 / math.log2(rank) for rank in (10, 11, 12)) / (2 + 1 / math.log2(3))
    assert scores == LmeScores(1.0, 1.0, pytest.approx(expected))  # type: ignore[arg-type]


@pytest.mark.parametrize(("ranked", "gold"), [(["s9:1"], ["s1:1"]), (["s1:1"], ["s9:1"])])
def test_a_turn_outside_the_corpus_is_refused(ranked: list[str], gold: list[str]) -> None:
    with pytest.raises(InvalidInputError, match="'s9:1' has no session"):
        turn_to_session(ranked, gold, 1, SESSION_OF)


def test_a_turn_ranked_twice_or_a_cut_off_of_0_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="more than once"):
        turn_to_session(["s1:1", "s1:1"], ["s1:1"], 1, SESSION_OF)
    with pytest.raises(InvalidInputError, match="at least 1"):
        turn_to_session(["s1:1"], ["s1:1"], 0, SESSION_OF)


@given(st.permutations(TURNS), st.sets(st.sampled_from(TURNS), min_size=1, max_size=5), st.integers(1, 12))
def test_sessions_by_their_best_turn_give_the_same_any_and_all(ranked: list[str], gold: set[str], k: int) -> None:
    scores = turn_to_session(ranked, gold, k, SESSION_OF)
    assert scores is not None
    share = recall(session_ranking(ranked, SESSION_OF), {SESSION_OF[turn_id] for turn_id in gold}, k)
    assert share is not None
    assert scores[:2] == (float(share > 0), float(share == 1))
    assert 0 <= scores.ndcg <= 1 + 1e-12
