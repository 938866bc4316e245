"""Turns as evidence, and recalls from what fitted: what every strategy over raw turns shares."""

from __future__ import annotations

from backread.types import Evidence, Source, Turn

__all__ = ["verbatim"]


def verbatim(turn: Turn, rank: int) -> Evidence:
    """A whole turn as a line of evidence."""
    return Evidence(
        text=turn.text,
        kind="verbatim",
        sources=(Source(turn.turn_id, 0, len(turn.text)),),
        rank=rank,
        speaker=turn.name,
        time=turn.said_at,
        session_id=turn.session_id,
        caption=turn.caption,
    )
