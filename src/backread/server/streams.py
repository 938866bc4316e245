"""Responses that are sent while they are made: JSON lines, and the steps of an answer as server-sent events."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor
from typing import Any, Final

from starlette.responses import StreamingResponse

from backread.server.problems import problem_of
from backread.wire import json_text

__all__ = ["EVENTS_TYPE", "LINES_TYPE", "events", "lines"]

EVENTS_TYPE: Final = "text/event-stream"
LINES_TYPE: Final = "application/jsonl"
_CHUNK: Final = 200
_KEEP_ALIVE_S: Final = 15.0
"""A comment is sent when nothing happens for so long, so that nobody on the way gives up."""


def lines(items: Iterator[Any]) -> StreamingResponse:
    """Items as JSON lines. An error before the first one is raised; a later one breaks the response off.

    A response that was broken off has no regular end, so that no client takes it for all there is.
    """
    first = list(itertools.islice(items, _CHUNK))

    def chunks() -> Iterator[str]:
        part = first
        while part:
            yield "".join(f"{json_text(item)}\n" for item in part)
            part = list(itertools.islice(items, _CHUNK))

    return StreamingResponse(chunks(), media_type=LINES_TYPE)


async def events(work: Callable[[Callable[[object], None]], object], pool: Executor) -> StreamingResponse:
    """Run `work` in `pool`, and send each step as it happens, then the outcome: "step"*, then "answer" or "error".

    An error before the first step is raised, so that the response has its status.

    Args:
        work: takes what is to be told of each step (a `Step`, or whatever else is sent of it); returns the outcome.
        pool: where it runs. It goes on to its end when the client goes away.
    """
    queue: asyncio.Queue[tuple[str, object]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def tell(kind: str, value: object) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, (kind, value))

    def run() -> None:
        try:
            outcome = work(lambda step: tell("step", step))
        except Exception as error:  # noqa: BLE001 -- raised or told below, as what it is
            tell("error", error)
        else:
            tell("answer", outcome)

    pool.submit(run)
    first = await queue.get()
    if isinstance(first[1], Exception):
        raise first[1]

    async def told() -> AsyncIterator[str]:
        kind, value = first
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

    return StreamingResponse(told(), media_type=EVENTS_TYPE, headers={"X-Accel-Buffering": "no"})


def _event(kind: str, value: object) -> str:
    return f"event: {kind}\ndata: {json_text(value)}\n\n"
