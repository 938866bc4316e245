"""Cues for retrieval: is a turn a question, does it speak of a time, does a question ask for one or name a date.

English only; texts of other languages simply have no cue, except that a question mark is one everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["ASKS", "MONTHS", "TELLS_TIME", "NamedDate", "asks_when", "named_dates", "time_expressions", "turn_cues"]

ASKS = 1
"""Bit of a turn that ends with a question mark."""

TELLS_TIME = 2
"""Bit of a turn that has an expression of time."""

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
"""English names of the months, lower case, in order."""

_MONTH_WORDS = "|".join(month for month in MONTHS if month != "may")
_DAYS = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_PERIODS = f"week|weekend|month|year|summer|winter|fall|autumn|spring|{_DAYS}"
_TIME = re.compile(
    rf"\b(?:yesterday|today|tonight|tomorrow|last (?:night|{_PERIODS})|(?:next|this|past|coming) (?:few|{_PERIODS})"
    rf"|\w{{1,20}} (?:day|week|month|year)s? (?:ago|back)|ago|recently|since|{_MONTH_WORDS}|(?:19|20)\d\d|{_DAYS}"
    r"|\d{1,2}(?:st|nd|rd|th))\b",
    re.IGNORECASE,
)
_MAY = re.compile(r"\bMay\b")
_WHEN = re.compile(
    r"\bwhen\b|\bwhat (?:date|day|month|year|time)\b|\bhow long\b|\bwhich (?:date|day|month|year|week)\b", re.IGNORECASE
)
_NAMES = "|".join(month.capitalize() for month in MONTHS)
_DATE = re.compile(rf"(?:\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? )?\b({_NAMES})\b(?:,? (\d{{1,2}})(?:st|nd|rd|th)?\b)?")
_YEAR = re.compile(r"\b((?:19|20)\d\d)\b")


@dataclass(frozen=True, slots=True)
class NamedDate:
    """A date a question names: always a month, perhaps a year and a day."""

    month: int
    year: int | None = None
    day: int | None = None


def turn_cues(text: str) -> int:
    """The cues of a turn's text as bits: `ASKS`, `TELLS_TIME`."""
    asks = ASKS if text.rstrip().endswith(("?", "？", "؟")) else 0
    return asks | (TELLS_TIME if _TIME.search(text) or _MAY.search(text) else 0)


def time_expressions(text: str) -> list[tuple[int, int]]:
    """Spans of the expressions of time in `text`, in order, without overlap; what makes `TELLS_TIME` true."""
    found = sorted(match.span() for pattern in (_TIME, _MAY) for match in pattern.finditer(text))
    return [span for place, span in enumerate(found) if not place or span[0] >= found[place - 1][1]]


def asks_when(question: str) -> bool:
    """True when a question asks for a date, a time or how long something took."""
    return _WHEN.search(question) is not None


def named_dates(question: str) -> tuple[NamedDate, ...]:
    """The dates a question names, in order: months with a capital ("may" is a verb), with a day beside them.

    The first year of the question counts for all of them.
    """
    found = _YEAR.search(question)
    year = int(found[1]) if found else None
    dates = []
    for match in _DATE.finditer(question):
        day = int(match[1] or match[3] or 0)
        dates.append(NamedDate(MONTHS.index(match[2].lower()) + 1, year, day if 1 <= day <= 31 else None))
    return tuple(dict.fromkeys(dates))
