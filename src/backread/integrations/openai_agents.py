"""The OpenAI Agents SDK: a conversation kept as a session of the record. Needs the extra `openai-agents`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from backread.errors import InvalidInputError
from backread.integrations.shared import keep, missing, named
from backread.memory import Memory
from backread.messages import draft_from_message
from backread.store.history import Scope
from backread.types import Turn, TurnDraft

try:
    from agents import SessionSettings, TResponseInputItem
except ModuleNotFoundError as error:
    raise missing("openai-agents", "openai-agents") from error

__all__ = ["BackreadSession"]

_ITEM: Final = "openai_agents_item"
"""Type of the attachment that holds an item as the SDK gave it."""

_ROLES: Final = ("system", "developer", "user", "assistant")
"""Roles that a message of the SDK may have."""


class BackreadSession:
    """The SDK's `Session` protocol over one session of one user; what is said in it is found by `Memory.search`.

    Every item is a turn of its own: messages and the outputs of tools with their words, everything else (calls,
    reasoning) without any, and each comes back from `get_items` as it went in. Turns that reached the session another
    way come back as plain messages. Items have no time of their own, so neither have their turns.

    `pop_item` and `clear_session` erase. `pop_item` overwrites the rows in place; `Memory.scrub` makes sure of copies.

    Args:
        memory: where the record is; its calls run in threads.
        user_id: whose history.
        session_id: the conversation.
        session_settings: the SDK's, such as how many items a run is given.
    """

    def __init__(
        self, memory: Memory, *, user_id: str, session_id: str, session_settings: SessionSettings | None = None
    ) -> None:
        self._memory, self._user_id = memory, named(user_id, "user_id")
        self.session_id = named(session_id, "session_id")
        self.session_settings = session_settings

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The conversation in its order; with a limit, the latest items of it.

        Raises:
            InvalidInputError: a limit below 0.
        """
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        if limit is not None and limit < 0:
            raise InvalidInputError(f"limit must be at least 0, not {limit}")
        turns = await asyncio.to_thread(self._turns)
        return [_item(turn) for turn in deque(turns, maxlen=limit)]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Keep items at the end of the conversation, in one durable transaction.

        Raises:
            InvalidInputError: an item that JSON can't carry, or is too large.
        """
        drafts = [self._draft(item) for item in items]
        if drafts:
            await asyncio.to_thread(keep, self._memory, drafts, user_id=self._user_id)

    async def pop_item(self) -> TResponseInputItem | None:
        """The latest item, erased; None when the conversation is empty."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        """Erase the conversation."""
        await asyncio.to_thread(self._memory.delete, user_id=self._user_id, session_id=self.session_id)

    def _turns(self) -> list[Turn]:
        return list(self._memory.history(self._user_id).turns(Scope(session_ids=[self.session_id])))

    def _pop(self) -> TResponseInputItem | None:
        while turns := self._turns():
            if self._memory.delete(user_id=self._user_id, turn_id=turns[-1].turn_id, scrub=False).turns:
                return _item(turns[-1])
        return None

    def _draft(self, item: TResponseInputItem) -> TurnDraft:
        given: Mapping[str, Any] = item
        kind = given.get("type", "message")
        message = {
            "role": given.get("role") or ("tool" if kind == "function_call_output" else "assistant"),
            "content": _words(given.get("content") if kind == "message" else given.get("output")),
            "attachments": [{"type": _ITEM, "item": dict(given)}],
        }
        return draft_from_message(message, session_id=self.session_id, zone=self._memory.settings.zone_info)


def _words(content: object) -> str:
    """The text of a message or of a tool's output; "" for what has none."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _item(turn: Turn) -> TResponseInputItem:
    """The item a turn was made from, or a message with its words."""
    item: Any = next((part["item"] for part in turn.attachments if part.get("type") == _ITEM), None)
    if item is None:
        item = {"role": turn.role if turn.role in _ROLES else "user", "content": turn.text}
    known: TResponseInputItem = item
    return known
