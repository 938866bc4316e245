"""Turns as evidence: what every strategy over raw turns shares."""

from __future__ import annotations

from backread.store.history import History
from backread.types import Degradation, Evidence, Source, Turn

__all__ = ["rewritten", "undated", "verbatim"]


def verbatim(turn: Turn, rank: int) -> Evidence:
    """A whole turn as a line of evidence."""
    return Evidence(
        text=turn.text,
        kind="verbatim",
        sources=(Source(turn.turn_id, 0, len(turn.text)),),
        rank=rank,
        speaker=turn.name,
        time=turn.time,
        received=turn.received,
        session_id=turn.session_id,
        caption=turn.caption,
    )


def rewritten(turn: Turn, text: str, rank: int) -> Evidence:
    """A model's words for a turn; the caption of its image is in them, where it matters."""
    return Evidence(
        text=text,
        kind="rewrite",
        sources=(Source(turn.turn_id, 0, len(turn.text)),),
        rank=rank,
        speaker=turn.name,
        time=turn.time,
        received=turn.received,
        session_id=turn.session_id,
    )


def undated(history: History) -> tuple[Degradation, ...]:
    """What an `as_of` view leaves out because its time is unknown; empty for the whole record."""
    count = 0 if history.as_of is None else history.undated()
    return (Degradation("as_of", "turns of unknown time are left out", count),) if count else ()
