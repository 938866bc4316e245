"""Sessions over MCP's HTTP: of one key, not too many, and forgotten when they are not used."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from backread.server.keys import ADMIN, Principal
from backread.server.limits import Limits
from backread.server.mcp_sessions import OwnSessions


class Sessions:
    """A server that opens a session for every POST without one, behind what is tested."""

    def __init__(self, **limits: Any) -> None:
        self.now, self.reached = 0.0, 0
        self.app = OwnSessions(self._answer, Limits(**limits), clock=lambda: self.now)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.reached += 1
        given = dict(scope["headers"]).get(b"mcp-session-id")
        headers = {} if given else {"mcp-session-id": f"session{self.reached}"}
        await PlainTextResponse("ok", 200, headers)(scope, receive, send)

    def send(self, method: str, key: str, session: str | None = None) -> tuple[int, str | None]:
        """(status, the session that was opened) of a request."""
        headers = [(b"authorization", f"Bearer {key}".encode())]
        if session is not None:
            headers.append((b"mcp-session-id", session.encode()))
        state = {"principal": ADMIN if key == "root" else Principal(key.partition("-")[0])}
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": method, "headers": headers, "state": state}
        asyncio.run(self.app(scope, receive, send))
        named = dict(sent[0]["headers"]).get(b"mcp-session-id")
        return sent[0]["status"], None if named is None else named.decode()


def test_a_session_belongs_to_its_key() -> None:
    server = Sessions()
    status, session = server.send("POST", "ann-1")
    assert (status, session is not None) == (200, True)
    for key in ("bo", "root", "ann-2"):
        for method in ("POST", "GET", "DELETE"):
            assert server.send(method, key, session)[0] == 404
    assert server.reached == 1
    assert server.send("POST", "ann-1", session)[0] == 200
    assert server.send("DELETE", "ann-1", session)[0] == 200
    assert server.send("POST", "ann-1", session)[0] == 404
    assert server.send("POST", "ann-1", "guessed")[0] == 404


def test_nobody_opens_too_many_and_those_not_used_are_forgotten() -> None:
    server = Sessions(mcp_sessions=5, mcp_sessions_per_user=3, mcp_idle_seconds=60.0)
    mine = [server.send("POST", f"ann-{number}")[1] for number in range(3)]
    assert server.send("POST", "ann-9")[0] == 429
    assert [server.send("POST", "bo")[0] for _ in range(3)] == [200, 200, 429]
    server.now = 50.0
    assert server.send("POST", "ann-0", mine[0])[0] == 200
    server.now = 61.0
    assert server.send("POST", "ann-1", mine[1])[0] == 404
    assert server.send("POST", "ann-0", mine[0])[0] == 200
    assert [server.send("POST", "ann-9")[0] for _ in range(3)] == [200, 200, 429]
