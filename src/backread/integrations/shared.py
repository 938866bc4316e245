"""What the integrations share: keeping all of a batch or saying so, and what a hit tells of its turn."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from backread.errors import InvalidInputError, MissingExtraError
from backread.memory import Memory
from backread.messages import received
from backread.types import Hit, Hits, TurnDraft

__all__ = ["hit_metadata", "keep", "missing", "named", "noted"]

_log = logging.getLogger(__name__)


def missing(library: str, extra: str) -> MissingExtraError:
    """The error for a library that is not installed; names the command that installs it."""
    install = f"pip install 'backread[{extra}]'"
    return MissingExtraError(f"this integration needs {library}, which is not installed: {install}", hint=install)


def keep(memory: Memory, drafts: Sequence[TurnDraft], *, user_id: str) -> tuple[str, ...]:
    """Turn ids, one for each draft, once all of them are stored. Those that name no time are received now.

    Raises:
        InvalidInputError: one was refused; frameworks have no place for a partial success, so it can't go unseen.
    """
    at = datetime.now(memory.settings.zone_info)
    receipt = memory.add_turns([received(draft, at) for draft in drafts], user_id=user_id)
    if receipt.rejected:
        first = receipt.rejected[0]
        raise InvalidInputError(
            f"message {first.position} was refused: {first.reason}",
            hint=f"{len(receipt.turn_ids)} of {len(drafts)} are stored: don't send those again",
        )
    return receipt.turn_ids


def named(value: str, what: str) -> str:
    """An id, which must not be blank.

    Raises:
        InvalidInputError: it is.
    """
    if not value.strip():
        raise InvalidInputError(f"{what} must be a non-empty text, not {value!r}")
    return value


def noted(hits: Hits) -> Hits:
    """The hits as they are; what the search had to do without goes to the log: frameworks have no place for it."""
    for item in hits.degraded:
        _log.warning("search fell short (%s): %s", item.part, item.reason)
    return hits


def hit_metadata(hit: Hit) -> dict[str, Any]:
    """Flat metadata of a found turn: `turn_id`, `speaker`, `time` (ISO 8601), `session`, `role`, `caption`, `received`.

    `received` is True where `time` is when the turn came in, as nobody said when it was said. What of `time`, `caption`
    and `received` there isn't is None.
    """
    turn = hit.turn
    return {
        "turn_id": turn.turn_id,
        "speaker": turn.name,
        "time": None if turn.time is None else turn.time.isoformat(),
        "session": turn.session_id,
        "role": turn.role,
        "caption": turn.caption,
        "received": turn.received or None,
    }
