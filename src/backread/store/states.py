"""What of a strategy's state goes with a session.

A state is JSON of named parts. Ids that callers gave stand in it only as keys of a part's mappings: session ids in
those called `built` and `failed`, and, between colons, in entry ids (`event:<session>:<segment>`).
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

__all__ = ["BY_SESSION", "without_sessions"]

BY_SESSION = ("built", "failed")
"""Mappings of a part that are keyed by session id."""


def without_sessions(state: bytes | None, session_ids: Collection[str]) -> bytes | None:
    """The state without these sessions; one that names none of them, or isn't JSON of parts, as it is."""
    if state is None or not session_ids:
        return state
    try:
        parts = json.loads(state)
    except ValueError:
        return state
    if not isinstance(parts, dict):
        return state
    kept = {name: _part(part, session_ids) for name, part in parts.items()}
    return state if kept == parts else json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()


def _part(part: Any, session_ids: Collection[str]) -> Any:  # noqa: ANN401 -- JSON
    if not isinstance(part, dict):
        return part
    return {
        name: {key: value for key, value in rows.items() if not _names(key, name in BY_SESSION, session_ids)}
        if isinstance(rows, dict)
        else rows
        for name, rows in part.items()
    }


def _names(key: str, by_session: bool, session_ids: Collection[str]) -> bool:
    return (by_session and key in session_ids) or any(f":{session_id}:" in key for session_id in session_ids)
