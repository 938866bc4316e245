"""Names of speakers in questions."""

from __future__ import annotations

import pytest

from backread.retrieval.speaker import named_speakers, without_names


@pytest.mark.parametrize(
    ("question", "speakers", "named"),
    [
        ("What did Mia buy?", ["Mia", "Bob"], ("Mia",)),
        ("What did MIA buy?", ["Mia"], ("Mia",)),
        ("what is mia's job", ["Mia"], ("Mia",)),
        ("what is Mia’s job", ["Mia"], ("Mia",)),
        ("Is James' car red?", ["James"], ("James",)),
        ("Who went to Miami?", ["Mia"], ()),
        ("What about the amia?", ["Mia"], ()),
        ("Mia-Louise's car", ["Mia"], ("Mia",)),  # a hyphen ends a word
        ("Did Bob tell Mia?", ["Mia", "Bob"], ("Mia", "Bob")),  # in the order of the speakers
        ("Did anyone call?", ["Mia", "Bob"], ()),
        ("Where does Zoë live?", ["Zoë"], ("Zoë",)),
        ("Where does ZOË live?", ["Zoë"], ("Zoë",)),
        ("Где живёт Оля?", ["Оля"], ("Оля",)),
        ("What did D.J. (2) say?", ["D.J. (2)"], ("D.J. (2)",)),
        ("What did DxJx (2) say?", ["D.J. (2)"], ()),
        ("What did Ann say?", ["Ann Lee", "Ole Ann"], ("Ann Lee",)),  # the first name is enough
        ("What did Ann Lee say?", ["Ann Lee", "Ann Roe"], ("Ann Lee", "Ann Roe")),
        ("What did Dr. Roe say?", ["Dr. Lee", "Dr. Roe", "dr Poe"], ("Dr. Roe",)),
        ("What will Will do in May?", ["Will", "May"], ("Will", "May")),
        ("Will she, or may he? Will he?", ["Will", "May"], ("Will",)),
        ("What does the user or the assistant say?", ["user", "assistant", "User 1"], ()),
        ("a+b a*b [x] (y | z", ["a+b", "[x", "(y", "|", "\\"], ("a+b", "[x", "(y", "|")),
        ("Was Ann Lee there?", ["Ann", "Ann Lee"], ("Ann", "Ann Lee")),
        ("Anyone?", ["", " ", "\n"], ()),
        ("Is my order late?", ["Order Manager", "Order"], ()),
        ("When does order 7 come?", ["Order Manager"], ()),
        ("Order 7 is late", ["Order Manager"], ()),  # a capital that the sentence gives it
        ("What did the Order Manager say?", ["Order Manager"], ("Order Manager",)),
        ("Ann's job", ["Ann Lee"], ("Ann Lee",)),
        ("What about travel?", ["travel"], ("travel",)),
        ("", ["Mia"], ()),
    ],
)
def test_named_speakers(question: str, speakers: list[str], named: tuple[str, ...]) -> None:
    assert named_speakers(question, speakers) == named


@pytest.mark.parametrize(
    ("question", "names", "left"),
    [
        ("What did Mia buy in Miami?", ["Mia"], "What did buy in Miami?"),
        ("What is Mia's brother called?", ["Mia"], "What is brother called?"),
        ("Did Ann Lee meet Ann?", ["Ann", "Ann Lee"], "Did meet ?"),  # the longer name first
        ("Mia?", ["Mia"], "Mia?"),
        ("Mia's job", ["Mia"], "Mia's job"),  # one word would be left
        ("What did mia say", [], "What did mia say"),
        ("Tell me about Mia", ["Mia"], "Tell me about Mia"),  # nothing else to search for
        ("What did Mia say to Bob?", ["Mia", "Bob"], "What did Mia say to Bob?"),
        ("best travel plans", ["travel"], "best travel plans"),  # written small it may be a word
        ("What did Ann buy then?", ["ann"], "What did buy then?"),
    ],
)
def test_without_names(question: str, names: list[str], left: str) -> None:
    assert without_names(question, names) == left
