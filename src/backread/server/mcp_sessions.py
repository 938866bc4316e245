"""Sessions over MCP's HTTP: each belongs to the key that opened it, and nobody opens too many."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backread.server.keys import Principal
from backread.server.limits import Limits

__all__ = ["OwnSessions"]

_SESSION: Final = "mcp-session-id"


@dataclass(slots=True)
class _Session:
    owner: str | None
    key: bytes
    used: float
    in_flight: int = 0


@dataclass(slots=True)
class OwnSessions:
    """Passes on what belongs to a session of the same key; to all others it looks as if there was no such session.

    Args:
        app: the SDK's, behind our guard.
        limits: sessions of one owner and in all, and seconds until one that is not used is forgotten.
        clock: seconds that only grow.
    """

    app: ASGIApp
    limits: Limits
    clock: Callable[[], float] = time.monotonic
    _sessions: dict[str, _Session] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        principal: Principal | None = scope.get("state", {}).get("principal")
        owner = None if principal is None else principal.user_id
        key = hashlib.sha256(headers.get("authorization", "").encode()).digest()
        self._forget()
        name = headers.get(_SESSION)
        if name is not None:
            await self._passed(name, key, scope, receive, send)
        elif scope["method"] == "POST" and self._full(owner):
            told = PlainTextResponse("too many sessions are open", 429, {"Retry-After": "60"})
            await told(scope, receive, send)
        else:
            await self.app(scope, receive, self._noting(owner, key, send))

    async def _passed(self, name: str, key: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._sessions.get(name)
        if session is None or session.key != key:
            await PlainTextResponse("Session not found", 404)(scope, receive, send)
            return
        session.in_flight += 1
        try:
            await self.app(scope, receive, send)
        finally:
            session.in_flight -= 1
            session.used = self.clock()
            if scope["method"] == "DELETE":
                self._sessions.pop(name, None)

    def _noting(self, owner: str | None, key: bytes, send: Send) -> Send:
        """`send`, which keeps the name of a session that was opened."""

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                name = Headers(raw=message["headers"]).get(_SESSION)
                if name is not None:
                    self._sessions[name] = _Session(owner, key, self.clock())
            await send(message)

        return noted

    def _full(self, owner: str | None) -> bool:
        of_owner = sum(session.owner == owner for session in self._sessions.values())
        return of_owner >= self.limits.mcp_sessions_per_user or len(self._sessions) >= self.limits.mcp_sessions

    def _forget(self) -> None:
        """Those that were not used for so long that the SDK ends them."""
        past = self.clock() - self.limits.mcp_idle_seconds
        gone = [name for name, session in self._sessions.items() if not session.in_flight and session.used < past]
        for name in gone:
            del self._sessions[name]
