"""Routes whose requests wait for their turn; one whose client goes away meanwhile is forgotten."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from backread.server.fairness import Gate, Gates
from backread.server.keys import Principal
from backread.server.limits import Limits

__all__ = ["AddRoute", "Ahead", "AskRoute", "FairRoute"]

CLIENT_GONE: Final = 499
"""Counted as the status of a request whose client did not wait for an answer."""

_AHEAD_BYTES: Final = 64 * 1024


class Ahead:
    """A `receive` that can watch for its client to go away before anybody reads the body."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._read: deque[Message] = deque()

    async def __call__(self) -> Message:
        """The next message, in order."""
        return self._read.popleft() if self._read else await self._receive()

    async def gone(self) -> None:
        """Returns when the client went away; never for a body that is too large to be read ahead."""
        size = 0
        while size <= _AHEAD_BYTES:
            message = await self._receive()
            self._read.append(message)
            if message["type"] == "http.disconnect":
                return
            size += len(message.get("body", b""))
        await asyncio.Event().wait()


class FairRoute(APIRoute):
    """A route whose requests take places at the gate, from before their body is read until their answer is sent."""

    def body_bytes(self, limits: Limits) -> int:
        """Bytes of a request's body: a large one keeps all waiting while it is read."""
        return limits.question_bytes

    def gate(self, gates: Gates) -> Gate:
        """The gate they pass."""
        return gates.requests

    def asker(self, scope: Scope) -> str:
        """Whose places they take: the key's user; the user of the path, for an admin; "" for nobody."""
        principal: Principal | None = scope["state"].get("principal")
        if principal is None:
            return ""
        named: str = principal.user_id or scope.get("path_params", {}).get("user_id") or ""
        return named

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer once there is a place."""
        service = scope["app"].state.service
        most = self.body_bytes(service.limits)
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > most:
            raise _too_large(most)
        receive = _bounded(receive, most)
        gate, user = self.gate(service.gates), self.asker(scope)
        place = gate.enter(user)
        try:
            if not place.done():
                receive = ahead = Ahead(receive)
                watch = asyncio.ensure_future(ahead.gone())
                try:
                    await asyncio.wait((place, watch), return_when=asyncio.FIRST_COMPLETED)
                    if watch.done():
                        watch.result()  # a body that is too large or too late
                finally:
                    watch.cancel()
                    await asyncio.gather(watch, return_exceptions=True)
                if not place.done():
                    await Response(None, CLIENT_GONE)(scope, receive, send)
                    return
            await super().handle(scope, receive, send)
        finally:
            gate.leave(user, place)


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"the body has more than {most:,} bytes")


def _bounded(receive: Receive, most: int) -> Receive:
    read = 0

    async def bounded() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > most:
            raise _too_large(most)
        return message

    return bounded


class AddRoute(FairRoute):
    """A route that takes turns in."""

    def body_bytes(self, limits: Limits) -> int:
        """As many as any request may have."""
        return limits.body_bytes


class AskRoute(FairRoute):
    """A route of what takes long: questions, which may wait for a chat model, and exports, which wait for clients."""

    def gate(self, gates: Gates) -> Gate:
        """That of questions."""
        return gates.asks
