"""What the tests of the MCP server share: calls by the official client, in process over memory streams."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
from mcp.client.client import Client
from mcp_types import CallToolResult, TextContent

from backread import Memory
from backread.server.mcp import create_server

__all__ = ["Mcp", "connected", "text_of"]

T = TypeVar("T")


def text_of(result: CallToolResult) -> str:
    """The one text of a result."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def connected(memory: Memory, use: Callable[[Client], Awaitable[T]], *, user_id: str | None = "ann") -> T:
    """What `use` gives for a client of a server over `memory`."""

    async def run() -> T:
        async with Client(create_server(memory, user_id=user_id), mode="legacy") as client:
            return await use(client)

    return anyio.run(run)


class Mcp:
    """Calls of tools, each by a client of its own; `ann` is whose they are."""

    def __init__(self, memory: Memory, user_id: str | None = "ann") -> None:
        self.memory, self.user_id = memory, user_id

    def call(self, name: str, /, **arguments: Any) -> CallToolResult:
        """The result of a call, whatever it is."""
        return connected(self.memory, lambda client: client.call_tool(name, arguments), user_id=self.user_id)

    def value(self, name: str, /, **arguments: Any) -> Any:
        """The structured value of a call, which must not fail; the client checks it against the tool's schema."""
        result = self.call(name, **arguments)
        assert not result.is_error, text_of(result)
        return result.structured_content

    def text(self, name: str, /, **arguments: Any) -> str:
        """The text of a call, which must not fail."""
        result = self.call(name, **arguments)
        assert not result.is_error, text_of(result)
        return text_of(result)

    def error(self, name: str, /, **arguments: Any) -> str:
        """The text of a call that must fail: it has no value."""
        result = self.call(name, **arguments)
        assert (result.is_error, result.structured_content) == (True, None)
        return text_of(result)

    def add(self, *texts: str, **more: Any) -> Any:
        """The receipt of user messages in the session s1."""
        messages = [{"role": "user", "content": text} for text in texts]
        return self.value("add_memory", **{"messages": messages, "session_id": "s1", **more})
