"""The names of measures: every name that is made has a meaning, and a level it belongs to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.bench.measures.names import (
    DESCRIPTIONS,
    answer_measures,
    coverage_measures,
    longmemeval_measures,
    ranking_measures,
    session_ranking,
    stem,
)
from backread.bench.records import ShownLine
from backread.errors import InvalidInputError
from backread.importers.base import Question

SESSION_OF = {"a1": "A", "a2": "A", "b1": "B", "b2": "B"}
QUESTION = Question("q", "u", "Where does Mina live?", "In Oslo; she moved", "open-domain", False, None, (), ())
ADVERSARIAL = replace(QUESTION, answer=None, question_type="adversarial", abstention=True, trap="Bergen")


def test_measures_of_a_ranking_have_their_level_and_cut_off() -> None:
    # Ranked x a b, gold a: found at rank 2; nDCG 1/log2 3 = 0.63093.
    assert ranking_measures(["x", "a", "b"], ["a"], (1, 5), "turn") == {
        "turn:R@1": 0.0,
        "turn:Success@1": 0.0,
        "turn:AllEvidence@1": 0.0,
        "turn:nDCG@1": 0.0,
        "turn:R@5": 1.0,
        "turn:Success@5": 1.0,
        "turn:AllEvidence@5": 1.0,
        "turn:nDCG@5": pytest.approx(0.63093, abs=1e-5),
        "turn:RR": 0.5,
    }
    assert set(ranking_measures([], ["a"], (3,), "session")) == {
        "session:R@3",
        "session:Success@3",
        "session:AllEvidence@3",
        "session:nDCG@3",
        "session:RR",
    }


# EVL-05
def test_without_gold_all_names_are_there_and_undefined() -> None:
    found = ranking_measures(["x"], [], (1, 5), "turn")
    assert len(found) == 9
    assert set(found.values()) == {None}
    official = longmemeval_measures(["a1"], [], (1, 5), SESSION_OF)
    assert len(official) == 12
    assert set(official.values()) == {None}


def test_sessions_stand_where_their_best_turn_stands() -> None:
    assert session_ranking(["b2", "a1", "b1", "a2"], SESSION_OF) == ("B", "A")
    assert session_ranking([], SESSION_OF) == ()
    with pytest.raises(InvalidInputError, match="'z' has no session"):
        session_ranking(["a1", "z"], SESSION_OF)


@given(st.permutations(sorted(SESSION_OF)))
def test_every_session_is_ranked_once(ranked: list[str]) -> None:
    sessions = session_ranking(ranked, SESSION_OF)
    assert sorted(sessions) == ["A", "B"]
    assert sessions[0] == SESSION_OF[ranked[0]]


def test_official_metrics_of_turns_and_of_sessions_from_turns() -> None:
    # k = 1: a1, wrong. k = 2: a1 and a2 are of one session, so b1 is read too; for turns b1 is beyond k.
    found = longmemeval_measures(["a1", "a2", "b1", "b2"], ["b1"], (1, 2), SESSION_OF)
    assert found == {
        "turn:recall_any_LME@1": 0.0,
        "turn:recall_all_LME@1": 0.0,
        "turn:nDCG_LME@1": 0.0,
        "turn2session:recall_any_LME@1": 0.0,
        "turn2session:recall_all_LME@1": 0.0,
        "turn2session:nDCG_LME@1": 0.0,
        "turn:recall_any_LME@2": 0.0,
        "turn:recall_all_LME@2": 0.0,
        "turn:nDCG_LME@2": 0.0,
        "turn2session:recall_any_LME@2": 1.0,
        "turn2session:recall_all_LME@2": 1.0,
        # b1 at rank 3: 1/log2 3; ideal b1 and b2: 2.
        "turn2session:nDCG_LME@2": pytest.approx(0.63093 / 2, abs=1e-5),
    }


def test_the_coverages_of_a_question() -> None:
    shown = [
        ShownLine(kind="verbatim", rank=0, sources=(("a1", 0, 4),)),
        ShownLine(kind="summary", rank=1, sources=(("b1", 0, None), ("b2", 0, None))),
    ]
    gold = {"a1": "grey cats", "b1": "a boat"}
    # Words: grey of grey and cat, boat of boat.
    assert coverage_measures(shown, "[1] grey\n[2] a boat", gold, ["A", "B"], SESSION_OF) == {
        "coverage:verbatim": pytest.approx(4 / 9 / 2),
        "coverage:claimed": 0.5,
        "coverage:words": 0.75,
        "session:coverage:claimed": 1.0,
    }
    assert set(coverage_measures(shown, "", {}, [], SESSION_OF).values()) == {None}


def test_answers_are_scored_by_the_rules_of_their_benchmark() -> None:
    # LoCoMo cuts gold at ";" in this category: "In Oslo". Elsewhere it is "in oslo she moved": 2 * 2 / (2 + 4).
    assert answer_measures("in Oslo", QUESTION, locomo=True) == {"F1": 1.0, "EM": 1.0}
    assert answer_measures("in Oslo", QUESTION, locomo=False) == {"F1": pytest.approx(2 / 3), "EM": 0.0}
    assert answer_measures(None, QUESTION, locomo=True) == {"F1": None, "EM": None}
    assert answer_measures("Oslo", replace(QUESTION, answer=None), locomo=False) == {"F1": None, "EM": None}
    with pytest.raises(InvalidInputError, match="no category"):
        answer_measures("Oslo", replace(QUESTION, question_type="multi-session"), locomo=True)


# EVL-02
def test_abstaining_is_a_line_of_its_own() -> None:
    refusal = "There is no record of that."
    assert answer_measures(refusal, ADVERSARIAL, locomo=True) == {"abstention:strict": 1.0, "abstention:phrases": 0.0}
    assert answer_measures("Not mentioned, but Bergen", ADVERSARIAL, locomo=True) == {
        "abstention:strict": 0.0,
        "abstention:phrases": 1.0,
    }
    assert answer_measures("Bergen", ADVERSARIAL, locomo=False) == {"abstention:strict": 0.0}
    assert answer_measures(None, ADVERSARIAL, locomo=False) == {"abstention:strict": None}
    assert answer_measures(refusal, QUESTION, locomo=True) == {"F1": 0.0, "EM": 0.0}


def test_every_name_has_a_meaning() -> None:
    made = {
        **ranking_measures(["a1"], ["a1"], (1, 10), "turn"),
        **ranking_measures(["a1"], ["a1"], (1,), "round"),
        **ranking_measures(["a1"], ["a1"], (1,), "entry"),
        **ranking_measures(["A"], ["A"], (5,), "session"),
        **longmemeval_measures(["a1"], ["a1"], (50,), SESSION_OF),
        **coverage_measures([], "", {}, [], SESSION_OF),
        **answer_measures("x", QUESTION, locomo=True),
        **answer_measures("x", ADVERSARIAL, locomo=True),
    }
    assert {stem(name) for name in made} == set(DESCRIPTIONS)
    assert all("\n" not in line and line for line in DESCRIPTIONS.values())


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("turn:R@5", "R"),
        ("session:AllEvidence@10", "AllEvidence"),
        ("turn:RR", "RR"),
        ("turn2session:nDCG_LME@3", "nDCG_LME"),
        ("session:coverage:claimed", "coverage:claimed"),
        ("coverage:words", "coverage:words"),
        ("F1", "F1"),
    ],
)
def test_stems(name: str, bare: str) -> None:
    assert stem(name) == bare


@pytest.mark.parametrize("name", ["turn:recall@5", "coverage", "turn:", "", "turn:turn:R@5", "R@5@5"])
def test_a_name_that_means_nothing_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="no measure"):
        stem(name)


def test_a_caption_is_said_but_not_shown_word_for_word() -> None:
    # The turn's text is shown whole: 1. Of its words and the caption's ("grey", "boat") two of four are in the block.
    shown = [ShownLine(kind="verbatim", rank=0, sources=(("a", 0, 9),))]
    measured = coverage_measures(
        shown, "Ann: red kites", {"a": "red kites"}, ["s"], {"a": "s"}, captions={"a": "a grey boat", "b": "other"}
    )
    assert measured["coverage:verbatim"] == 1.0
    assert measured["coverage:words"] == 0.5
