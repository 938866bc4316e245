"""Which turns of a session say something, and which are greetings, thanks or said before."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from backread.construction.utterances import anchors, is_chatter, key_utterances
from backread.types import Turn

STORED = datetime(2026, 1, 1, tzinfo=UTC)


def turn(place: int, text: str, **given: Any) -> Turn:
    fields: dict[str, Any] = {"turn_id": f"t{place}", "session_id": "s", "position": place, "role": "user"}
    return Turn(**(fields | {"text": text, "stored_at": STORED} | given))


def kept(*texts: str, **given: Any) -> list[str]:
    return [item.text for item in key_utterances([turn(place, text, **given) for place, text in enumerate(texts)])]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Greetings, farewells, thanks and acknowledgements, whole.
        ("Hi there!", True),
        ("Good morning, how are you?", True),
        ("Ok, thanks a lot.", True),
        ("THANK YOU SO MUCH!!", True),
        ("Sounds good", True),
        ("That’s great", True),
        ("bye bye, take care", True),
        ("¡Hola, buenos días!", True),
        ("Vielen Dank, tschüß!", True),
        ("D'accord, merci beaucoup", True),
        ("thanks 🙏", True),
        # Neither letter nor digit.
        ("👍", True),
        ("?!", True),
        ("", True),
        # Something is said.
        ("No", False),
        ("Ok, and my cat?", False),
        ("Thanks, it was the fuse", False),
        ("谢谢你", False),
        ("ok ok ok ok ok ok ok", False),  # seven words
        # Never dropped: a digit, an address, a name.
        ("ok 7", False),
        ("Thanks, Marta!", False),
        ("Bye. See you in Leeds", False),
        ("ok www.example.org", False),
        # Capitals of the lexicon, of sentences and of "I" are no names.
        ("Good Morning", True),
        ("Great. Thanks! OK", True),
        ("Ok, I see", True),
    ],
)
def test_chatter(text: str, expected: bool) -> None:
    assert is_chatter(text) is expected


@pytest.mark.parametrize(
    ("earlier", "later", "dropped"),
    [
        ("I would like a table for us near the window", "a table for us near the window", True),  # in a row
        ("I would like a table for us near the window", "near the window a table", False),  # not in a row
        # {we, want, to, go, hiking, on, the, old, path} and one word more: 9 of 10 in common, "really" says nothing
        ("we want to go hiking on the old path", "we really want to go hiking on the old path", False),
        ("we want to go hiking on the old path", "we just want to go hiking on the old path", True),
        # A content word of its own is news, however much is the same.
        (
            "i want to book the early boat to the small island",
            "i want to book the late boat to the small island",
            False,
        ),
        # So is a negation.
        (
            "i am going to the party with my friends tonight",
            "i am not going to the party with my friends tonight",
            False,
        ),
        ("i don't think it is broken", "it is broken", False),
        # 3 of 5 words in common.
        ("my knee hurts", "my left knee hurts badly", False),
        # Never dropped.
        ("we saw it in Leeds", "we saw it in Leeds", False),
        ("it costs 40", "it costs 40", False),
    ],
)
def test_restatements(earlier: str, later: str, dropped: bool) -> None:
    assert kept(earlier, "what else is there to do", later) == [
        earlier,
        "what else is there to do",
        *([] if dropped else [later]),
    ]


def test_only_the_same_speaker_restates() -> None:
    said = "the boiler is loud again"
    turns = [turn(0, said, speaker="Ann"), turn(1, said, speaker="Bob"), turn(2, said, speaker="Ann")]
    assert [item.turn_id for item in key_utterances(turns)] == ["t0", "t1"]


def test_users_are_anchors_beside_an_assistant() -> None:
    turns = [turn(0, "my boiler is loud"), turn(1, "bleed the radiators", role="assistant"), turn(2, "the left one")]
    assert [item.turn_id for item in anchors(turns)] == ["t0", "t2"]


def test_everybody_is_an_anchor_between_people() -> None:
    turns = [turn(0, "my boiler is loud", role="participant"), turn(1, "so is mine", role="participant")]
    assert [item.turn_id for item in key_utterances(turns)] == ["t0", "t1"]


def test_without_people_every_turn_is_an_anchor() -> None:
    turns = [turn(0, "backup done", role="system"), turn(1, "disk full", role="tool")]
    assert [item.turn_id for item in key_utterances(turns)] == ["t0", "t1"]


def test_a_caption_is_part_of_its_turn() -> None:
    turns = [turn(0, "Wow!", caption="a red bike by a canal"), turn(1, "Wow!")]
    assert [item.turn_id for item in key_utterances(turns)] == ["t0"]


def test_a_turn_without_words_is_dropped_and_the_order_stays() -> None:
    assert kept("Hello", "the cat is ill", "", "she eats nothing", "ok thanks") == [
        "the cat is ill",
        "she eats nothing",
    ]
