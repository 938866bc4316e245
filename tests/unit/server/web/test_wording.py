"""Words of the page: pieces, excerpts, numbers and times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.server.web.wording import (
    Piece,
    beginning,
    counted,
    day_of,
    duration,
    excerpt,
    marked,
    month_name,
    number,
    pretty,
    score,
    size,
    time_of,
)


def test_the_words_of_a_query_are_marked_in_every_form() -> None:
    pieces = marked("Lifts terrify me; the lift is old.", "a lift")
    assert pieces == [
        Piece("Lifts", True),
        Piece(" terrify me; the "),
        Piece("lift", True),
        Piece(" is old."),
    ]


def test_function_words_are_marked_only_where_there_are_no_others() -> None:
    assert [piece.text for piece in marked("the key of the door", "the door") if piece.found] == ["door"]
    assert [piece.text for piece in marked("to be or not", "to be") if piece.found] == ["to", "be"]
    assert marked("abc", "?!") == [Piece("abc")]
    assert marked("", "key") == []


def test_pairs_of_characters_overlap_and_are_shown_once() -> None:
    assert "".join(piece.text for piece in marked("東京都庁へ", "京都庁")) == "東京都庁へ"


@given(st.text(), st.text())
def test_pieces_are_the_text(text: str, query: str) -> None:
    assert "".join(piece.text for piece in marked(text, query)) == text


def test_a_long_text_is_cut_around_what_matched() -> None:
    text = f"{'Nothing here. ' * 60}The kettle is blue. {'Nothing there. ' * 60}"
    cut = excerpt(text, "kettle")
    assert cut.startswith("… ")
    assert cut.endswith(" …")
    assert "The kettle is blue." in cut
    assert len(cut) <= 364  # 360 and the marks
    assert excerpt("  short  ", "kettle") == "short"


def test_beginnings() -> None:
    assert beginning("one\n two   three", 20) == "one two three"
    assert beginning("one two three", 8) == "one two …"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (counted(1, "turn"), "1 turn"),
        (counted(1200, "turn"), "1,200 turns"),
        (number(1234567), "1,234,567"),
        (number(None), "unknown"),
        (score(0.123456), "0.1235"),
        (score(-12.345), "-12.35"),
        (duration(0.0123), "12 ms"),
        (duration(1.44), "1.4 s"),
        (duration(None), ""),
        (size(640), "640 bytes"),
        (size(1_300_000), "1.3 MB"),
        (time_of(None), ""),
        (time_of(datetime(2025, 3, 7, 9, 5, tzinfo=UTC)), "09:05"),
        (day_of(None), "unknown time"),
        (day_of(datetime(2025, 3, 7, tzinfo=UTC)), "Fri 2025-03-07"),
        (day_of(datetime(7, 3, 7, tzinfo=UTC)), "Wed 0007-03-07"),
        (month_name(12), "December"),
        (pretty({"a": ["é", None]}), '{\n  "a": [\n    "é",\n    null\n  ]\n}'),
    ],
)
def test_numbers_and_times(shown: str, expected: str) -> None:
    assert shown == expected
