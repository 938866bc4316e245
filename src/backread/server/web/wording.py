"""Words of the page: numbers, times, and the part of a text that a search found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from backread.text.analysis import query_terms, tokens
from backread.text.excerpts import excerpt as best_span
from backread.wire import plain

__all__ = [
    "Piece",
    "beginning",
    "counted",
    "day_of",
    "duration",
    "excerpt",
    "marked",
    "month_name",
    "number",
    "pretty",
    "score",
    "size",
    "time_of",
]

WHOLE: Final = 480
"""Characters of the longest text that a list shows whole."""

EXCERPT: Final = 360
"""Characters shown of a longer one."""

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a text, and whether it is one of the words that were looked for."""

    text: str
    found: bool = False


def excerpt(text: str, query: str) -> str:
    """A text, a long one cut to what is around the words of the query, with … where it was cut."""
    if len(text) <= WHOLE:
        return text.strip()
    terms = {term.term for term in query_terms(query) if not term.stop}
    start, end = best_span(text, terms, max_tokens=EXCERPT, count=len)
    return f"{'… ' if text[:start].strip() else ''}{text[start:end]}{' …' if text[end:].strip() else ''}"


def beginning(text: str, most: int) -> str:
    """How a text begins, on one line."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[:most].rstrip()} …"


def marked(text: str, query: str) -> list[Piece]:
    """`text` in pieces, the words of the query by themselves; function words only where there are no others."""
    found = list(tokens(query))
    wanted = {token.stem for token in found if not token.stop} or {token.stem for token in found}
    return list(_pieces(text, wanted))


def _pieces(text: str, wanted: set[str]) -> Iterator[Piece]:
    at = 0
    for token in tokens(text) if wanted else ():
        if token.stem not in wanted or token.end <= at:
            continue
        start = max(at, token.start)  # pairs of characters overlap
        if start > at:
            yield Piece(text[at:start])
        yield Piece(text[start : token.end], found=True)
        at = token.end
    if at < len(text):
        yield Piece(text[at:])


def counted(value: int, noun: str) -> str:
    """A number with its noun: "1 turn", "1,200 turns"."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def number(value: int | None) -> str:
    """A number with separators, "unknown" for None."""
    return "unknown" if value is None else f"{value:,}"


def pretty(value: object) -> str:
    """A value as JSON over several lines, for people: words stay readable."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False)


def score(value: float) -> str:
    """A score in four digits: scores compare within one search only, their size says nothing."""
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"


def duration(seconds: float | None) -> str:
    """Seconds for people: "12 ms", "1.4 s"; "" for None."""
    if seconds is None:
        return ""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def size(value: int) -> str:
    """Bytes for people: "640 bytes", "1.3 MB"."""
    amount, unit = float(value), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{value} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"


def time_of(at: datetime | None) -> str:
    """The time of day, "" when unknown."""
    return "" if at is None else f"{at.hour:02}:{at.minute:02}"


def day_of(at: datetime | None) -> str:
    """The day with its weekday: "Thu 2025-03-27"; "unknown time" for None."""
    return "unknown time" if at is None else f"{_DAYS[at.weekday()]} {at.year:04}-{at.month:02}-{at.day:02}"


def month_name(month: int) -> str:
    """The name of a month, 1 to 12."""
    return _MONTHS[month - 1]
