"""What the operations work with: the memory, who asks, and the checks that every operation makes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from backread.memory import Memory
from backread.server.builds import Builds
from backread.server.fairness import Gates
from backread.server.keys import Principal
from backread.server.limits import Limits
from backread.server.metrics import Metrics
from backread.server.problems import PROBLEM_TYPE
from backread.server.requests import PathText
from backread.wire import json_text

__all__ = ["AdminOnly", "JsonOnly", "NoQuery", "Served", "Service", "UserId", "answered", "fails"]


@dataclass(frozen=True, slots=True)
class Service:
    """What one server is made of.

    Attributes:
        memory: over which it speaks.
        metrics: what it counts.
        builds: what it builds in the background.
        limits: what one user and all together may ask of it.
        gates: where requests wait for their turn.
        asking: threads for what may wait for a chat model.
        checking: a thread that looks whether the store can be read.
    """

    memory: Memory
    metrics: Metrics
    builds: Builds
    limits: Limits
    gates: Gates = field(init=False)
    asking: ThreadPoolExecutor = field(init=False)
    checking: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="check"))

    _reading: asyncio.Future[object] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gates", Gates(self.limits))
        object.__setattr__(self, "asking", ThreadPoolExecutor(self.limits.asks, thread_name_prefix="ask"))

    def readable(self) -> asyncio.Future[object]:
        """Done once the store was read; whoever asks meanwhile waits for the same reading."""
        if self._reading is None or self._reading.done():
            read = partial(self.memory.sessions, user_id="-")
            object.__setattr__(self, "_reading", asyncio.get_running_loop().run_in_executor(self.checking, read))
        assert self._reading is not None
        return self._reading

    def close(self) -> None:
        """Stop the builds and wait for what is at work. The memory stays open: it is its owner's to close."""
        self.builds.close()
        self.asking.shutdown(wait=True, cancel_futures=True)
        self.checking.shutdown(wait=True)


# The checks are coroutines, so that they run at once and don't wait for a thread.


async def _served(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _principal(request: Request) -> Principal:
    principal: Principal = request.state.principal
    return principal


async def _own_user(user_id: PathText, principal: Annotated[Principal, Depends(_principal)]) -> str:
    """The user of the path, when the key is for them; what is refused looks the same for users that don't exist."""
    if not principal.may_act_for(user_id):
        raise HTTPException(403, "this key is not for this user")
    return user_id


async def _admin_only(principal: Annotated[Principal, Depends(_principal)]) -> None:
    if not principal.is_admin:
        raise HTTPException(403, "this needs the key of an admin")


async def _no_query(request: Request) -> None:
    """Refuses query parameters where there are none: a misspelt or misplaced one must not be ignored."""
    given = [
        {"type": "extra_forbidden", "loc": ("query", name), "msg": "Extra inputs are not permitted"}
        for name in request.query_params
    ]
    if given:
        raise RequestValidationError(given)


async def _json_only(request: Request) -> None:
    """Refuses a body that isn't said to be JSON; a web page can't say so without asking (CORS), which is refused."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "the body is sent as application/json")


Served = Annotated[Service, Depends(_served)]
UserId = Annotated[str, Depends(_own_user)]
AdminOnly: Final = Depends(_admin_only)
NoQuery: Final = Depends(_no_query)
JsonOnly: Final = Depends(_json_only)


def answered(value: object, status: int = 200, *, headers: Mapping[str, str] | None = None) -> Response:
    """`value` as a JSON response, in ASCII; pydantic, which can't hold lone surrogates, never sees what is stored."""
    return Response(json_text(value), status, headers, media_type="application/json")


def fails(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What an operation declares of its failures: these, and those that every operation has."""
    schema = {"$ref": "#/components/schemas/Problem"}
    described = {status: _FAILURES[status] for status in sorted({*statuses, 401, 403, 422, 429, 500, 503})}
    return {
        status: {"description": text, "content": {PROBLEM_TYPE: {"schema": schema}}}
        for status, text in described.items()
    }


_FAILURES: Final[Mapping[int, str]] = {
    400: "The body is not JSON.",
    401: "No key, or one that is not known.",
    403: "The key is not for this.",
    404: "There is no such thing, seen from this user.",
    409: "It can't be done beside what is there.",
    413: "The body, or a message in it, is too large.",
    415: "The body is not said to be JSON.",
    408: "The body did not come in time.",
    422: "The request can't be used; nothing was stored or deleted.",
    429: "Too many requests of this user wait already.",
    500: "The record could not be read or written, or the server has a bug.",
    502: "A model could not do its work.",
    503: "Busy, or a model is not there.",
    507: "The user may store no more.",
}
