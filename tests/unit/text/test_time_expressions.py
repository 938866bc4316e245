"""Where a text speaks of a time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.text.cues import TELLS_TIME, time_expressions, turn_cues


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It was stolen yesterday, two weeks ago I had it.", ["yesterday", "two weeks ago"]),
        ("In May 2021 it may rain.", ["May", "2021"]),
        ("On the 3rd of June", ["3rd", "June"]),
        ("No time at all", []),
        ("", []),
    ],
)
def test_expressions_in_order(text: str, found: list[str]) -> None:
    assert [text[start:end] for start, end in time_expressions(text)] == found


@given(st.text() | st.lists(st.sampled_from(["May", "2021", "last week", "since", " ", "x"])).map(" ".join))
def test_they_are_what_the_cue_is_about(text: str) -> None:
    spans = time_expressions(text)
    assert bool(spans) == bool(turn_cues(text) & TELLS_TIME)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
