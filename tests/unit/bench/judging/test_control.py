"""The vague answer says nothing, in words that fit the question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.bench.judging.control import vague_answer
from backread.importers.base import Question
from backread.text.analysis import tokens


def question(text: str, answer: str | None = "Lisbon", trap: str | None = None) -> Question:
    return Question("q", "u", text, answer, "t", answer is None, None, (), (), trap)


@pytest.mark.parametrize(
    ("text", "answer", "vague"),
    [
        ("Where did Tove open her shop?", "Lisbon", "It was somewhere they know; Tove, open and shop"),
        ("Which city did Tove visit?", "Oslo", "It was somewhere they know; Tove and visit"),
        ("When did Noor visit the museum?", "7 May", "It was at some point in the past; Noor, visit and museum"),
        ("How long ago did Noor move?", "a year", "It was at some point in the past; Noor and move"),
        ("How long did the trip take?", "a week", "It went on for a while; trip and take"),
        ("How many bikes does Ivo own?", "3", "It was a certain number; bikes and Ivo"),
        ("Who taught Ivo to sail?", "Bo", "It was someone they know; taught, Ivo and sail"),
        ("Why did Ada quit?", "the pay", "It was for reasons of their own; Ada and quit"),
        ("Did Lena like coffee?", "Yes", "It depends on several things; Lena, like and coffee"),
        ("How did Ada cook the fish?", "baked", "It was done in a way that suited them; Ada, cook and fish"),
        ("What is Bo's dog called?", "Rex", "It was something they talked about; Bo's, dog and called"),
        ("What?", "Rex", "It was something they talked about; it"),
    ],
)
def test_the_form_fits_what_is_asked_for(text: str, answer: str, vague: str) -> None:
    assert vague_answer(question(text, answer)) == f"{vague} came up more than once."


def test_words_of_the_gold_answer_and_of_the_trap_are_left_out() -> None:
    tea = question("Did Lena prefer tea or coffee?", "coffee", "Tea, she said")
    assert vague_answer(tea) == "It depends on several things; Lena and prefer came up more than once."
    unknown = question("What colour is Lena's tractor?", None, "tractors")
    assert "tractor" not in vague_answer(unknown)


def test_characters_of_a_script_without_spaces_are_not_shown_twice() -> None:
    assert vague_answer(question("托维的店在哪里?")).endswith("; 托维, 的店 and 在哪 came up more than once.")


@given(st.text(max_size=60), st.text(max_size=20))
def test_the_same_every_time_and_no_topic_of_the_gold_answer(text: str, answer: str) -> None:
    asked = question(text, answer)
    vague = vague_answer(asked)
    assert vague == vague_answer(asked)
    topic = vague.split("; ", 1)[1].removesuffix(" came up more than once.")
    gold = {token.stem for token in tokens(answer) if not token.stop}
    assert not gold & {token.stem for token in tokens(topic) if not token.stop}
