"""Times as sources write them, read into aware instants; never guessed, never replaced by now.

English month and day names are matched by this module's own tables, so the process's locale changes nothing.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from backread.errors import TimeError

__all__ = ["SaidAt", "format_time", "parse_time"]


@dataclass(frozen=True, slots=True)
class SaidAt:
    """A time as read.

    Attributes:
        at: the instant, always aware.
        offset_known: False when the source gave no zone and `zone` was assumed.
        text: the source's own words; None when it gave a number or a datetime.
        warning: what was odd about it but did not stop the reading, e.g. a day name that doesn't fit the date.
    """

    at: datetime
    offset_known: bool
    text: str | None
    warning: str | None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# From here on a number means milliseconds: as seconds it would be the year 5138, as milliseconds it is March 1973.
_MILLISECONDS_FROM = 1e11

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

# Fewer than nine digits would be a moment before 1974: far more likely a year, an hour or an id.
_NUMBER = re.compile(r"[+-]?\d{9,40}(?:\.\d{1,20})?", re.ASCII)
# 2023/05/30 (Tue) 23:40, the day name and the time optional (LongMemEval)
_SLASHED = re.compile(
    r"(?P<year>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})(?:\s*\((?P<name>[A-Za-z]+)\))?"
    r"(?:\s+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?)?",
    re.ASCII,
)
# 12:09 am on 13 September, 2023, the time optional (LoCoMo)
_SPOKEN = re.compile(
    r"(?:(?P<hour>\d{1,2}):(?P<minute>\d{2})\s*(?P<half>[ap])\.?m\.?\s+on\s+)?"
    r"(?P<day>\d{1,2})\s+(?P<month>[A-Za-z]+),?\s+(?P<year>\d{4})",
    re.ASCII | re.IGNORECASE,
)


def parse_time(value: str | int | float | datetime | None, *, zone: tzinfo = UTC) -> SaidAt | None:
    """The instant that `value` names; None for None.

    Accepts aware and naive datetimes; numbers as seconds since 1970 UTC, or as milliseconds from 1e11 on (so
    milliseconds before March 1973 can't be given); strings of such a number with nine digits or more; ISO 8601 with
    "T", "t" or a space, "Z" or "z", or the day alone; `2023/05/30 (Tue) 23:40`; `12:09 am on 13 September, 2023`, both
    also without the time. A day alone is its midnight. A string of eight digits is a date; a shorter number is refused.

    A number is an instant, shown in `zone`. A time without a zone is taken in `zone`. Where that local time happened
    twice, the first is meant unless the datetime's `fold` says otherwise; where it never happened, the clock is read as
    if it had not yet gone forward. Both are noted in `warning`.

    Raises:
        TimeError: for anything else, naming the value: unreadable words, "", dates that don't exist, bool, NaN,
            infinity, years outside 1 to 9999.
    """
    if value is None:
        return None
    if isinstance(value, datetime):
        return _place(value, zone, None, None, shown=value)
    if isinstance(value, bool):
        raise _unreadable(value)
    if isinstance(value, int | float):
        return SaidAt(_from_epoch(value, zone, shown=value), True, None, None)
    if not isinstance(value, str):
        raise _unreadable(value)
    return _parse_text(value, zone)


def format_time(at: datetime | None, *, received: bool = False) -> str:
    """`at` as "2023-05-08 13:56" in its own offset, or "unknown time" for None.

    With `received` it is when something came in, not when it was said: "received 2023-05-08 13:56".
    """
    if at is None:
        return "unknown time"
    # Not strftime: it doesn't pad years below 1000 everywhere.
    return f"{'received ' * received}{at.year:04}-{at.month:02}-{at.day:02} {at.hour:02}:{at.minute:02}"


def _parse_text(value: str, zone: tzinfo) -> SaidAt:
    text = value.strip()
    if match := _SLASHED.fullmatch(text):
        at = _build(value, match, int(match["month"]), int(match["hour"] or 0))
        return _place(at, zone, value, _day_warning(match["name"], at, value), shown=value)
    if match := _SPOKEN.fullmatch(text):
        at = _build(value, match, _month(match["month"], value), _hour(match, value))
        return _place(at, zone, value, None, shown=value)
    if _NUMBER.fullmatch(text):
        return SaidAt(_from_epoch(float(text) if "." in text else int(text), zone, shown=value), True, value, None)
    try:
        # fromisoformat takes any separator and white space around nothing; upper case covers "t" and "z".
        at = datetime.fromisoformat(text.upper())
    except ValueError as error:
        raise _unreadable(value) from error
    return _place(at, zone, value, None, shown=value)


def _build(value: str, match: re.Match[str], month: int, hour: int) -> datetime:
    second = match.groupdict().get("second")
    try:
        # Naive on purpose: the zone is put on by `_place`, which looks at gaps and repeats.
        return datetime(  # noqa: DTZ001
            int(match["year"]), month, int(match["day"]), hour, int(match["minute"] or 0), int(second or 0)
        )
    except ValueError as error:
        raise _unreadable(value) from error


def _hour(match: re.Match[str], value: str) -> int:
    """The hour of a 12-hour clock: 12 am is 0, 12 pm is 12."""
    if match["hour"] is None:
        return 0
    hour = int(match["hour"])
    if not 1 <= hour <= 12:
        raise _unreadable(value)
    return hour % 12 + (12 if match["half"] in "pP" else 0)


def _month(name: str, value: str) -> int:
    lowered = name.lower()
    for number, month in enumerate(_MONTHS, 1):
        if lowered in (month, month[:3]) or (lowered == "sept" and number == 9):
            return number
    raise _unreadable(value)


def _day_warning(name: str | None, at: datetime, value: str) -> str | None:
    if name is None:
        return None
    right = _DAYS[at.weekday()]
    lowered = name.lower()
    if len(lowered) >= 3 and right.startswith(lowered):
        return None
    if not any(len(lowered) >= 3 and day.startswith(lowered) for day in _DAYS):
        raise _unreadable(value)
    return f"{value!r} names the wrong day of the week: that date was a {right.capitalize()}"


def _from_epoch(number: int | float, zone: tzinfo, *, shown: object) -> datetime:
    try:
        if not math.isfinite(number):
            raise _unreadable(shown)
        seconds = number / 1000 if abs(number) >= _MILLISECONDS_FROM else number
        return (_EPOCH + timedelta(seconds=seconds)).astimezone(zone)
    except OverflowError as error:
        raise _unreadable(shown) from error


def _place(at: datetime, zone: tzinfo, text: str | None, warning: str | None, *, shown: object) -> SaidAt:
    """Put a zone on a naive datetime; check that the instant can be used at all."""
    known = at.utcoffset() is not None
    try:
        if not known:
            at = at.replace(tzinfo=zone)
            back = at.astimezone(UTC).astimezone(zone)
            if back.replace(tzinfo=None) != at.replace(tzinfo=None):
                warning = f"{shown!s} never happened in {zone}: the clock went forward; read as {format_time(back)}"
                at = back
            elif at.replace(fold=1 - at.fold).utcoffset() != at.utcoffset():
                which = "second" if at.fold else "first"
                warning = f"{shown!s} happened twice in {zone}: the {which} is meant"
        at.astimezone(UTC)
    except OverflowError as error:
        raise _unreadable(shown) from error
    return SaidAt(at, known, text, warning)


def _unreadable(value: object) -> TimeError:
    try:
        shown = repr(value)
    except ValueError:  # Python refuses to print integers of thousands of digits
        shown = f"a {type(value).__name__} too long to show"
    if len(shown) > 80:
        shown = shown[:77] + "..."
    return TimeError(
        f"not a time that can be read: {shown}",
        hint="give ISO 8601 (2023-05-30T23:40:00+02:00), seconds or milliseconds since 1970, or no time at all",
    )
