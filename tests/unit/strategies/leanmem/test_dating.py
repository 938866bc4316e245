"""Dates in what models write."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from leanmem_samples import turn

from backread.strategies.leanmem.dating import Days, day_of, days_in, months_in, supported_date


def days(first: str, last: str) -> Days:
    return Days(date.fromisoformat(first), date.fromisoformat(last))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-03-09", [days("2024-03-09", "2024-03-09")]),
        ("2024-02", [days("2024-02-01", "2024-02-29")]),
        ("in 2024", [days("2024-01-01", "2024-12-31")]),
        ("2024/3/9", [days("2024-03-09", "2024-03-09")]),
        ("March 2024", [days("2024-03-01", "2024-03-31")]),
        ("9 March 2024", [days("2024-03-09", "2024-03-09")]),
        ("2024-03-04 to 2024-03-10", [days("2024-03-04", "2024-03-10")]),
        ("2023–2024", [days("2023-01-01", "2024-12-31")]),
        ("2024-03-04, 2024-05", [days("2024-03-04", "2024-03-04"), days("2024-05-01", "2024-05-31")]),
        ("2024-02-30", []),
        ("2024-13", []),
        ("flight 12024, room 1850", []),
        ("in March", []),
        ("", []),
    ],
)
def test_days(text: str, expected: list[Days]) -> None:
    assert days_in(text) == expected


def test_overlap_counts_both_ends() -> None:
    assert days("2024-01-01", "2024-01-31").overlaps(days("2024-01-31", "2024-02-02"))
    assert not days("2024-01-01", "2024-01-31").overlaps(days("2024-02-01", "2024-02-02"))


def test_months_without_a_year() -> None:
    assert months_in("in January or in May") == [1, 5]
    assert months_in("January 2024") == []


def test_a_day_is_that_of_the_own_offset() -> None:
    assert day_of(datetime.fromisoformat("2024-03-09T23:30:00-08:00")) == "2024-03-09"
    assert day_of(None) == ""


@pytest.mark.parametrize(
    ("given", "text", "kept"),
    [
        ("2021-03-09", "yesterday", "2021-03-09"),
        ("2022-01", "next January", "2022-01"),
        ("2011", "ten years ago", "2011"),
        ("2023", "in two years", ""),
        ("2023", "on 1 May 2023", "2023"),
        (" 2021-03-09\n", "yesterday", "2021-03-09"),
        ("next week", "next week", ""),
        ("9 March", "on 9 March", ""),
    ],
)
def test_a_year_must_be_said_or_past(given: str, text: str, kept: str) -> None:
    assert supported_date(given, [turn(0, text)]) == kept


def test_of_turns_without_a_time_only_a_year_that_is_said_is_kept() -> None:
    undated: dict[str, Any] = {"said_at": None}
    assert supported_date("2021-03-09", [turn(0, "yesterday", **undated)]) == ""
    assert supported_date("2019", [turn(0, "back in 2019", **undated)]) == "2019"
    late = datetime(2022, 1, 1, tzinfo=UTC)
    assert supported_date("2023", [turn(0, "a", **undated), turn(1, "b", said_at=late)]) == "2023"
