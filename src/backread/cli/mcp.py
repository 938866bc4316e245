"""`backread mcp`: the memory as tools for models, over the Model Context Protocol."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from backread.cli.opening import open_memory
from backread.cli.options import Limit, StorePath
from backread.cli.output import counted, note
from backread.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from backread.memory import Memory
    from backread.server.limits import Limits

__all__ = ["mcp"]

_NEEDED: Final = ("mcp",)
_NEEDED_FOR_HTTP: Final = ("mcp", "fastapi", "prometheus_client", "uvicorn")


def mcp(
    user: Annotated[
        str | None,
        typer.Option("--user", "-u", metavar="ID", help="Whose history. Default: each call of a tool names a user."),
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP at /mcp instead of stdin and stdout.")] = False,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen, with --http.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", help="With --http; 0 takes a free one.")] = 8766,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="FILE", help="Hashes of keys, with whose they are, for --http: TOML or JSON."),
    ] = None,
    limit: Limit = None,
    path: StorePath = None,
) -> None:
    """Serve the store as tools for models (MCP).

    A program such as a desktop assistant or an editor starts it and speaks to
    it on stdin and stdout. With --http it listens, without keys for this
    machine only.

      backread mcp --user ann
      backread mcp --http --keys keys.toml
    """
    _check(http, host, user, keys)
    if limit and not http:
        raise InvalidInputError("--limit is for --http", hint="whoever starts this command may use it")
    if http:
        from backread.server.limits import read_limits

        _over_http(user, host, port, keys, read_limits(limit or []), path)
        return
    from backread.server.mcp import own_stdout, serve_stdio

    with own_stdout() as stdout, open_memory(path, create=True, embedder=True, chat=True) as memory:
        _say(memory, "on stdin and stdout")
        serve_stdio(memory, stdout, user_id=user)


def _check(http: bool, host: str, user: str | None, keys: Path | None) -> None:
    needed = _NEEDED_FOR_HTTP if http else _NEEDED
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"the MCP server needs what is not installed ({', '.join(missing)})",
            hint=f"pip install 'backread[mcp{',server' if http else ''}]'",
        )
    if user is not None and not user.strip():
        raise InvalidInputError("--user is blank")
    if not http and (keys is not None or host != "127.0.0.1"):
        raise InvalidInputError("--host and --keys are for --http", hint="whoever starts this command may use it")
    if user is not None and keys is not None:
        raise InvalidInputError("each key says whose history it opens", hint="leave --user or --keys out")


def _over_http(user: str | None, host: str, port: int, keys: Path | None, limits: Limits, path: Path | None) -> None:
    from backread.server.guard import Guard, SecurityHeaders
    from backread.server.keys import read_keys
    from backread.server.mcp import PATH, http_app
    from backread.server.running import address, listen, run

    known = None if keys is None else read_keys(keys)
    with (
        listen(host, port, known) as listening,
        open_memory(path, create=True, embedder=True, chat=True) as memory,
    ):
        _say(memory, f"at {address(listening)}{PATH}")
        app = http_app(memory, user_id=user, host=host, limits=limits)
        run(SecurityHeaders(Guard(app, keys=known, limits=limits, open_paths=())), listening, limits)


def _say(memory: Memory, where: str) -> None:
    there = memory.stats()
    holds = f"{counted(there.turns, 'turn')} of {counted(there.users, 'user')}"
    note(f"serves {memory.settings.path} ({holds}) {where}", label="mcp")
