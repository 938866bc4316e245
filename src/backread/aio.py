"""`AsyncMemory`: `Memory` for programs with an event loop. A thin wrapper over threads, not a second implementation.

Every call runs in a thread of the loop's default pool, so the loop never waits for the disk or a model. A call that is
cancelled while it runs still goes to its end in its thread: an `add` is stored as a whole or not at all.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Protocol, Self, TypeVar

from backread.memory import Memory
from backread.models.base import ChatModel, Embedder
from backread.models.roles import ChatRoles
from backread.settings import Settings
from backread.text.tokens import TokenCounter

__all__ = ["AsyncMemory", "threaded"]

M = TypeVar("M")
P = ParamSpec("P")
T = TypeVar("T")

_PAGE: Final = 500
"""Items an iterator takes from its thread at a time."""


class _Wrapper(Protocol[M]):
    """What awaits the methods of its `memory`."""

    memory: M


def threaded(method: Callable[Concatenate[M, P], T]) -> Callable[Concatenate[_Wrapper[M], P], Coroutine[Any, Any, T]]:
    """The method of a memory, awaited: for a class that wraps it as `memory`."""

    @functools.wraps(method)
    async def call(self: _Wrapper[M], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, self.memory, *args, **kwargs)

    return call


def _streamed(
    method: Callable[Concatenate[Memory, P], Iterator[T]],
) -> Callable[Concatenate[AsyncMemory, P], AsyncIterator[T]]:
    """The iterator of a method of `Memory`, for `async for`; read page by page, errors come with the first item."""

    @functools.wraps(method)
    async def call(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        iterator = await asyncio.to_thread(method, self.memory, *args, **kwargs)
        while page := await asyncio.to_thread(list, islice(iterator, _PAGE)):
            for item in page:
                yield item

    return call


class AsyncMemory:
    """`Memory`, awaited: the same methods with the same arguments, results and errors.

    Made by `AsyncMemory.open`; the constructor takes a `Memory` that is open already.

    Attributes:
        memory: the wrapped memory; closing one closes the other.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    @classmethod
    async def open(
        cls,
        path: str | Path | None = None,
        *,
        embedder: str | Embedder | None = None,
        model: str | ChatModel | ChatRoles | None = None,
        counter: TokenCounter | None = None,
        settings: Settings | None = None,
    ) -> Self:
        """See `Memory.open`."""
        memory = await asyncio.to_thread(
            Memory.open, path, embedder=embedder, model=model, counter=counter, settings=settings
        )
        return cls(memory)

    add = threaded(Memory.add)
    add_turns = threaded(Memory.add_turns)
    delete = threaded(Memory.delete)
    scrub = threaded(Memory.scrub)
    history = threaded(Memory.history)
    search = threaded(Memory.search)
    recall = threaded(Memory.recall)
    ask = threaded(Memory.ask)
    answer = threaded(Memory.answer)
    build = threaded(Memory.build)
    entries = threaded(Memory.entries)
    turns = _streamed(Memory.turns)
    sessions = threaded(Memory.sessions)
    size = threaded(Memory.size)
    users = threaded(Memory.users)
    get = threaded(Memory.get)
    export = _streamed(Memory.export)
    index = threaded(Memory.index)
    reindex = threaded(Memory.reindex)
    maintain = threaded(Memory.maintain)
    rollback = threaded(Memory.rollback)
    drop_previous = threaded(Memory.drop_previous)
    pending = threaded(Memory.pending)
    backup = threaded(Memory.backup)
    verify = threaded(Memory.verify)
    stats = threaded(Memory.stats)
    close = threaded(Memory.close)
    metered = threaded(Memory.metered)
    retriever = threaded(Memory.retriever)

    @property
    def settings(self) -> Settings:
        """The resolved settings."""
        return self.memory.settings

    @property
    def chat(self) -> ChatModel | None:
        """The chat model, None when questions are answered by quoting."""
        return self.memory.chat

    @property
    def embedder(self) -> Embedder | None:
        """The embedder, None when search is by text only."""
        return self.memory.embedder

    @property
    def previous_embedder(self) -> str | None:
        """Fingerprint of the embedder that `rollback` goes back to; None when there is none."""
        return self.memory.previous_embedder

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
