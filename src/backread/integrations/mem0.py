"""A stand-in for mem0's `Memory`: its calls and result shapes over a verbatim record. Needs no extra, nor mem0.

Differs from mem0 on purpose: no model reads what is added, so every message is a memory, word for word, system messages
too; a user must be named; scores compare within one search only, so there is no threshold; deleting leaves no history;
`get_all` without a number gives all. An argument or a filter that this can't honour is refused.

A memory is a turn. Its id stays the same over updates, each of which is a new turn that supersedes the one before.
`run_id` is the session; `agent_id` and `metadata` are kept in an attachment.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, Final, Self, TypeVar

from backread.aio import threaded
from backread.errors import InvalidInputError, NotFoundError
from backread.integrations import mem0_shapes as shapes
from backread.integrations.mem0_config import settings_of
from backread.integrations.shared import keep, named, noted
from backread.memory import Memory as Record

__all__ = ["AsyncMemory", "AsyncMemoryClient", "Memory", "MemoryClient"]

_TOP_K: Final = 20

Values = Mapping[str, Any]
Results = dict[str, list[dict[str, Any]]]


class Memory(AbstractContextManager["Memory"]):
    """mem0's `Memory` over a record.

    Args:
        memory: the record; the one that the settings name when None.
    """

    def __init__(self, memory: Record | None = None) -> None:
        if memory is not None and not isinstance(memory, Record):
            raise InvalidInputError(
                f"this is made of a backread.Memory, not of a {type(memory).__name__}",
                hint="Memory.from_config takes mem0's configuration",
            )
        self.memory = Record.open() if memory is None else memory
        self._updating = threading.Lock()

    @classmethod
    def from_config(cls, config_dict: Values) -> Self:
        """A memory as mem0's configuration describes it; see `mem0_config.settings_of` for what is honoured.

        Raises:
            InvalidInputError: the configuration asks for something that backread doesn't have.
        """
        return cls(Record.open(settings=settings_of(config_dict)))

    def add(
        self,
        messages: str | Values | Sequence[Values],
        *,
        user_id: str,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: Values | None = None,
        infer: bool = True,
    ) -> Results:
        """What was kept: `{"results": [{"id", "memory", "event": "ADD", "actor_id", "role"}]}`, one for each message.

        Args:
            messages: a text, a message or several, as for `backread.Memory.add`.
            user_id: whose memory.
            agent_id: kept, to filter by.
            run_id: the session; a new one when None.
            metadata: kept, to filter by.
            infer: accepted for mem0's sake and without effect: nothing is ever inferred.

        Raises:
            InvalidInputError: a message can't be kept; none was, unless the hint says so.
        """
        given: Any = {"role": "user", "content": messages} if isinstance(messages, str) else messages
        given = [given] if isinstance(given, Mapping) else given
        session_id = f"s-{uuid.uuid4().hex[:12]}" if run_id is None else named(run_id, "run_id")
        kept = {"agent_id": agent_id, "run_id": run_id, "metadata": dict(metadata or {})}
        zone = self.memory.settings.zone_info
        drafts = [shapes.draft(message, session_id, kept, zone) for message in given]
        turn_ids = keep(self.memory, drafts, user_id=user_id)
        return {"results": [shapes.added(user_id, *pair) for pair in zip(turn_ids, drafts, strict=True)]}

    def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        top_k: int | None = None,
        limit: int | None = None,
        filters: Values | None = None,
    ) -> Results:
        """The best memories, `{"results": [{"id", "memory", "score", …}]}`, best first.

        Args:
            query: what to look for.
            user_id: whose memory, here or in `filters`.
            agent_id: only memories of this agent.
            run_id: only memories of this session.
            top_k: results at most; 20 when None.
            limit: mem0's older name for `top_k`.
            filters: exact values of `user_id`, `agent_id`, `run_id`, `actor_id`, `role` and of metadata.
        """
        user, wanted = shapes.asked_for(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
        size = _number(top_k, limit, _TOP_K)
        depth = max(1, size)
        while size:
            hits = noted(self.memory.search(query, user_id=user, top_k=depth, session_id=wanted.get("run_id")))
            found = shapes.passing(hits, wanted)
            if len(found) >= size or len(hits) < depth:
                history = self.memory.history(user)
                return {"results": [{**shapes.item(history, turn), "score": score} for turn, score in found[:size]]}
            depth *= 4  # the filters left too few: look deeper
        return {"results": []}

    def get(self, memory_id: str) -> dict[str, Any] | None:
        """A memory as it is now; None when there is none."""
        try:
            history, versions = shapes.versions(self.memory, memory_id)
        except NotFoundError:
            return None
        return shapes.item(history, versions[-1])

    def get_all(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        top_k: int | None = None,
        limit: int | None = None,
        filters: Values | None = None,
    ) -> Results:
        """Memories in the order of the record, all of them when no number is given; arguments as for `search`."""
        user, wanted = shapes.asked_for(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
        history = self.memory.history(user)
        found = (turn for turn in history.turns(shapes.in_scope(wanted)) if shapes.passes(turn, wanted))
        return {"results": [shapes.item(history, turn) for turn in islice(found, _number(top_k, limit, None))]}

    def update(
        self, memory_id: str, text: str | None = None, metadata: Values | None = None, *, data: str | None = None
    ) -> dict[str, str]:
        """Replace a memory's words, or add values to its metadata; `data` is mem0's older name for `text`.

        Raises:
            NotFoundError: there is no such memory.
            InvalidInputError: nothing to change, two texts, or words that can't be kept.
        """
        if (text is not None and data is not None) or (text is None and data is None and metadata is None):
            raise InvalidInputError("an update is a text or metadata, or one of each")
        with self._updating:
            history, versions = shapes.versions(self.memory, memory_id)
            draft = shapes.replacement(versions[-1], data if text is None else text, metadata)
            keep(self.memory, [draft], user_id=history.user_id)
        return {"message": "Memory updated successfully!"}

    def delete(self, memory_id: str) -> dict[str, str]:
        """Erase a memory with all it was before.

        Raises:
            NotFoundError: there is no such memory.
        """
        history, versions = shapes.versions(self.memory, memory_id)
        shapes.erase(self.memory, history.user_id, versions)
        return {"message": "Memory deleted successfully!"}

    def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, str]:
        """Erase everything of a user, or only what is of an agent or a session; in whichever way it was added.

        Raises:
            InvalidInputError: no user is named.
        """
        user, wanted = shapes.asked_for(None, user_id=user_id, agent_id=agent_id, run_id=run_id)
        if wanted:
            turns = self.memory.history(user).turns(shapes.in_scope(wanted, superseded=True))
            shapes.erase(self.memory, user, [turn for turn in turns if shapes.passes(turn, wanted)])
        else:
            self.memory.delete(user_id=user)
        return {"message": "Memories deleted successfully!"}

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        """All a memory was, oldest first: `[{"old_memory", "new_memory", "event", …}]`; [] for an unknown id."""
        try:
            history, versions = shapes.versions(self.memory, memory_id)
        except NotFoundError:
            return []
        return shapes.changes(history.user_id, versions)

    def reset(self) -> None:
        """Erase everything of everyone in the record."""
        for user_id in self.memory.users():
            self.memory.delete(user_id=user_id, scrub=False)
        self.memory.scrub()

    def close(self) -> None:
        """Close the record."""
        self.memory.close()

    def __exit__(self, *raised: object) -> None:
        self.close()


class AsyncMemory:
    """mem0's `AsyncMemory`: the same calls as `Memory`, awaited; each runs in a thread.

    Args:
        memory: the record, or a `Memory` over it; the record that the settings name when None.
    """

    def __init__(self, memory: Record | Memory | None = None) -> None:
        self.memory = memory if isinstance(memory, Memory) else Memory(memory)

    @classmethod
    async def from_config(cls, config_dict: Values) -> Self:
        """See `Memory.from_config`."""
        return cls(await asyncio.to_thread(Memory.from_config, config_dict))

    add = threaded(Memory.add)
    search = threaded(Memory.search)
    get = threaded(Memory.get)
    get_all = threaded(Memory.get_all)
    update = threaded(Memory.update)
    delete = threaded(Memory.delete)
    delete_all = threaded(Memory.delete_all)
    history = threaded(Memory.history)
    reset = threaded(Memory.reset)
    close = threaded(Memory.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()


class MemoryClient:
    """Stands where mem0 has the client of its hosted service, which there is none of here.

    Raises:
        InvalidInputError: always.
    """

    def __init__(self, *_: object, **__: object) -> None:
        raise InvalidInputError(
            f"there is no hosted service that a {type(self).__name__} could call: nothing leaves this machine",
            hint="use Memory or AsyncMemory of this module, over a store of your own",
        )


class AsyncMemoryClient(MemoryClient):
    """As `MemoryClient`."""


N = TypeVar("N", int, None)


def _number(top_k: int | None, limit: int | None, default: N) -> int | N:
    """How many results are asked for, 0 being none of them."""
    if top_k is not None and limit is not None:
        raise InvalidInputError("top_k and limit mean the same; give one")
    number = limit if top_k is None else top_k
    if number is not None and number < 0:
        raise InvalidInputError(f"top_k is a number of results from 0 on, not {number}")
    return default if number is None else number
