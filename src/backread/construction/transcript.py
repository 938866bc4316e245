"""A session as a model reads it: dated, every turn with a label and its speaker, shorter where it must be.

    # 2025-01-04 (Saturday)
    [1] Marta: Morning. New year, new me.
    [2] assistant: Go ahead.

Lines are quoted but not fenced: whoever puts them into a prompt fences them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from backread.store.indexing import indexed_text
from backread.text.fencing import quote
from backread.text.times import format_time
from backread.types import Turn

__all__ = ["LEFT_OUT", "beginning", "day", "transcript"]

LEFT_OUT = "[… the rest is left out]"
"""The last line where something was left out."""

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SMALLEST_PIECE = 40


def day(at: datetime | None) -> str:
    """`at` as "2025-01-04 (Saturday)" in its own offset, or "unknown time"; "last Friday" needs the day's name."""
    return "unknown time" if at is None else f"{format_time(at)[:10]} ({_DAYS[at.weekday()]})"


def transcript(turns: Sequence[Turn], label: Callable[[int], str]) -> list[str]:
    """The lines of a session: a heading where a new day begins, and a line for each turn, with captions of images.

    Args:
        turns: in order.
        label: the label of a turn by its 1-based place.
    """
    lines: list[str] = []
    shown: str | None = None
    for place, turn in enumerate(turns, 1):
        if day(turn.time) != shown:
            shown = day(turn.time)
            lines.append(f"# {shown}")
        lines.append(quote(f"[{label(place)}] {indexed_text(turn.name, turn.text, turn.caption)}"))
    return lines


def beginning(lines: Sequence[str], share: float) -> list[str]:
    """The lines up to a share of all characters, the last one cut, and `LEFT_OUT` behind them; all for a share of 1."""
    if share >= 1:
        return list(lines)
    room = int(share * sum(map(len, lines)))
    kept: list[str] = []
    for line in lines:
        if len(line) > room:
            if room >= _SMALLEST_PIECE or not kept:
                kept.append(f"{line[: max(room, _SMALLEST_PIECE)]}…")
            break
        kept.append(line)
        room -= len(line)
    return [*kept, LEFT_OUT]
