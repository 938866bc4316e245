"""The gate: places for each user, turns among users, and a waiting room with an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from backread.server.fairness import Gate


def looped(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_a_user_has_so_many_places_and_others_have_theirs() -> None:
    async def test() -> None:
        gate = Gate(places=4, per_user=2, waiting=100, waiting_per_user=50)
        ann = [gate.enter("ann") for _ in range(20)]
        assert [place.done() for place in ann] == [True] * 2 + [False] * 18
        assert gate.enter("bo").done()
        gate.leave("ann", ann[0])
        assert [place.done() for place in ann[:4]] == [True, True, True, False]

    looped(test)


def test_users_take_turns() -> None:
    async def test() -> None:
        gate = Gate(places=1, per_user=1, waiting=100, waiting_per_user=50)
        at_work = ("ann", gate.enter("ann"))
        waiting = [(user, gate.enter(user)) for user in ("ann", "ann", "ann", "bo", "carl")]
        order = []
        while waiting:
            gate.leave(*at_work)
            (at_work,) = [item for item in waiting if item[1].done()]
            waiting.remove(at_work)
            order.append(at_work[0])
        assert order == ["ann", "bo", "carl", "ann", "ann"]

    looped(test)


def test_the_waiting_room_is_full() -> None:
    async def test() -> None:
        gate = Gate(places=2, per_user=1, waiting=4, waiting_per_user=3)
        places = [gate.enter("ann") for _ in range(4)]
        with pytest.raises(HTTPException) as refused:
            gate.enter("ann")
        assert (refused.value.status_code, refused.value.headers) == (429, {"Retry-After": "5"})
        assert gate.enter("bo").done()
        gate.enter("bo")
        with pytest.raises(HTTPException) as refused:
            gate.enter("bo")
        assert refused.value.status_code == 503
        gate.leave("ann", places[2])  # one that waits gives up
        assert not gate.enter("bo").done()

    looped(test)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.booleans()), max_size=60))
def test_never_too_many_and_never_idle(steps: list[tuple[str, bool]]) -> None:
    async def test() -> None:
        gate = Gate(places=3, per_user=2, waiting=999, waiting_per_user=999)
        held: list[tuple[str, asyncio.Future[None]]] = []
        for user, leaves in steps:
            mine = [item for item in held if item[0] == user]
            if leaves and mine:
                held.remove(mine[-1])
                gate.leave(*mine[-1])
            else:
                held.append((user, gate.enter(user)))
            at_work = [name for name, place in held if place.done()]
            waiting = [name for name, place in held if not place.done()]
            assert len(at_work) <= 3
            assert all(at_work.count(name) <= 2 for name in "abc")
            if waiting and len(at_work) < 3:
                assert all(at_work.count(name) == 2 for name in waiting)
        for item in held:
            gate.leave(*item)
        assert all(place.done() for place in [gate.enter("x"), gate.enter("x"), gate.enter("y")])

    looped(test)
