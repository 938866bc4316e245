"""The timeline of a history: a cell for each month, in it a bar for each day that has turns."""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from backread.types import Session

__all__ = ["HEIGHT", "Bar", "Month", "months"]

HEIGHT: Final = 32
"""Units of height of the busiest day's bar."""

_LOWEST: Final = 3
_MOST: Final = 600


@dataclass(frozen=True, slots=True)
class Bar:
    """A day: its 0-based place in the month, and the height of its bar, up to `HEIGHT`."""

    day: int
    height: int


@dataclass(frozen=True, slots=True)
class Month:
    """A month.

    Attributes:
        days: how many it has.
        sessions: that started in it.
        turns: of those sessions.
        bars: its days that have turns, in order.
        latest: 0-based place of its latest session among the sessions given, None when it has none.
    """

    year: int
    month: int
    days: int
    sessions: int
    turns: int
    bars: tuple[Bar, ...]
    latest: int | None

    @property
    def name(self) -> str:
        """Names the month: "2025-03"."""
        return f"{self.year:04}-{self.month:02}"


def months(sessions: Sequence[Session]) -> list[Month]:
    """Every month from the first dated session to the last, those without sessions too; undated ones are left out.

    The area of a bar would grow with the square of its height if it were as wide as high: heights go by the root of the
    turns, so that a day of one turn stays visible beside one of a thousand. Of more than 50 years only the last are
    shown.
    """
    dated = [(place, session) for place, session in enumerate(sessions) if session.started_at is not None]
    by_month: dict[int, list[tuple[int, int, int]]] = {}
    for place, session in dated:
        at = session.started_at
        assert at is not None
        by_month.setdefault(at.year * 12 + at.month - 1, []).append((place, at.day - 1, session.turns))
    if not by_month:
        return []
    daily = {key: _by_day(found) for key, found in by_month.items()}
    busiest = max(turns for days in daily.values() for turns in days.values())
    first, last = min(by_month), max(by_month)
    made = []
    for key in range(max(first, last - _MOST + 1), last + 1):
        found = by_month.get(key, [])
        year, month = divmod(key, 12)
        bars = [Bar(day, _height(turns, busiest)) for day, turns in sorted(daily.get(key, {}).items())]
        made.append(
            Month(
                year,
                month + 1,
                calendar.monthrange(year, month + 1)[1],
                len(found),
                sum(turns for _, _, turns in found),
                tuple(bars),
                max((place for place, _, _ in found), default=None),
            )
        )
    return made


def _by_day(found: Sequence[tuple[int, int, int]]) -> dict[int, int]:
    days: dict[int, int] = {}
    for _, day, turns in found:
        days[day] = days.get(day, 0) + turns
    return days


def _height(turns: int, busiest: int) -> int:
    return max(_LOWEST, round(HEIGHT * sqrt(turns / busiest)))
