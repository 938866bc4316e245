"""Dates in what models write: read as stretches of days, and kept only where the conversation supports them."""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import NamedTuple

from backread.store.indexing import passage_text
from backread.text.cues import named_dates
from backread.types import Turn

__all__ = ["Days", "day_of", "days_in", "months_in", "supported_date"]

_ISO = re.compile(r"\b((?:19|20)\d\d)(?:[-/](\d{1,2})(?:[-/](\d{1,2}))?)?\b")
_UNTIL = re.compile(r"\s*(?:to|until|till|through|and|bis|a|à|–|—|-|/|\.\.)\s*", re.IGNORECASE)
_YEAR = re.compile(r"(?:19|20)\d\d")
_LONGEST = 40


class Days(NamedTuple):
    """A stretch of days, both ends in it."""

    first: date
    last: date

    def overlaps(self, other: Days) -> bool:
        """Whether a day is in both."""
        return self.first <= other.last and other.first <= self.last


def days_in(text: str) -> list[Days]:
    """The dates a text names with their year, in order: 2024, 2024-03, 2024-03-09, March 2024, from one to another."""
    found: list[Days] = []
    end = -1
    for match in _ISO.finditer(text):
        days = _days(int(match[1]), int(match[2] or 0), int(match[3] or 0))
        if days is None:
            continue
        if found and end >= 0 and _UNTIL.fullmatch(text, end, match.start()) and found[-1].first <= days.last:
            found[-1] = Days(found[-1].first, days.last)
        else:
            found.append(days)
        end = match.end()
    named = [_days(item.year, item.month, item.day or 0) for item in named_dates(text) if item.year is not None]
    narrow = [days for days in named if days is not None]
    if narrow:  # "March 2024" names its year alone too
        found = [days for days in found if not any(days.first <= one.first and one.last <= days.last for one in narrow)]
    return found + narrow


def months_in(text: str) -> list[int]:
    """The months a text names without a year."""
    return [item.month for item in named_dates(text) if item.year is None]


def day_of(at: datetime | None) -> str:
    """A time as its day, "2024-03-09", in its own offset; "" when it is not known."""
    return "" if at is None else at.date().isoformat()


def supported_date(value: str, turns: Sequence[Turn]) -> str:
    """A date as a model gave it; "" where nothing supports it.

    Its year must be said in the turns, or be at most the one after the latest turn's: "ten years ago" can be counted,
    but nothing that is told lies in the years the model itself has seen since. Without a year it is no date.
    """
    given = " ".join(value.split())[:_LONGEST]
    years = [int(year) for year in _YEAR.findall(given)]
    said = {int(year) for turn in turns for year in _YEAR.findall(passage_text(turn.text, turn.caption))}
    latest = max((turn.time.year + 1 for turn in turns if turn.time is not None), default=0)
    return given if years and all(year in said or year <= latest for year in years) else ""


def _days(year: int, month: int, day: int) -> Days | None:
    try:
        if not month:
            return Days(date(year, 1, 1), date(year, 12, 31))
        if not day:
            return Days(date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1]))
        return Days(date(year, month, day), date(year, month, day))
    except ValueError:  # there is no such day
        return None
