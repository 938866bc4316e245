"""Model calls side by side, their results in the order of what was asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["in_order"]

_ItemT = TypeVar("_ItemT")
_ResultT = TypeVar("_ResultT")


def in_order(
    work: Callable[[_ItemT], _ResultT],
    items: Sequence[_ItemT],
    *,
    concurrency: int,
    cancel: threading.Event | None = None,
    deadline: float | None = None,
) -> Iterator[_ResultT | None]:
    """The result of each item in order, as soon as it and those before it are there; None for what was not begun.

    Work runs in threads of its own, the results come in the thread that asks for them. The first error, by the order of
    the items, is raised there; nothing new is begun after an error, nor when the iterator is closed.

    Args:
        work: called with each item.
        items: what is worked on, begun in this order.
        concurrency: items at the same time, at most.
        cancel: once it is set nothing new is begun.
        deadline: by `time.monotonic()`, after which nothing new is begun.
    """
    failed = threading.Event()

    def begin(item: _ItemT) -> _ResultT | None:
        late = deadline is not None and time.monotonic() >= deadline
        if late or failed.is_set() or (cancel is not None and cancel.is_set()):
            return None
        try:
            return work(item)
        except BaseException:
            failed.set()
            raise

    if not items:
        return
    with ThreadPoolExecutor(min(max(1, concurrency), len(items)), thread_name_prefix="in-order") as pool:
        futures = [pool.submit(begin, item) for item in items]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()
