"""A `ReplyCache` that lasts: replies as JSON in the store, which erases them with the turns they rest on."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from dataclasses import asdict
from typing import Protocol

from backread.models.base import ChatReply
from backread.types import Usage

__all__ = ["KeptTexts", "StoredReplies"]

_log = logging.getLogger(__name__)


class KeptTexts(Protocol):
    """Where replies are kept as text: `SqliteStore.replies`. Threads may share it; rules as in `ReplyCache`."""

    def get(self, key: str) -> str | None:
        """What is kept under `key`."""
        ...

    def put(self, key: str, text: str, *, user_id: str, turn_ids: Collection[str] | None) -> bool:
        """Keep a text; False when a turn it rests on is gone."""
        ...

    def drop(self, user_id: str, turn_ids: Collection[str] | None = None) -> int:
        """Forget what rests on these turns."""
        ...


class StoredReplies:
    """A `ReplyCache` in the store. A reply goes when a turn it rests on is deleted, in the same transaction.

    Args:
        texts: of the store, `SqliteStore.replies`.

    Example:
        >>> from backread.models.wrappers import CachedChat
        >>> def cached(chat, store, user_id):
        ...     return CachedChat(chat, StoredReplies(store.replies), user_id=user_id)
    """

    def __init__(self, texts: KeptTexts) -> None:
        self._texts = texts

    def get(self, key: str) -> ChatReply | None:
        """See `ReplyCache`. A reply that another version of this package wrote, and this one can't read, is none."""
        text = self._texts.get(key)
        return None if text is None else _reply(text)

    def put(self, key: str, reply: ChatReply, *, user_id: str, turn_ids: Collection[str] | None) -> None:
        """See `ReplyCache`. Of a user without a record nothing is kept."""
        fields = asdict(reply)
        del fields["cached"]
        self._texts.put(key, json.dumps(fields, sort_keys=True), user_id=user_id, turn_ids=turn_ids)

    def drop(self, user_id: str, turn_ids: Collection[str] | None = None) -> int:
        """See `ReplyCache`. Deleting turns from the store does this by itself."""
        return self._texts.drop(user_id, turn_ids)


def _reply(text: str) -> ChatReply | None:
    try:
        fields = json.loads(text)
        return ChatReply(**{**fields, "usage": Usage(**fields["usage"])})
    except (ValueError, TypeError, KeyError) as error:
        _log.warning("a stored reply can't be read and is asked for again: %s", error)
        return None
