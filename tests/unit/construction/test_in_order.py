"""Calls side by side: the order of results, what ends them, and who is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from backread.construction.in_order import in_order


def test_results_come_in_the_order_of_the_items_however_they_end() -> None:
    second_done = threading.Event()

    def work(item: str) -> str:
        if item == "first":
            assert second_done.wait(5)
        else:
            second_done.set()
        return item.upper()

    assert list(in_order(work, ["first", "second"], concurrency=2)) == ["FIRST", "SECOND"]
    assert list(in_order(work, [], concurrency=2)) == []


@pytest.mark.parametrize("concurrency", [0, 1, 3])
def test_no_more_at_a_time_than_allowed(concurrency: int) -> None:
    lock, running, most = threading.Lock(), 0, 0

    def work(item: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1
        return item

    assert list(in_order(work, range(12), concurrency=concurrency)) == list(range(12))
    assert 1 <= most <= max(1, concurrency)


def test_results_are_asked_for_in_the_calling_thread_and_made_in_others() -> None:
    (made,) = in_order(lambda item: threading.current_thread(), [0], concurrency=1)
    assert made is not threading.current_thread()


def test_what_is_cancelled_is_not_begun() -> None:
    cancel = threading.Event()

    def work(item: int) -> int:
        if item == 1:
            cancel.set()
        return item

    assert list(in_order(work, range(4), concurrency=1, cancel=cancel)) == [0, 1, None, None]
    assert list(in_order(work, range(2), concurrency=1, cancel=cancel)) == [None, None]


def test_nothing_is_begun_after_the_deadline() -> None:
    assert list(in_order(str, [1, 2], concurrency=2, deadline=time.monotonic() - 1)) == [None, None]
    assert list(in_order(str, [1, 2], concurrency=2, deadline=time.monotonic() + 600)) == ["1", "2"]


def failing_at(place: int, begun: list[int]) -> Callable[[int], int]:
    def work(item: int) -> int:
        begun.append(item)
        if item == place:
            raise ValueError(f"item {item}")
        return item

    return work


def test_an_error_ends_it_after_the_results_before_it() -> None:
    begun: list[int] = []
    results = in_order(failing_at(2, begun), range(9), concurrency=1)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="item 2"):
        next(results)
    assert begun == [0, 1, 2]


def test_what_is_not_asked_for_any_more_is_not_begun() -> None:
    begun: list[int] = []
    hold = threading.Event()

    def work(item: int) -> int:
        begun.append(item)
        if item:
            hold.wait(5)
        return item

    results = in_order(work, range(9), concurrency=1)
    assert next(results) == 0
    threading.Timer(0.01, hold.set).start()
    getattr(results, "close")()  # noqa: B009 -- iterators of this kind can be closed
    assert begun in ([0], [0, 1])
