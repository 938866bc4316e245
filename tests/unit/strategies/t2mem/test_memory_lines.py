"""Memory lines, tied to turns, as evidence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from backread.rendering import render
from backread.strategies.t2mem.memory_lines import MemoryLine, as_evidence, read_lines
from backread.strategies.t2mem.observing import Observation
from backread.strategies.t2mem.schemas import Cached
from backread.types import Turn

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def turn(turn_id: str, text: str, day: int = 0) -> Turn:
    at = NOON + timedelta(days=day)
    return Turn(turn_id, f"s{day}", 0, "user", text, NOON, speaker="Ann", said_at=at)


SHOWN = Observation(
    "entries",
    (10, 2),
    (),
    {
        "10.1": turn("t5", "The bike is back, repaired for 40 euros.", 9),
        "2.1": turn("t1", "I moved to Leeds. My bike got stolen yesterday."),
        "2.2": turn("t2", "What a week."),
    },
)
EARLIER = {"1.7": turn("t0", "I will move in March.")}


def lines(*cache: tuple[str, list[str]]) -> tuple[list[MemoryLine], int]:
    return read_lines([Cached.model_validate({"text": text, "from": named}) for text, named in cache], SHOWN, EARLIER)


def test_a_line_rests_on_the_spans_that_support_it() -> None:
    ((line,), unknown) = lines(("Ann's bike was stolen on 2024-04-30.", ["2.1"]))
    (source,) = line.sources
    assert SHOWN.turns["2.1"].text[source.start : source.end] == "My bike got stolen yesterday."
    assert (list(line.turns), line.place, unknown) == (["2.1"], (2, 1), 0)


def test_sources_stand_in_the_order_of_the_history_not_of_their_labels() -> None:
    ((line,), _) = lines(("The stolen bike was repaired for 40 euros.", ["10.1", "2.1"]))
    assert [source.turn_id for source in line.sources] == ["t1", "t5"]
    assert list(line.turns) == ["2.1", "10.1"]


def test_labels_that_were_not_shown_are_counted_and_the_line_is_looked_for() -> None:
    ((line,), unknown) = lines(("Ann moved to Leeds.", ["7.7", "3"]))
    assert ([source.turn_id for source in line.sources], unknown) == (["t1"], 2)


def test_a_line_may_rest_on_what_an_earlier_one_rests_on() -> None:
    ((line,), unknown) = lines(("Ann wanted to move in March.", ["1.7"]))
    assert ([source.turn_id for source in line.sources], unknown) == (["t0"], 0)
    ((line,), _) = lines(("Ann wanted to move in March.", []))  # but isn't looked for there
    assert line.sources == ()


def test_blank_lines_say_nothing() -> None:
    assert lines(("", []), ("…", ["2.1"]), ("  \n", [])) == ([], 0)


def test_evidence_stands_where_its_turns_do_and_is_ranked_as_it_was_written() -> None:
    (made, _) = lines(
        ("The bike was repaired for 40 euros.", ["10.1"]),
        ("Ann likes olives.", ["2.1"]),
        ("Ann moved to Leeds.", ["2.1"]),
        ("Ann moved  to leeds.", ["2.1"]),
    )
    shown = sorted(as_evidence(made), key=lambda candidate: candidate.order)
    assert [(item.evidence.text, item.evidence.rank) for item in shown] == [
        ("Ann moved to Leeds.", 2),
        ("The bike was repaired for 40 euros.", 0),
        ("Ann likes olives. [unchecked]", 1),
    ]
    assert [(item.evidence.session_id, item.evidence.time) for item in shown] == [
        ("s0", NOON),
        ("s9", NOON + timedelta(days=9)),
        (None, None),
    ]
    assert {item.evidence.kind for item in shown} == {"rewrite"}
    assert [line for line in render([item.evidence for item in shown]).splitlines() if line.startswith("#")] == [
        "# 2024-05-01 12:00",
        "# 2024-05-10 12:00",
        "# unknown time",
    ]
