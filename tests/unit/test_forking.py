"""A forked child has free locks and connections of its own, whatever other threads of its parent were doing."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backread import Memory, forking
from backread.errors import StoreError
from backread.testing.fakes import HashEmbedder

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.timeout(120),
]

_WAIT_S = 30.0


def in_fork(work: Callable[[], object]) -> int | None:
    """The exit code of a forked process that did `work`, None when it hung."""
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(_WAIT_S)
    hung = child.is_alive()
    if hung:
        child.kill()
        child.join()
    return None if hung else child.exitcode


def in_thread(work: Callable[[], object], stop: threading.Event) -> threading.Thread:
    def go_on() -> None:
        while not stop.is_set():
            work()

    thread = threading.Thread(target=go_on)
    thread.start()
    return thread


@contextmanager
def busy(*works: Callable[[], object]) -> Iterator[None]:
    """Threads that do each of these over and over."""
    stop = threading.Event()
    threads = [in_thread(work, stop) for work in works]
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_lock_held_by_another_thread_is_free_in_the_child() -> None:
    lock = forking.Lock()
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            done.wait()

    def use() -> None:
        assert lock.acquire(blocking=False)
        lock.release()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        assert in_fork(use) == 0
        assert not lock.acquire(blocking=False)  # the parent's is what it was
    finally:
        done.set()
        thread.join()
    with lock:
        assert not lock.acquire(blocking=False)


def test_the_child_calls_what_was_asked_for_while_its_object_lives() -> None:
    class Part:
        def __init__(self) -> None:
            self.pid = os.getpid()
            forking.in_child(self.renew)

        def renew(self) -> None:
            self.pid = os.getpid()

    part, gone = Part(), Part()
    del gone
    gc.collect()

    def look() -> None:
        assert part.pid == os.getpid()

    assert in_fork(look) == 0
    assert part.pid == os.getpid()


def test_a_fork_waits_for_who_is_inside_a_database_but_not_for_ever() -> None:
    inside, leave = threading.Event(), threading.Event()
    left: list[float] = []

    def stay() -> None:
        forking.enter()
        forking.enter()
        forking.leave()
        inside.set()
        leave.wait()
        left.append(time.monotonic())
        forking.leave()

    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait()
    threading.Timer(0.2, leave.set).start()
    assert in_fork(lambda: None) == 0
    assert left  # it was waited for
    thread.join()
    forking.enter()
    assert in_fork(lambda: None) == 0  # a fork from inside doesn't wait for itself
    forking.leave()


def test_forked_children_add_while_the_parent_adds(tmp_path: Path) -> None:  # STO-02
    path = tmp_path / "memory.db"
    with Memory.open(path, embedder=HashEmbedder()) as memory:
        memory.add({"role": "user", "content": "the first"}, user_id="ann")
        added: list[str] = []

        def add() -> None:
            added.extend(memory.add({"role": "user", "content": f"of the parent {len(added)}"}, user_id="ann").turn_ids)

        def search() -> None:
            memory.search("parent", user_id="ann")

        with busy(add, search):
            for number in range(6):

                def child(number: int = number) -> None:
                    memory.add({"role": "user", "content": f"of child {number}"}, user_id="ann")
                    assert any(f"child {number}" in hit.turn.text for hit in memory.search("child", user_id="ann"))
                    memory.close()

                assert in_fork(child) == 0
        texts = [turn.text for turn in memory.history("ann").turns()]
        assert sorted(text for text in texts if "child" in text) == [f"of child {number}" for number in range(6)]
        assert len(texts) == 7 + len(added)
        assert memory.verify().ok
        memory.delete(user_id="ann", turn_id=added[0])
        assert memory.verify().ok
    assert [file.name for file in tmp_path.iterdir()] == ["memory.db"]


def test_a_child_forked_inside_a_transaction_neither_ends_nor_undoes_it(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", embedder=HashEmbedder()) as memory:
        memory.add({"role": "user", "content": "the first"}, user_id="ann")
        pool = memory._store._pool  # type: ignore[attr-defined]
        read, write = os.pipe()
        pid = 0

        def commit_in_child() -> None:
            nonlocal pid
            with pool.write() as db:
                db.execute("UPDATE users SET version = version + 1")
                pid = os.fork()

        try:
            commit_in_child()
        except StoreError as error:
            assert not pid
            os.write(write, str(error).encode())
        finally:
            if not pid:
                os._exit(0)
        os.close(write)
        assert "forked inside a transaction" in os.read(read, 1000).decode()
        os.close(read)
        os.waitpid(pid, 0)
        assert memory.verify().ok
        assert memory.add({"role": "user", "content": "the second"}, user_id="ann").stored == 1
