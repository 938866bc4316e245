"""Locks and what else must be made anew in a forked child, whose other threads are gone.

A lock that another thread held at the fork stays held in the child for ever, and SQLite's own locks are no different.
So a fork waits, briefly, until no other thread is inside a database (`enter`), and the child starts with free locks.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from types import TracebackType

__all__ = ["Lock", "abandon", "enter", "in_child", "leave"]

_WAIT_S = 1.0  # a fork isn't kept for longer by a thread that reads on and on

_locks: weakref.WeakSet[Lock] = weakref.WeakSet()
_renewals: list[weakref.WeakMethod[Callable[[], None]]] = []


class Lock:
    """`threading.Lock` as a context manager, free in a forked child whoever held it in the parent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def acquire(self, blocking: bool = True) -> bool:
        """See `threading.Lock.acquire`."""
        return self._lock.acquire(blocking)

    def release(self) -> None:
        """See `threading.Lock.release`; a lock that was taken before the fork is free in the child already."""
        if self._lock.locked():
            self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def renew(self) -> None:
        """Be free, in the child."""
        self._lock = threading.Lock()


class _Gate:
    """Who is inside a database now, by thread; shut while the process forks."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: dict[int, int] = {}
        self._shut = False

    def enter(self) -> None:
        me = threading.get_ident()
        depth = self._inside.get(me, 0)
        self._inside[me] = depth + 1  # first, so that whoever shuts the gate after the next line was looked at sees it
        while self._shut and not depth:  # a thread that is inside may go further in, or none comes out
            self.leave()
            with self._changed:
                self._changed.wait_for(lambda: not self._shut)
            self._inside[me] = 1

    def leave(self) -> None:
        me = threading.get_ident()
        depth = self._inside.pop(me, 0) - 1
        if depth > 0:
            self._inside[me] = depth
        elif self._shut:
            with self._changed:
                self._changed.notify_all()

    def shut(self) -> None:
        me, until = threading.get_ident(), time.monotonic() + _WAIT_S
        with self._changed:
            self._shut = True
            while any(thread != me for thread in list(self._inside)) and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)

    def open(self) -> None:
        with self._changed:
            self._shut = False
            self._changed.notify_all()


_gate = _Gate()


def enter() -> None:
    """The calling thread goes into a database: a fork of another thread waits until it leaves, or a second."""
    _gate.enter()


def leave() -> None:
    """The calling thread comes out; once for each `enter`."""
    _gate.leave()


def in_child(renew: Callable[[], None]) -> None:
    """Call the method in each child this process forks, for as long as its object lives."""
    _renewals[:] = [known for known in _renewals if known() is not None]
    _renewals.append(weakref.WeakMethod(renew))


def abandon(part: object) -> None:
    """Never end an object that is the parent's, not when the interpreter ends either, by a reference nobody drops.

    Its end would wait for threads that are not there, or undo what the parent does.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(part))


def _shut() -> None:
    _gate.shut()


def _open() -> None:
    _gate.open()


def _renew() -> None:
    global _gate
    _gate = _Gate()
    for lock in list(_locks):
        lock.renew()
    for known in list(_renewals):
        if (renew := known()) is not None:
            renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_shut, after_in_parent=_open, after_in_child=_renew)
