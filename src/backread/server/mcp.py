"""The MCP server: the tools over stdio or streamable HTTP, by the official SDK.

Needs the extra `mcp`, and `server` as well to speak HTTP. A call of a tool that fails is a result that says so, for the
model to read; only what is no call of a tool at all is an error of the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import InitVar, dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self, TypeVar

import anyio
import anyio.to_thread
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
    jsonrpc_message_adapter,
)
from mcp_types import Tool as Described
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

import backread
from backread.memory import Memory
from backread.server.fairness import Gates
from backread.server.limits import Limits, bounded, evidence_tokens
from backread.server.mcp_sessions import OwnSessions
from backread.server.tool_arguments import checked, flat_schema
from backread.server.tool_results import carried
from backread.server.tools import TOOLS, Tool, told

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream

__all__ = ["PATH", "create_server", "http_app", "own_stdout", "serve_stdio"]

PATH: Final = "/mcp"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Threads:
    """Where calls run, so that none keeps another waiting: those that may wait for a chat model have their own."""

    limits: InitVar[Limits]
    quick: ThreadPoolExecutor = field(init=False)
    waiting: ThreadPoolExecutor = field(init=False)

    def __post_init__(self, limits: Limits) -> None:
        object.__setattr__(self, "quick", ThreadPoolExecutor(limits.requests, thread_name_prefix="tool"))
        object.__setattr__(self, "waiting", ThreadPoolExecutor(limits.asks, thread_name_prefix="ask"))

    def close(self) -> None:
        """Wait for what is at work; what did not begin never will."""
        for pool in (self.quick, self.waiting):
            pool.shutdown(wait=True, cancel_futures=True)


Context = ServerRequestContext[Threads]


def create_server(memory: Memory, *, user_id: str | None = None, limits: Limits | None = None) -> Server[Threads]:
    """The tools over `memory`, which stays its owner's to close.

    Args:
        memory: what is served.
        user_id: whose history; then no tool takes a user. None lets each call name one, but for HTTP requests with
            the key of a user, which are bound to that user.
        limits: what one user and all together may ask of it. Who is alone may use all places.
    """
    limits = limits or Limits()
    alone = replace(limits, requests_per_user=limits.requests, asks_per_user=limits.asks)
    gates = Gates(limits if user_id is None else alone)

    @asynccontextmanager
    async def lifespan(server: Server[Threads]) -> AsyncIterator[Threads]:
        threads = Threads(limits)
        try:
            yield threads
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(threads.close)

    async def list_tools(ctx: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        bound = _bound(ctx, user_id)
        return ListToolsResult(tools=[_described(tool, any_user=bound is None) for tool in TOOLS.values()])

    async def call_tool(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"there is no tool {params.name!r}; there are {', '.join(TOOLS)}")
        threads: Threads = ctx.lifespan_context
        bound, given, cancel = _bound(ctx, user_id), params.arguments or {}, threading.Event()
        work = partial(_call, memory, tool, given, bound, limits, cancel)
        gate, pool = (gates.asks, threads.waiting) if tool.waits else (gates.requests, threads.quick)
        user = str(given.get("user_id")) if bound is None else bound
        try:
            place = gate.enter(user)
        except HTTPException as error:
            return CallToolResult(content=[_text(f"error: {error.detail}\nhint: try again later")], is_error=True)
        try:
            await place
            return await _in_thread(pool, work, cancel)
        finally:
            gate.leave(user, place)

    return Server(
        "backread",
        version=backread.__version__,
        title="backread",
        instructions=files("backread.server").joinpath("prompts/mcp.md").read_text(encoding="utf-8"),
        lifespan=lifespan,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


@contextmanager
def own_stdout() -> Iterator[BinaryIO]:
    """A stream to where stdout leads; whatever else is printed meanwhile, by Python or by C, goes to stderr."""
    given = sys.stdout
    given.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr), os.fdopen(kept, "wb", closefd=False) as stream:
            yield stream
    finally:
        given.flush()  # what somebody still wrote to the object itself, before it leads to the client again
        os.dup2(kept, 1)
        os.close(kept)


def serve_stdio(memory: Memory, stdout: BinaryIO, *, user_id: str | None = None) -> None:
    """Serve one client on stdin and `stdout`, until it closes stdin.

    Args:
        memory: what is served.
        stdout: that of `own_stdout`, which must carry the protocol alone from the first byte on.
        user_id: see `create_server`.
    """
    try:
        anyio.run(_serve_stdio, memory, stdout, user_id)
    except BaseExceptionGroup as group:
        if group.split(BrokenPipeError)[1] is not None:
            raise  # else the client is gone, which is the end as well


def http_app(
    memory: Memory, *, user_id: str | None = None, host: str = "127.0.0.1", limits: Limits | None = None
) -> ASGIApp:
    """The tools over streamable HTTP at `PATH`, without any guard of its own but against pages of a browser.

    Args:
        memory: what is served.
        user_id: see `create_server`.
        host: where it listens; on loopback only requests that name this machine are answered.
        limits: see `create_server`; also how many sessions there may be, and for how long without a request.
    """
    limits = limits or Limits()
    server = create_server(memory, user_id=user_id, limits=limits)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=host,
        max_request_body_size=limits.body_bytes,
    )
    server.session_manager.session_idle_timeout = limits.mcp_idle_seconds  # not an argument in all versions of the SDK
    return OwnSessions(app, limits)


async def _serve_stdio(memory: Memory, stdout: BinaryIO, user_id: str | None) -> None:
    server = create_server(memory, user_id=user_id)
    text = anyio.wrap_file(io.TextIOWrapper(stdout, encoding="utf-8", newline="\n"))
    async with stdio_server(stdout=text) as (read, write):
        await server.run(_Answering(read, write), write, server.create_initialization_options())


class _Answering:
    """The messages of a client, where one that can't be read is answered as JSON-RPC has it, and passed over."""

    def __init__(self, read: ReadStream[SessionMessage | Exception], write: WriteStream[SessionMessage]) -> None:
        self._read, self._write = read, write

    async def receive(self) -> SessionMessage | Exception:
        while isinstance(item := await self._read.receive(), Exception):
            if (message := _read_again(item)) is not None:
                return SessionMessage(message)
            await self._write.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=_unreadable(item))))
        return item

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    def __aiter__(self) -> Self:
        return self

    async def aclose(self) -> None:
        await self._read.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _read_again(error: Exception) -> JSONRPCMessage | None:
    """The message that could not be read, when all that is wrong is half of a surrogate pair; else None."""
    if not _is_no_json(error):
        return None
    try:
        line = error.errors()[0]["input"] if isinstance(error, ValidationError) else ""
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_python(json.loads(line), by_name=False)
    except (TypeError, ValueError, RecursionError):
        return None
    return message


def _unreadable(error: Exception) -> ErrorData:
    if _is_no_json(error):
        return ErrorData(code=PARSE_ERROR, message="the message is not JSON")
    return ErrorData(code=INVALID_REQUEST, message="the message is not a JSON-RPC request")


def _is_no_json(error: Exception) -> bool:
    return not isinstance(error, ValidationError) or error.errors()[0]["type"] == "json_invalid"


def _bound(ctx: Context, user_id: str | None) -> str | None:
    """The one user a call is for: the server's, or that of the key that an HTTP request was sent with."""
    principal = getattr(getattr(ctx.request, "state", None), "principal", None)
    owner: str | None = getattr(principal, "user_id", None)
    if user_id is not None and owner not in (None, user_id):
        raise MCPError(INVALID_REQUEST, "this key is not for the user of this server")
    return owner if user_id is None else user_id


def _call(
    memory: Memory,
    tool: Tool[Any],
    given: dict[str, Any],
    bound: str | None,
    limits: Limits,
    cancel: threading.Event,
) -> CallToolResult:
    try:
        arguments = checked(tool.takes(any_user=bound is None), given)
        for name in ("query", "question"):
            bounded(getattr(arguments, name, ""), f"the {name}", limits)
        if (budget := getattr(arguments, "budget", None)) is not None:
            arguments = arguments.model_copy(update={"budget": evidence_tokens(budget, limits)})
        user_id: str = getattr(arguments, "user_id", "") if bound is None else bound
        value, text = tool.run(memory, user_id, arguments, *([cancel] if tool.waits else []))
        return CallToolResult(content=[_text(text)], structured_content=carried(value))
    except Exception as error:  # noqa: BLE001 -- told to the model, which may do better
        return CallToolResult(content=[_text(told(error))], is_error=True)


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=carried(text))


async def _in_thread(pool: Executor, work: Callable[[], T], cancel: threading.Event) -> T:
    """What the work gives; when nobody waits any longer it is told so, and waited for even so."""
    running = asyncio.get_running_loop().run_in_executor(pool, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        cancel.set()
        with anyio.CancelScope(shield=True):
            await asyncio.wait((running,))
        raise


@cache
def _described(tool: Tool[Any], *, any_user: bool) -> Described:
    return Described(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=flat_schema(tool.takes(any_user=any_user).model_json_schema(), nulls=False),
        output_schema=tool.output_schema,
        annotations=ToolAnnotations(
            read_only_hint=tool.reads,
            destructive_hint=tool.erases,
            idempotent_hint=tool.reads or tool.erases,
            open_world_hint=False,
        ),
    )
