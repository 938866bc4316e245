"""Cues of turns and questions."""

from __future__ import annotations

import pytest

from backread.text.cues import ASKS, TELLS_TIME, NamedDate, asks_when, named_dates, turn_cues


@pytest.mark.parametrize(
    ("text", "cues"),
    [
        ("", 0),
        ("I bought a kettle.", 0),
        ("Did you buy it?", ASKS),
        ("Did you buy it? \n", ASKS),
        ("买了吗？", ASKS),
        ("هل اشتريتها؟", ASKS),
        ("Really? I doubt it.", 0),
        ("I went there yesterday.", TELLS_TIME),
        ("YESTERDAY", TELLS_TIME),
        ("We met last Tuesday", TELLS_TIME),
        ("We met last summer", TELLS_TIME),
        ("two weeks ago", TELLS_TIME),
        ("a couple of months back", TELLS_TIME),
        ("see you next few days", TELLS_TIME),
        ("on the 3rd", TELLS_TIME),
        ("in 1998", TELLS_TIME),
        ("in 2024, did you?", TELLS_TIME | ASKS),
        ("room 1850", 0),
        ("we could march, in March", TELLS_TIME),
        ("You may go", 0),
        ("in May", TELLS_TIME),
        ("the yesterdays", 0),
        ("lastly", 0),
    ],
)
def test_turn_cues(text: str, cues: int) -> None:
    assert turn_cues(text) == cues


def test_cues_of_a_long_turn_are_quick() -> None:
    assert turn_cues("word " * 200_000 + "ago") == TELLS_TIME
    assert turn_cues("a" * 1_000_000 + "?") == ASKS


@pytest.mark.parametrize(
    "question",
    [
        "When did she leave?",
        "so WHEN was it",
        "What time is it?",
        "what year was that",
        "How long did it take?",
        "Which month was it?",
        "what date",
    ],
)
def test_asks_when(question: str) -> None:
    assert asks_when(question)


@pytest.mark.parametrize(
    "question", ["", "Whenever you like", "What did she do?", "How longing it is", "Which weekend?"]
)
def test_asks_for_something_else(question: str) -> None:
    assert not asks_when(question)


@pytest.mark.parametrize(
    ("question", "dates"),
    [
        ("What happened in May 2023?", (NamedDate(5, 2023),)),
        ("On 7 May 2023, who called?", (NamedDate(5, 2023, 7),)),
        ("On May 7th, who called?", (NamedDate(5, None, 7),)),
        ("On May 7, 2023, who called?", (NamedDate(5, 2023, 7),)),
        ("On the 21st of August 1999?", (NamedDate(8, 1999, 21),)),
        ("Between January and March 2020?", (NamedDate(1, 2020), NamedDate(3, 2020))),
        ("Which 3 things did I buy in May?", (NamedDate(5),)),  # a number elsewhere is no day
        ("In December, was it 45 degrees?", (NamedDate(12),)),
        ("On December 45?", (NamedDate(12),)),  # no month has 45 days
        ("In May, in May and in May?", (NamedDate(5),)),
        ("What may I eat on the march?", ()),
        ("Maybe Marching?", ()),
        ("What happened in 2023?", ()),
        ("", ()),
    ],
)
def test_named_dates(question: str, dates: tuple[NamedDate, ...]) -> None:
    assert named_dates(question) == dates
