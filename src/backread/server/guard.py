"""What every request passes before it is looked at: the host it names, its key, its size; and what every answer bears.

Plain ASGI, so that what others mount on the app is guarded too. A path needs a key unless it is listed as open.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
from collections.abc import Collection
from typing import Final
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backread.server.keys import ADMIN, Keys, Principal
from backread.server.limits import Limits
from backread.server.problems import SECURITY_HEADERS, Problem, problem, respond

__all__ = ["OPEN_PATHS", "PAGE_PREFIX", "EncodedPaths", "Guard", "SecurityHeaders", "is_loopback"]

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/v1/openapi.json"})
"""Paths that need no key: they tell nothing of what is stored."""

PAGE_PREFIX: Final = "/ui/"
"""Paths of the page, as "/" is. They pass without a key: the page signs people in itself, with a cookie."""

_BEARER: Final = re.compile(r"Bearer +([!-~]+)", re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """True for names and addresses of this machine that no other machine can reach."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class EncodedPaths:
    """Matches paths of the API and the page as they were sent: an id keeps its "%2F" until its segment is cut out.

    Decoded first, as ASGI has it, "a/b" would be two segments, and "%2F" and "/" the same id.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] == "http":
            raw = scope.get("raw_path")
            path = quote(scope["path"]) if raw is None else raw.decode("latin-1")
            if path.removeprefix(scope.get("root_path", "")).startswith(("/v1/", PAGE_PREFIX)):
                scope["path"] = path
        await self._app(scope, receive, send)


class SecurityHeaders:
    """Puts `SECURITY_HEADERS` on every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS:
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


class Guard:
    """Refuses requests without a good key, with a body that is too large, or that a web page could have forged.

    Without keys everybody is an admin. Such a server listens on loopback only, and answers only requests that name a
    host of loopback: a page whose name was made to point here (DNS rebinding) names another.

    Args:
        app: what is guarded.
        keys: whose requests are served; None serves everyone on this machine.
        limits: how large a body may be, and how long it may take.
        open_paths: paths that need no key.
    """

    def __init__(
        self, app: ASGIApp, *, keys: Keys | None, limits: Limits, open_paths: Collection[str] = OPEN_PATHS
    ) -> None:
        self._app = app
        self._keys = keys
        self._limit, self._seconds = limits.body_bytes, limits.body_seconds
        self._open = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that is refused, pass on all others with `scope["state"]["principal"]` set."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        found = self._look(scope, headers)
        if isinstance(found, Problem):
            challenge = {"WWW-Authenticate": "Bearer"} if found.status == 401 else None
            if scope["type"] == "http":
                await respond(found, headers=challenge)(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
            return
        scope.setdefault("state", {})["principal"] = found
        await self._app(scope, self._counted(receive), send)

    def _look(self, scope: Scope, headers: Headers) -> Principal | Problem | None:
        """Who asks, None for nobody at an open path; or why not."""
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self._limit:
            return self._too_large()
        if self._keys is None:
            host = re.sub(r":\d*$", "", headers.get("host", ""))
            if not is_loopback(host):
                hint = "ask for it as 127.0.0.1 or localhost; other names need a server with keys"
                return problem(403, "this server has no keys and answers only to names of this machine", hint=hint)
            return ADMIN
        match = _BEARER.fullmatch(headers.get("authorization", "").strip())
        owner = self._keys.owner(match[1]) if match else None
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if owner is None and path not in self._open and path != "/" and not path.startswith(PAGE_PREFIX):
            return problem(401, "this needs a key", hint="send Authorization: Bearer and your key")
        return owner

    def _counted(self, receive: Receive) -> Receive:
        """`receive`, which stops a body that turns out to be too large, or is waited for too long."""
        read, waited, complete = 0, 0.0, False

        async def counted() -> Message:
            nonlocal read, waited, complete
            if complete:
                return await receive()
            started = time.monotonic()
            try:
                async with asyncio.timeout(self._seconds - waited):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the body did not come within {self._seconds:g} seconds") from None
            finally:
                waited += time.monotonic() - started
            if message["type"] == "http.request":
                complete = not message.get("more_body", False)
                read += len(message.get("body", b""))
                if read > self._limit:
                    told = self._too_large()
                    raise HTTPException(told.status, told.detail)
            return message

        return counted

    def _too_large(self) -> Problem:
        return problem(413, f"the body has more than {self._limit:,} bytes")
