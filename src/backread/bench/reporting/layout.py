"""What a report is made of, sections of text, plots and tables, and how numbers are written in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backread.bench.stats.intervals import Interval

__all__ = [
    "UNKNOWN",
    "Plot",
    "Section",
    "Table",
    "counted",
    "decimal",
    "interval",
    "p_value",
    "percent",
    "seconds",
    "signed",
    "some",
    "table",
    "whole",
]

UNKNOWN = "–"
"""Stands for what is undefined or unknown; never for 0."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under columns; columns in `numbers` hold figures. `note` stands under it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """An <svg> element; `name` is that of its file, `caption` says what it shows."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report under a heading: text first, then plots, then tables."""

    title: str
    paragraphs: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = ()
    tables: tuple[Table, ...] = ()


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1, note: str = ""
) -> Table:
    """A table whose first `words` columns are text, and the others figures."""
    return Table(title, tuple(columns), tuple(map(tuple, rows)), frozenset(range(words, len(columns))), note)


def decimal(number: float | None) -> str:
    """Three decimals: "0.612"."""
    return UNKNOWN if number is None else f"{number:.3f}"


def signed(number: float | None) -> str:
    """Three decimals with a sign: "+0.012"; what rounds to nothing has none."""
    if number is None:
        return UNKNOWN
    rounded = round(number, 3) + 0.0
    return f"{rounded:+.3f}" if rounded else "0.000"


def percent(number: float | None) -> str:
    """A share in percent, two decimals, as publications print it: "71.69"."""
    return UNKNOWN if number is None else f"{100 * number:.2f}"


def whole(number: float | None) -> str:
    """A count with thousands separators: "119,884"."""
    return UNKNOWN if number is None else f"{number:,.0f}"


def seconds(number: float | None) -> str:
    """Seconds: "0.021" below ten, "119.9" from there."""
    if number is None:
        return UNKNOWN
    return f"{number:.3f}" if number < 10 else f"{number:,.1f}"


def interval(found: Interval, *, sign: bool = False, digits: int = 3) -> str:
    """A mean with its interval: "0.612 [0.571, 0.653]"; without one where there is none."""

    def text(number: float) -> str:
        rounded = round(number, digits) + 0.0  # never "-0.000"
        return f"{rounded:+,.{digits}f}" if sign and rounded else f"{rounded:,.{digits}f}"

    if found.mean is None:
        return UNKNOWN
    if found.low is None or found.high is None:
        return text(found.mean)
    return f"{text(found.mean)} [{text(found.low)}, {text(found.high)}]"


def counted(found: Interval) -> str:
    """A mean with its interval and how many questions it is over: "0.612 [0.571, 0.653] (192)"."""
    return UNKNOWN if found.mean is None else f"{interval(found)} ({found.n:,})"


def some(names: Sequence[str], most: int = 8) -> str:
    """The first names and how many more there are: "q1, q2 and 3 more"."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def p_value(p: float | None) -> str:
    """A p-value, three decimals; "<0.001" below."""
    if p is None:
        return UNKNOWN
    return "<0.001" if p < 0.001 else f"{p:.3f}"
