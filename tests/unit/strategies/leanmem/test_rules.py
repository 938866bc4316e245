"""The form without a model: how segments are routed, and the words it takes."""

from __future__ import annotations

import pytest
from leanmem_samples import turn

from backread.construction.segmentation import Segment
from backread.strategies.leanmem.routing import Attribute
from backread.strategies.leanmem.rules import (
    anchor_by_rule,
    attributes_in,
    gist_by_rule,
    route_by_rule,
    state_by_rule,
    tells_change,
)
from backread.text.tokens import EstimateCounter


def segment(*texts: str) -> Segment:
    turns = tuple(turn(place, text) for place, text in enumerate(texts))
    return Segment(turns, turns)


@pytest.mark.parametrize(
    ("texts", "action"),
    [
        (("I take the 7:10 bus to work",), "event"),
        (("Since Monday I cycle to work, no more bus",), "event"),
        (("I moved to Leeds", "it is lovely"), "event"),
        (("Ya no vivo en Zaragoza",), "event"),
        (("Seit gestern arbeite ich in Graz",), "event"),
        (("My favourite tea is oolong.",), "profile"),
        (("I'm a nurse.", "I have two cats. What about you?"), "profile"),
        (("Ich heiße Jonas.",), "profile"),
        (("My favourite tea is oolong.", "The shop was closed."), "record"),  # not every sentence is a description
        (("The plumber recommended a copper kettle.",), "record"),
        (("Did you move in 2019?",), "record"),  # it only asks
        (("- eggs\n- milk\n- 3 lemons",), "record"),  # a list, before the digit
        (("I moved to Leeds " + "and carried one box after the other " * 20,), "record"),  # more than a note holds
    ],
)
def test_the_first_rule_that_fits(texts: tuple[str, ...], action: str) -> None:
    assert route_by_rule(segment(*texts)).action == action


def test_an_image_makes_a_record() -> None:
    seen = turn(0, "I moved here today", caption="a red house")
    assert route_by_rule(Segment((seen,), (seen,))).action == "record"


def test_nothing_is_left_out_of_what_is_routed() -> None:
    routing = route_by_rule(segment("I moved to Leeds", "it is lovely"))
    assert [item.turn_id for item in routing.utterances] == ["t0", "t1"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My favourite tea is oolong. I'm going home.", [Attribute("favourite tea", "oolong")]),
        ("I'm a nurse", [Attribute("am", "a nurse")]),
        ("I'm so tired", []),
        ("I am waiting for you", []),
        ("I really love chess!", [Attribute("love", "chess")]),
        ("I live in Leeds", [Attribute("live in", "Leeds")]),
        ("Me llamo Inés", [Attribute("Me llamo", "Inés")]),
        ("J'aime le thé", [Attribute("J'aime", "le thé")]),
        ("Is my favourite tea really oolong?", []),
    ],
)
def test_attributes_are_words_of_the_sentence(text: str, expected: list[Attribute]) -> None:
    assert attributes_in(text) == expected


def test_change() -> None:
    assert tells_change("We no longer eat there")
    assert not tells_change("We eat there")


def test_an_event_says_all_that_was_said() -> None:
    assert (
        state_by_rule([turn(0, "I moved\nto Leeds"), turn(1, "Nice", speaker="Bob")])
        == "Ann: I moved to Leeds Bob: Nice"
    )


@pytest.mark.parametrize(
    ("text", "anchor"),
    [
        ("It was on 2021-03-07, at noon", "2021-03-07"),
        ("It was in March 2021", "2021-03"),
        ("Yesterday", ""),  # nothing is resolved
        ("From 2019 I lived there, in 2020 here", ""),
    ],
)
def test_only_a_date_that_is_said_is_an_anchor(text: str, anchor: str) -> None:
    assert anchor_by_rule([turn(0, text)]) == anchor


class TestGist:
    def test_is_what_says_most_in_order_of_telling(self) -> None:
        long = "The plumber recommended a copper kettle with a wooden handle and a whistle. " * 3
        assert gist_by_rule([turn(0, "Oh. We bought the kettle."), turn(1, "It is red.")]) == (
            "Oh. We bought the kettle. It is red."
        )
        found = gist_by_rule([turn(0, f"Oh well. {long}"), turn(1, "Hm.")])
        assert "copper kettle" in found
        assert EstimateCounter().count(found) <= 60

    def test_of_one_endless_sentence_is_its_beginning(self) -> None:
        found = gist_by_rule([turn(0, "word " * 500)])
        assert found.startswith("word word")
        assert EstimateCounter().count(found) <= 60

    def test_of_an_image_is_its_caption(self) -> None:
        assert gist_by_rule([turn(0, "", caption="a red house")]) == "a red house"
