"""Lines and the spans they rest on."""

from __future__ import annotations

from datetime import UTC, datetime

from backread.construction.tying import tie
from backread.types import Source, Turn


def turn(turn_id: str, text: str, speaker: str | None = "Ann", caption: str | None = None) -> Turn:
    at = datetime(2024, 5, 1, tzinfo=UTC)
    return Turn(turn_id, "s", 0, "user", text, at, speaker=speaker, caption=caption, said_at=at)


MOVED = turn("t1", "Big news! I moved to Leeds last week.")
BIKE = turn("t2", "My bike got stolen yesterday. It was red.")
YES = turn("t3", "Yes!", "Bob")
PHOTO = turn("t4", "Look at this", "Bob", caption="a red canoe on a lake")
ALL = [MOVED, BIKE, YES, PHOTO]


def text(source: Source) -> str:
    return next(item for item in ALL if item.turn_id == source.turn_id).text[source.start : source.end]


def test_a_cited_turn_needs_one_word_in_common() -> None:
    (source,) = tie("Ann lives in Leeds now.", [MOVED], ALL)
    assert (source.turn_id, text(source)) == ("t1", "I moved to Leeds last week.")


def test_speakers_names_are_nothing_in_common() -> None:
    assert tie("Ann and Bob talked.", [turn("t9", "Ann and Bob, hello")], ALL) == ()
    assert tie("Ann", [turn("t9", "Ann, hello")], []) != ()  # there is nothing else to go by


def test_a_citation_that_shares_nothing_is_looked_for_elsewhere() -> None:
    assert [text(source) for source in tie("The red bike was stolen.", [YES], ALL)] == [
        "My bike got stolen yesterday.",
        "It was red.",
    ]


def test_without_a_citation_half_of_the_words_must_be_there_and_two_of_them() -> None:
    assert [text(source) for source in tie("Ann's bike was stolen.", [], ALL)] == ["My bike got stolen yesterday."]
    assert tie("Her bike needs new tyres, brakes and a bell.", [], ALL) == ()  # 1 of 5
    assert tie("A canoe, a paddle", [], [MOVED, BIKE, YES]) == ()
    assert tie("Leeds", [], ALL) != ()  # all of one


def test_what_several_turns_say_rests_on_all_of_them() -> None:
    assert [source.turn_id for source in tie("Moved to Leeds; bike stolen.", [MOVED, BIKE], ALL)] == ["t1", "t2"]


def test_a_caption_stands_for_its_turn() -> None:
    assert tie("Bob has a canoe.", [PHOTO], ALL) == (Source("t4", 0, len("Look at this")),)
    assert tie("A canoe.", [turn("t5", "", caption="a canoe")], []) == (Source("t5", 0, 0),)
