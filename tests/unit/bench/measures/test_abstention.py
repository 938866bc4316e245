"""Answers to questions that have none: a refusal is right, a refusal that goes on to the trap is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.bench.measures.abstention import abstained

QUESTION = "What colour is Lena's tractor?"


# EVL-02
@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("red", 0.0),
        ("It was never mentioned.", 1.0),
        ("There is no record of Lena owning a tractor.", 1.0),
        ("I do not know", 1.0),
        ("Not mentioned, but probably red", 0.0),
    ],
)
def test_a_refusal_is_right_and_the_trap_is_wrong(reply: str, right: float) -> None:
    assert abstained(reply, QUESTION, "red") == right


# EVL-02
@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("not mentioned", 1.0),
        ("I couldn’t find where Max parked.", 1.0),
        ("Max parked on Elm Street.", 0.0),
        ("The conversation doesn't say. Perhaps Elm Street.", 0.0),
        ("No information available", 1.0),
    ],
)
def test_a_question_whose_answer_is_that_there_is_none(reply: str, right: float) -> None:
    assert abstained(reply, "Where did Max park?", "Elm Street") == right


@pytest.mark.parametrize(
    "reply",
    [
        "Unknown.",
        "N/A",
        "That isn't specified.",
        "It hasn't been mentioned.",
        "It was not explicitly stated.",
        "I'm not sure.",
        "I am unsure",
        "The colour is unclear.",
        "It isn't really clear.",
        "You have never told me.",
        "You didn't say.",
        "There's no mention of it.",
        "No specific details about it.",
        "The context does not contain the colour.",
        "I don't have any information on that.",
        "There isn't enough evidence; not enough information.",
        "It cannot be determined from the messages.",
        "I am unable to answer this.",
        "I have no idea.",
        "No such tractor.",
        "I don't think that was ever mentioned.",
        "Nothing is said about it.",
        "No one mentions it.",
        "None of the messages mention it.",
        "The provided evidence only shows a barn, never a tractor.",
        "The evidence says nothing of it.",
        "There is no record of a red tractor, a blue one, or a green one.",
        "LENA’S TRACTOR IS\n\nNOT   MENTIONED",
    ],
)
def test_many_ways_to_refuse(reply: str) -> None:
    assert abstained(reply, QUESTION, "red") == 1.0


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("Lena never owned a tractor.", 1.0),
        ("Lena doesn't have a tractor.", 1.0),
        ("She has no tractor.", 1.0),
        ("She does not own any tractor.", 1.0),
        ("It was Max, not Lena, who drove it.", 1.0),
        ("Lena does not own a red tractor.", 1.0),
        ("That was Max's.", 0.0),  # no negation: rules can't tell
        ("Lena has none of her own; the red tractor belongs to Max.", 0.0),  # repeats the trap
        ("She never liked it.", 0.0),  # denies nothing of the question
        ("No, Lena's tractor is red.", 0.0),
        ("No Lena's tractor is green", 0.0),
        ("not red", 0.0),
    ],
)
def test_a_corrected_premise_is_right_where_rules_can_tell(reply: str, right: float) -> None:
    assert abstained(reply, QUESTION, "red") == right


@pytest.mark.parametrize(
    "reply",
    [
        "Red, although it isn't mentioned.",
        "I don't know, red?",
        "It's not stated; I'd say red.",
        "Not mentioned - red",
        "Not known because it is red",
        "I'm not certain so red",
        "I do not know I guess red",
        "Unclear (red)",
        "Not mentioned\nred",
    ],
)
def test_the_trap_is_found_beside_a_refusal(reply: str) -> None:
    assert abstained(reply, QUESTION, "red") == 0.0


def test_half_of_the_trap_is_the_trap() -> None:
    question, trap = "What did Ada organise with the neighbours' cats?", "a noisy dog parade for cats"
    # Of noisy, dog, parade ("cats" is in the question) two are more than half, one is less.
    assert abstained("Not mentioned. A dog parade was.", question, trap) == 0.0
    assert abstained("Not mentioned. A dog with cats was.", question, trap) == 1.0


def test_a_trap_of_words_of_the_question_is_still_one() -> None:
    assert abstained("Not mentioned, but the tractor", QUESTION, "tractor") == 0.0


def test_a_trap_that_negates_takes_denials_out() -> None:
    question = "Will a permit be needed for the fair?"
    assert abstained("A permit is not needed for the fair.", question, "No") == 0.0
    assert abstained("A permit is not needed for the fair.", question, "Yes") == 1.0
    assert abstained("It isn't mentioned.", question, "No") == 1.0
    assert abstained("No", question, "No") == 0.0


def test_without_a_trap_a_refusal_is_enough() -> None:
    assert abstained("Not mentioned, but probably red", QUESTION) == 1.0
    assert abstained("red", QUESTION) == 0.0
    assert abstained("Not mentioned, but red", QUESTION, "…") == 1.0


def test_no_answer_is_unscored_and_an_empty_one_is_no_refusal() -> None:
    assert abstained(None, QUESTION, "red") is None
    assert abstained("", QUESTION, "red") == 0.0


@given(st.text(max_size=60), st.text(max_size=30), st.one_of(st.none(), st.text(max_size=20)))
def test_any_texts_have_a_score(reply: str, question: str, trap: str | None) -> None:
    value = abstained(reply, question, trap)
    assert value in (0.0, 1.0)
    if value == 1:
        assert abstained(reply, question) == 1 or trap is not None
