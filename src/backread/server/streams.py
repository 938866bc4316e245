"""Responses that are sent while they are made: JSON lines, and the steps of an answer as server-sent events."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor
from typing import Any, Final, TypeVar

import anyio
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from backread.server.problems import problem_of
from backread.server.sending import in_pieces
from backread.wire import json_text

__all__ = ["EVENTS_TYPE", "LINES_TYPE", "events", "lines", "worked"]

EVENTS_TYPE: Final = "text/event-stream"
LINES_TYPE: Final = "application/jsonl"
_KEEP_ALIVE_S: Final = 15.0
"""A comment is sent when nothing happens for so long, so that nobody on the way gives up."""

T = TypeVar("T")


def lines(items: Iterator[Any]) -> StreamingResponse:
    """Items as JSON lines. An error before the first one is raised; a later one breaks the response off.

    A response that was broken off has no regular end, so that no client takes it for all there is.
    """
    pieces = in_pieces(f"{json_text(item)}\n" for item in items)
    first = next(pieces, "")
    return StreamingResponse(itertools.chain([first], pieces), media_type=LINES_TYPE)


async def worked(receive: Receive, pool: Executor, work: Callable[[threading.Event], T]) -> T:
    """What the work gives, done in `pool`; its event is set when the client goes away, and it is waited for even so."""
    cancel = threading.Event()
    running = asyncio.get_running_loop().run_in_executor(pool, work, cancel)
    watch = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((running, watch), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            cancel.set()
        return await running
    finally:
        cancel.set()
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


async def events(
    receive: Receive, pool: Executor, work: Callable[[Callable[[object], None], threading.Event], object]
) -> StreamingResponse:
    """Run `work` in `pool`, and send each step as it happens, then the outcome: "step"*, then "answer" or "error".

    An error before the first step is raised, so that the response has its status.

    Args:
        receive: tells when the client goes away.
        pool: where it runs.
        work: takes what is to be told of each step (a `Step`, or whatever else is sent of it), and an event that is set
            when nobody waits any longer; returns the outcome.
    """
    queue: asyncio.Queue[tuple[str, object]] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    cancel = threading.Event()

    def tell(kind: str, value: object) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, (kind, value))

    def run() -> None:
        try:
            outcome = work(lambda step: tell("step", step), cancel)
        except Exception as error:  # noqa: BLE001 -- raised or told below, as what it is
            tell("error", error)
        else:
            tell("answer", outcome)

    running = loop.run_in_executor(pool, run)
    kind, value = await _first(receive, queue, running, cancel)
    if isinstance(value, Exception):
        raise value

    async def told() -> AsyncIterator[str]:
        nonlocal kind, value
        while True:
            yield _event(kind, problem_of(value) if isinstance(value, Exception) else value)
            if kind != "step":
                return
            while True:
                try:
                    kind, value = await asyncio.wait_for(queue.get(), _KEEP_ALIVE_S)
                    break
                except TimeoutError:
                    yield ": still at work\n\n"

    return _Events(told(), running, cancel)


async def _first(
    receive: Receive, queue: asyncio.Queue[tuple[str, object]], running: asyncio.Future[None], cancel: threading.Event
) -> tuple[str, object]:
    """The first thing that is told, also when the client goes away before."""
    first, watch = asyncio.ensure_future(queue.get()), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((first, watch), return_when=asyncio.FIRST_COMPLETED)
        if not first.done():
            cancel.set()
            await running
        return await first
    except BaseException:
        cancel.set()
        raise
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _Events(StreamingResponse):
    """A stream that ends the work behind it, however it ends, and waits for that."""

    def __init__(self, content: AsyncIterator[str], running: asyncio.Future[None], cancel: threading.Event) -> None:
        super().__init__(content, media_type=EVENTS_TYPE, headers={"X-Accel-Buffering": "no"})
        self._running, self._cancel = running, cancel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._cancel.set()
            with anyio.CancelScope(shield=True):
                await asyncio.wait((self._running,))


def _event(kind: str, value: object) -> str:
    return f"event: {kind}\ndata: {json_text(value)}\n\n"
