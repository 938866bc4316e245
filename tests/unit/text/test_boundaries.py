"""Where a text may be cut."""

from __future__ import annotations

import pytest

from backread.text._boundaries import cut_before, word_end, word_start


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("abc", 2, 2),
        ("e\u0301x", 1, 0),
        ("a👨‍👩‍👧", 3, 1),
        ("a☎\ufe0fb", 2, 1),
        ("a👍🏽b", 2, 1),
        ("🇩🇪🇫🇷", 1, 0),
        ("🇩🇪🇫🇷", 2, 2),
        ("🇩🇪🇫🇷", 3, 2),
        ("ᄒ\u1161\u11ab", 2, 0),
        ("a\r\nb", 2, 1),
        ("abc", 0, 0),
        ("abc", 3, 3),
        ("a" + "\u0301" * 50, 40, 40),  # no cluster of writing is that long
    ],
)
def test_a_cut_goes_back_to_the_start_of_a_cluster(text: str, at: int, expected: int) -> None:
    assert cut_before(text, at, -1) == expected


def test_a_cut_stays_above_its_limit() -> None:
    assert cut_before("e\u0301\u0302", 2, 1) == 2


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("one two three", 5, 8),
        ("one two three", 4, 4),
        ("one two three", 0, 0),
        ("one", 9, 3),
        ("one two", 5, 7),  # the last word: the end of the text is the next boundary
        ("京都へ行く", 2, 2),
        ("x" * 100, 10, 10),
        ("x" + "\u0301" * 100, 5, 100),
    ],
)
def test_the_next_word_start(text: str, at: int, expected: int) -> None:
    assert word_start(text, at, 100) == expected


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("one two three", 9, 7),
        ("one two three", 7, 7),
        ("one two three", 8, 7),
        ("one two three", 13, 13),
        ("one two", 2, 2),  # no boundary before it
        ("京都へ行く", 3, 3),
        ("서울 에서", 4, 2),
    ],
)
def test_the_last_word_end(text: str, at: int, expected: int) -> None:
    assert word_end(text, at, 0) == expected
