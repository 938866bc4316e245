"""Keywords and names by rule."""

from __future__ import annotations

import pytest

from backread.construction.tagging import RuleTagger
from backread.models.base import Tagger


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I take the 7:10 bus to work", ("take", "7:10", "bus", "work")),
        (
            'We saw "The Third Man" at Café Sperling, it cost £12.50 for 5 km.',
            ("saw", "The Third Man", "Café Sperling", "cost", "£12.50", "5 km"),
        ),
        ("The New York Times called about Anna's dog", ("New York Times", "called", "Anna", "dog")),
        ("Wir treffen uns in der „Alten Post“ in Graz", ("treffen", "uns", "der", "Alten Post", "Graz")),
        ("I said I'm fine", ("said", "fine")),  # "I" is no name
        ("???", ()),
        ("", ()),
    ],
)
def test_tags_are_names_numbers_quotes_and_words_as_they_are_written(text: str, expected: tuple[str, ...]) -> None:
    found = RuleTagger().tag([text])
    assert set(expected) <= set(found)
    assert [tag for tag in found if tag in expected] == list(expected)


def test_keywords_are_those_the_texts_around_have_not() -> None:
    around = ["boiler noise again", "boiler noise today", "boiler noise"]
    words = "boiler noise valve washer gasket piston thermostat flue burner"
    # Eight of nine words are taken: of "boiler" and "noise", in every text, one is left out, the later one.
    assert RuleTagger().tag([words], around) == tuple(words.replace(" noise", "").split())


def test_each_tag_is_there_once_in_the_order_it_appears() -> None:
    assert RuleTagger().tag(["Leeds and leeds again", "we like Leeds"]) == ("Leeds", "like")


def test_is_a_tagger() -> None:
    tagger = RuleTagger()
    assert isinstance(tagger, Tagger)
    assert tagger.name == "rules-1"
    assert len(tagger.tag([" ".join(f"{number}.5" for number in range(99))])) == 24
