"""mem0's memories, ids, results and filters in terms of turns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from typing import Any, Final

from backread.errors import InvalidInputError, NotFoundError
from backread.memory import Memory
from backread.messages import draft_from_message
from backread.store.history import History, Scope
from backread.types import Hit, Turn, TurnDraft

__all__ = [
    "added",
    "asked_for",
    "changes",
    "draft",
    "erase",
    "in_scope",
    "item",
    "memory_id",
    "passes",
    "passing",
    "replacement",
    "versions",
]

_EXTRA: Final = "mem0"
"""Type of the attachment that holds what mem0 keeps of a memory and a turn has no field for."""


def memory_id(user_id: str, turn_id: str) -> str:
    """A memory's id, which names its user too, since mem0's ids stand alone."""
    return f"{turn_id}.{user_id}"


def draft(message: Mapping[str, Any], session_id: str, kept: Mapping[str, Any], zone: tzinfo = UTC) -> TurnDraft:
    """The draft of a message, with what is kept beside it: `agent_id`, `run_id` and `metadata`.

    Raises:
        InvalidInputError: see `messages.draft_from_message`.
    """
    plain = draft_from_message(message, session_id=session_id, zone=zone)
    values = {name: value for name, value in kept.items() if value}
    if not values:
        return plain
    attachments = [*(message.get("attachments") or ()), {"type": _EXTRA, **values}]
    return draft_from_message({**message, "attachments": attachments}, session_id=session_id, zone=zone)


def replacement(old: Turn, text: str | None, metadata: Mapping[str, Any] | None) -> TurnDraft:
    """The draft that supersedes a turn; of new words nobody says when they were said."""
    message = {
        "role": old.role,
        "name": old.speaker,
        "content": old.text if text is None else text,
        "caption": old.caption,
        "attachments": [data for data in old.attachments if data.get("type") != _EXTRA],
        "supersedes": old.turn_id,
    }
    kept = {name: value for name, value in _kept(old).items() if name != "type"}
    made = draft(message, old.session_id, {**kept, "metadata": {**kept.get("metadata", {}), **(metadata or {})}})
    if text is not None:
        return made
    times = {name: getattr(old, name) for name in ("said_at", "said_text", "offset_known", "received_at")}
    return replace(made, **times)


def versions(memory: Memory, given: str) -> tuple[History, list[Turn]]:
    """The history that a memory's id names, and every version of the memory, the first one first.

    Raises:
        NotFoundError: there is no such memory.
    """
    turn_id, _, user_id = given.partition(".")
    if not user_id.strip():
        raise NotFoundError(f"there is no memory {given!r}")
    history = memory.history(user_id)
    found = history.turns_by_id([turn_id])
    found = [_first(history, found[0])]
    while newer := history.successors([found[-1].turn_id]):
        found.extend(newer.values())
    return history, found


def erase(memory: Memory, user_id: str, turns: Iterable[Turn]) -> None:
    """Erase turns of a user, leaving no byte of them."""
    for turn in turns:
        memory.delete(user_id=user_id, turn_id=turn.turn_id, scrub=False)
    memory.scrub()


def added(user_id: str, turn_id: str, stored: TurnDraft) -> dict[str, Any]:
    """A message that was kept, as mem0 says it."""
    named = {"actor_id": stored.speaker, "role": stored.role}
    return {"id": memory_id(user_id, turn_id), "memory": stored.text, "event": "ADD", **named}


def item(history: History, turn: Turn) -> dict[str, Any]:
    """A memory as mem0 gives it. `created_at` is when it was said, where that is known, else when it was stored."""
    first, kept = _first(history, turn), _kept(turn)
    text = turn.text.encode("utf-8", "surrogatepass")
    return {
        "id": memory_id(history.user_id, first.turn_id),
        "memory": turn.text,
        "hash": hashlib.md5(text, usedforsecurity=False).hexdigest(),
        "metadata": kept.get("metadata"),
        "created_at": (first.said_at or first.stored_at).isoformat(),
        "updated_at": turn.stored_at.isoformat(),
        "user_id": history.user_id,
        "role": turn.role,
        **{name: kept[name] for name in ("agent_id", "run_id") if name in kept},
        **({} if turn.speaker is None else {"actor_id": turn.speaker}),
    }


def changes(user_id: str, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """The versions of a memory as mem0's history lists them."""
    first = turns[0]
    return [
        {
            "id": memory_id(user_id, new.turn_id),
            "memory_id": memory_id(user_id, first.turn_id),
            "old_memory": None if old is None else old.text,
            "new_memory": new.text,
            "event": "ADD" if old is None else "UPDATE",
            "created_at": (first.said_at or first.stored_at).isoformat(),
            "updated_at": new.stored_at.isoformat(),
            "is_deleted": False,
            "actor_id": new.speaker,
            "role": new.role,
        }
        for old, new in zip([None, *turns], turns, strict=False)
    ]


def asked_for(filters: Mapping[str, Any] | None, **ids: str | None) -> tuple[str, dict[str, Any]]:
    """The user that arguments and filters name, and what else they ask of a memory.

    Raises:
        InvalidInputError: no user, two values for one name, or a filter other than an exact value.
    """
    wanted: dict[str, Any] = {name: value for name, value in ids.items() if value is not None}
    for name, value in (filters or {}).items():
        if name in ("AND", "OR", "NOT") or isinstance(value, Mapping | list) or value == "*":
            raise InvalidInputError(f"the filter {name!r} is no exact value", hint="filter the results of get_all")
        if wanted.setdefault(name, value) != value:
            raise InvalidInputError(f"two values for {name}: {wanted[name]!r} and {value!r}")
    user_id = wanted.pop("user_id", None)
    if user_id is None:
        raise InvalidInputError("no user is named", hint="give user_id, or filters={'user_id': …}")
    return user_id, wanted


def in_scope(wanted: Mapping[str, Any], *, superseded: bool = False) -> Scope:
    """The turns among which those that are asked for lie."""
    session_ids = [wanted["run_id"]] if "run_id" in wanted else None
    return Scope(session_ids=session_ids, superseded=superseded)


def passes(turn: Turn, wanted: Mapping[str, Any]) -> bool:
    """Whether a turn has every value asked for; `run_id` is its session."""
    kept = _kept(turn)
    fields = {"agent_id": kept.get("agent_id"), "run_id": turn.session_id, "actor_id": turn.speaker, "role": turn.role}
    values = {**(kept.get("metadata") or {}), **fields}
    return all(name in values and values[name] == value for name, value in wanted.items())


def passing(hits: Iterable[Hit], wanted: Mapping[str, Any]) -> list[tuple[Turn, float]]:
    """The turns of hits that have every value asked for, best first, one of each hit, with its score."""
    found = []
    for hit in hits:
        turns = [turn for turn in (hit.turn, *hit.also) if passes(turn, wanted)]
        found += [(turn, hit.score) for turn in turns[:1]]
    return found


def _first(history: History, turn: Turn) -> Turn:
    while turn.supersedes is not None:
        turn = history.turns_by_id([turn.supersedes])[0]
    return turn


def _kept(turn: Turn) -> Mapping[str, Any]:
    return next((data for data in turn.attachments if data.get("type") == _EXTRA), {})
