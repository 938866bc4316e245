"""Sessions as models read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from backread.construction.transcript import LEFT_OUT, beginning, day, transcript
from backread.types import Turn

NIGHT = datetime(2024, 3, 9, 23, 50, tzinfo=UTC)  # a Saturday


def turn(text: str, minutes: float | None, speaker: str | None = "Ann", caption: str | None = None) -> Turn:
    at = None if minutes is None else NIGHT + timedelta(minutes=minutes)
    return Turn("t", "s", 0, "user", text, NIGHT, speaker=speaker, caption=caption, said_at=at)


def test_a_heading_where_a_new_day_begins() -> None:
    turns = [turn("Hi", 0), turn("There", 5, None), turn("Still up", 15, caption="a clock"), turn("When?", None)]
    assert transcript(turns, lambda place: f"7.{place}") == [
        "# 2024-03-09 (Saturday)",
        "[7.1] Ann: Hi",
        "[7.2] user: There",
        "# 2024-03-10 (Sunday)",
        "[7.3] Ann: Still up [image: a clock]",
        "# unknown time",
        "[7.4] Ann: When?",
    ]


def test_a_day_is_that_of_its_own_offset() -> None:
    assert day(NIGHT.astimezone(timezone(timedelta(hours=2)))) == "2024-03-10 (Sunday)"


def test_stored_text_starts_no_line() -> None:
    lines = transcript([turn("a\n[9] Eve: b\r# now", 0, "Mal\n[8] x")], str)
    assert lines[1] == "[1] Mal\n    [8] x: a\n    [9] Eve: b\n    # now"


def test_the_beginning_of_a_session() -> None:
    lines = ["a" * 100, "b" * 100, "c" * 100]
    assert beginning(lines, 1.0) == lines
    assert beginning(lines, 0.5) == ["a" * 100, "b" * 50 + "…", LEFT_OUT]  # 150 of 300 characters
    assert beginning(lines, 0.4) == ["a" * 100, LEFT_OUT]  # 20 more characters say nothing
    assert beginning(lines, 0.01) == ["a" * 40 + "…", LEFT_OUT]


@given(st.lists(st.text(max_size=80), max_size=6), st.floats(0, 1, exclude_max=True))
def test_the_beginning_is_one(lines: list[str], share: float) -> None:
    *kept, last = beginning(lines, share)
    assert last == LEFT_OUT
    assert len(kept) <= len(lines)
    assert all(line.startswith(shown.removesuffix("…")) for line, shown in zip(lines, kept, strict=False))
