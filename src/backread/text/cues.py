"""Cues for retrieval: is a turn a question, does it speak of a time, does a question ask for one or name a date.

English only; texts of other languages simply have no cue, except that a question mark is one everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["ASKS", "TELLS_TIME", "NamedDate", "asks_when", "named_date", "turn_cues"]

ASKS = 1
"""Bit of a turn that ends with a question mark."""

TELLS_TIME = 2
"""Bit of a turn that has an expression of time."""

_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_MONTH_WORDS = "|".join(month for month in _MONTHS if month != "may")
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
_MONTH = re.compile(rf"\b(?:{_MONTH_WORDS})\b", re.IGNORECASE)
_YEAR = re.compile(r"\b((?:19|20)\d\d)\b")
_DAY = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)?\b")


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


def asks_when(question: str) -> bool:
    """True when a question asks for a date, a time or how long something took."""
    return _WHEN.search(question) is not None


def named_date(question: str) -> NamedDate | None:
    """The first month a question names, with its year and day if it names them; "may" counts only as "May"."""
    match = _MONTH.search(question) or _MAY.search(question)
    if match is None:
        return None
    year = _YEAR.search(question)
    day = _DAY.search(question)
    number = int(day[1]) if day else 0
    return NamedDate(
        _MONTHS.index(match[0].lower()) + 1, int(year[1]) if year else None, number if 1 <= number <= 31 else None
    )
