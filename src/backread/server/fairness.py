"""Whose turn it is: each user has a few places at work and a few in a waiting room, and users take turns.

What has no place costs nothing but its connection.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from typing import Final

from starlette.exceptions import HTTPException

from backread.server.limits import Limits

__all__ = ["Gate", "Gates"]

_RETRY: Final = {"Retry-After": "5"}


class Gate:
    """Places at work, given to users in turn. For one event loop.

    Args:
        places: in all.
        per_user: of them, for one user.
        waiting: that may wait for a place, in all.
        waiting_per_user: of them, for one user.
    """

    def __init__(self, places: int, per_user: int, waiting: int, waiting_per_user: int) -> None:
        self._free, self._per_user = places, per_user
        self._waiting, self._waiting_per_user = waiting, waiting_per_user
        self._at_work: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()  # whose turn it is stands first

    def enter(self, user: str) -> asyncio.Future[None]:
        """A place; the future is done once it is this one's turn, and is given back with `leave` in any case.

        Raises:
            HTTPException: 429 when too many of this user wait already, 503 when too many of all do.
        """
        queue = self._queues.get(user, ())
        if self._free == 0 or self._at_work[user] >= self._per_user:
            if len(queue) >= self._waiting_per_user:
                raise HTTPException(429, f"{len(queue)} requests of this user wait already", headers=_RETRY)
            if sum(map(len, self._queues.values())) >= self._waiting:
                raise HTTPException(503, "too many requests wait already", headers=_RETRY)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(user, deque()).append(place)
        self._admit()
        return place

    def leave(self, user: str, place: asyncio.Future[None]) -> None:
        """Give a place back, or the wait for one up."""
        if place.done() and not place.cancelled():
            self._free += 1
            self._at_work[user] -= 1
            if not self._at_work[user]:
                del self._at_work[user]
        elif user in self._queues and place in self._queues[user]:
            self._queues[user].remove(place)
            if not self._queues[user]:
                del self._queues[user]
        self._admit()

    def _admit(self) -> None:
        """Give what is free to those whose turn it is."""
        while self._free:
            user = next((name for name in self._queues if self._at_work[name] < self._per_user), None)
            if user is None:
                return
            place = self._queues[user].popleft()
            self._queues.move_to_end(user)
            if not self._queues[user]:
                del self._queues[user]
            if not place.done():
                self._free -= 1
                self._at_work[user] += 1
                place.set_result(None)


class Gates:
    """The two gates of a server: that of questions, which may wait for a chat model, and that of everything else."""

    def __init__(self, limits: Limits) -> None:
        rooms = (limits.waiting, limits.waiting_per_user)
        self.requests = Gate(limits.requests, limits.requests_per_user, *rooms)
        self.asks = Gate(limits.asks, limits.asks_per_user, *rooms)
