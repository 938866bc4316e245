"""Reading windows with a model, several at a time: what is kept of their turns, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from backread.construction.in_order import in_order
from backread.construction.keep_drop import (
    PROMPT_TOKENS,
    RESPONSE_TOKENS,
    WindowDecisions,
    keep_or_drop,
    merge,
)
from backread.construction.sessions import Work
from backread.construction.stretches import Stretch, best_first
from backread.models.base import ChatModel
from backread.models.usage import total
from backread.types import Degradation, Session, Turn

__all__ = ["Read", "kept_turns", "read_windows", "shortcomings", "window_detail"]

Read = Sequence[WindowDecisions | None]
"""The decisions of each window; None for one that was not begun."""


def read_windows(
    chat: ChatModel,
    question: str,
    asked_at: datetime | None,
    sessions: Mapping[str, Session],
    windows: Sequence[tuple[int, Stretch]],
    work: Work,
    *,
    prompt_tokens: int = PROMPT_TOKENS,
    response_tokens: int = RESPONSE_TOKENS,
) -> Iterator[WindowDecisions | None]:
    """The decisions of each window in the order given, as soon as they and those before are there; see `keep_or_drop`.

    None for a window that was not begun, because the call was cancelled or its deadline had passed.

    Args:
        chat: decides.
        question: as it was asked.
        asked_at: when it is now.
        sessions: by session id; they give windows their dates.
        windows: each with its number, for the record.
        work: what must be honoured while models work.
        prompt_tokens: of the request for a window, at most.
        response_tokens: of the reply for a window, at most.

    Raises:
        ModelError: the model can't be asked.
    """

    def decide(window: tuple[int, Stretch]) -> WindowDecisions:
        number, stretch = window
        return keep_or_drop(
            chat,
            question,
            asked_at,
            sessions.get(stretch.turns[0].session_id),
            stretch.turns,
            window=number,
            prompt_tokens=prompt_tokens,
            response_tokens=response_tokens,
        )

    return in_order(decide, windows, concurrency=work.concurrency, cancel=work.cancel, deadline=work.deadline)


def kept_turns(windows: Sequence[Stretch], read: Read, *, keep_hits: bool) -> list[tuple[Turn, str | None]]:
    """What is kept of windows, as a budget takes it: see `best_first`. Each turn stands with a model's words for it.

    With `keep_hits` what was found in windows without valid decisions is kept too; such a turn stands without words.

    Args:
        windows: in the order of the history.
        read: the decisions of each.
        keep_hits: whether a window that could not be read is shown as it was said, or not at all.
    """
    kept = {item.turn_id: item.text for item in merge(made.decisions for made in read if made is not None)}
    whole: set[str] = set()
    if keep_hits:
        undecided = [
            window for window, made in zip(windows, read, strict=True) if made is None or made.fault is not None
        ]
        whole = {turn_id for window in undecided for turn_id in window.places}
    return [
        (turn, kept.get(turn.turn_id)) for turn in best_first(windows) if turn.turn_id in kept or turn.turn_id in whole
    ]


def shortcomings(read: Read, *, keep_hits: bool) -> tuple[Degradation, ...]:
    """What of the windows could not be used, counted."""
    invalid = sum(made is not None and made.fault is not None for made in read)
    instead = "what was found in them is shown as it was said" if keep_hits else "nothing of them is shown"
    counted = (
        ("windows", f"windows got no valid decisions at two tries: {instead}", invalid),
        ("windows", f"windows were not read, as the call was to end: {instead}", sum(made is None for made in read)),
        ("prompt", "turns were read in part, as a window was too long", sum(made.cut for made in read if made)),
    )
    return tuple(Degradation(part, reason, count) for part, reason, count in counted if count)


def window_detail(made: WindowDecisions, window: Stretch) -> dict[str, Any]:
    """What a step says of a window; tokens are None where the endpoint reports none."""
    kept = sum(decision.kept for decision in made.decisions)
    spent = total(made.usage)
    return {
        "window": made.window,
        "session": window.turns[0].session_id,
        "turns": len(window.turns),
        "valid": made.fault is None,
        "kept": kept,
        "dropped": len(made.decisions) - kept,
        "calls": spent.calls,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
    }
