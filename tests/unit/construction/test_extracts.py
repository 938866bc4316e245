"""Entries of sessions without a model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from backread.construction.episodes import Representation, entry_lines
from backread.construction.extracts import extract_maker
from backread.text.tokens import EstimateCounter
from backread.types import EntryDraft, Session, Turn

NOON = datetime(2021, 3, 10, 18, tzinfo=UTC)


def turn(place: int, text: str, speaker: str | None = "Ann") -> Turn:
    at = NOON + timedelta(minutes=place)
    return Turn(f"t{place}", "s1", place, "user", text, NOON, speaker=speaker, said_at=at)


def entry(turns: Sequence[Turn], representation: Representation = "episode") -> EntryDraft:
    session = Session("s1", len(turns), NOON, NOON)
    (made,) = extract_maker(representation, strategy="mine")(session, turns).entries
    return made


TALK = [
    turn(1, "Hi Bob! Last Tuesday I moved to Leeds with my cat Miso."),
    turn(2, "Wow, Leeds! How does Miso like the flat?", "Bob"),
    turn(3, "Miso sleeps all day. The flat is in York Street. We signed in May 2020."),
]


def test_a_page_has_names_times_topics_and_sentences_word_for_word() -> None:
    made = entry(TALK)
    assert (made.entry_id, made.kind, made.model) == ("episode-extract:s1", "episode-extract", None)
    assert [source.turn_id for source in made.sources] == ["t1", "t2", "t3"]
    assert [item["name"] for item in made.data["entities"]] == ["Miso", "Leeds", "York Street"]
    assert [item["text"] for item in made.data["times"]] == ["Last Tuesday", "May 2020"]
    assert made.data["topics"][:3] == ["Miso", "Leeds", "flat"]  # in 3, 2 and 2 turns, the first said first
    texts = {turn.turn_id: turn.text for turn in TALK}
    for item in (*made.data["times"], *made.data["sentences"]):
        assert texts[item["turn_id"]][item["start"] : item["end"]] == item["text"]


def test_lines_name_speaker_and_turn() -> None:
    lines = entry_lines(entry(TALK).data)
    assert lines[1].text == "Names: Miso; Leeds; York Street"
    assert ("Ann: The flat is in York Street.", ("t3",)) in lines


def test_key_sentences_say_something_and_fit() -> None:
    filler = [turn(place, "Wow! Thanks so much! That is great. Haha, okay.", "Bob") for place in range(10, 60)]
    said = [
        turn(place, f"My {place}th painting shows the harbour of Bergen at {place} o'clock.") for place in range(60, 99)
    ]
    made = entry([*filler, *said])
    sentences = [item["text"] for item in made.data["sentences"]]
    assert sentences
    assert all("painting" in text for text in sentences)
    assert EstimateCounter().count("\n".join(f"Ann: {text}" for text in sentences)) <= 320
    order = [item["turn_id"] for item in made.data["sentences"]]
    assert order == sorted(order)


def test_a_question_says_less_than_a_statement() -> None:
    long = [turn(place, f"Number {place} of the red canoes is being repaired by the harbour.") for place in range(40)]
    asked = turn(99, "Is number 7 of the red canoes being repaired by the harbour?", "Bob")
    assert "t99" not in [item["turn_id"] for item in entry([*long, asked]).data["sentences"]]


def test_a_script_without_case_has_topics_and_sentences() -> None:  # SEM-02
    made = entry([turn(1, "番茄需要阳光。我阿姨说水壶在花园里。"), turn(2, "番茄很好。")])
    assert made.data["entities"] == []
    assert made.data["topics"][0] == "番茄"
    assert [item["text"] for item in made.data["sentences"]] == [
        "番茄需要阳光。",
        "我阿姨说水壶在花园里。",
        "番茄很好。",
    ]


def test_a_summary_has_sentences_only() -> None:
    made = entry(TALK, "summary")
    assert made.kind == "summary-extract"
    assert set(made.data) == {"sentences", "session_id", "session_time", "participants"}


def test_a_graph_has_who_speaks_of_what_and_what_stands_together() -> None:
    made = entry(TALK, "graph")
    lines = {line.text: line.turn_ids for line in entry_lines(made.data)}
    assert lines["Ann – mentions – Miso"] == ("t1", "t3")
    assert lines["Bob – mentions – flat"] == ("t2",)
    assert lines["Miso – with – Leeds"] == ("t1",)


def test_a_session_without_words_has_an_entry() -> None:
    assert entry([turn(1, "??")]).index_text == "2021-03-10 (Wednesday): Ann"


ODD: Any = st.text(max_size=200) | st.lists(
    st.sampled_from(["Hey Bob!", "I saw Rome in May 2020.", "why?", "\ud800", "\n", "Dr. X's", "番茄。", "x " * 70])
).map(" ".join)


@given(st.lists(ODD, min_size=1, max_size=5))
def test_any_text_gives_the_same_entry_twice_and_spans_that_hold(texts: list[str]) -> None:
    turns = [turn(place, text) for place, text in enumerate(texts)]
    for representation in ("episode", "summary", "graph"):
        made = entry(turns, representation)
        assert made == entry(turns, representation)
        for item in (*made.data.get("times", ()), *made.data.get("sentences", ())):
            text = texts[int(item["turn_id"][1:])][item["start"] : item["end"]]
            assert " ".join(text.split()) == " ".join(item["text"].split())
