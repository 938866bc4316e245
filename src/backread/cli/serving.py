"""`backread serve`: the store over HTTP."""

from __future__ import annotations

import importlib.util
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from backread.cli.opening import open_memory
from backread.cli.options import Limit, StorePath
from backread.cli.output import counted, note
from backread.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from backread.server.keys import Keys
    from backread.server.upstream import Upstream

__all__ = ["serve"]

INSTALL: Final = "pip install 'backread[server]'"
_PACKAGES: Final = ("fastapi", "jinja2", "prometheus_client", "uvicorn")


def serve(
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="N", help="0 takes a free one.")] = 8765,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys",
            metavar="FILE",
            envvar="BACKREAD_KEYS_FILE",
            help="Hashes of keys, with whose they are: TOML or JSON.",
        ),
    ] = None,
    reports: Annotated[
        Path | None,
        typer.Option(
            "--reports", metavar="FOLDER", help="Bench reports that the page shows: each report.html in it or below."
        ),
    ] = None,
    upstream: Annotated[
        str | None,
        typer.Option(
            "--upstream",
            metavar="URL",
            envvar="BACKREAD_UPSTREAM",
            help="A chat server of OpenAI's API, to put memory in front of. Its key: BACKREAD_UPSTREAM_KEY.",
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", "-u", metavar="ID", help="Whose chats those are that name nobody, with --upstream."),
    ] = None,
    limit: Limit = None,
    path: StorePath = None,
) -> None:
    """Serve the store over HTTP: a page for people, and an API for programs.

    Without keys it serves whoever is on this machine, and nobody else. The
    keys may also be in BACKREAD_KEYS, as JSON. Stops with Ctrl-C or SIGTERM,
    after what it is doing.

      backread serve
      backread serve --path memory.db --host 0.0.0.0 --keys keys.toml
      backread serve --upstream http://127.0.0.1:8080/v1 --user ann
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"the server needs what is not installed ({', '.join(missing)})", hint=INSTALL)
    from backread.server.app import create_app
    from backread.server.limits import read_limits
    from backread.server.running import address, listen, run

    limits = read_limits(limit or [])
    known = _keys(keys)
    behind = _upstream(upstream, user)
    with (
        listen(host, port, known) as listening,
        open_memory(path, create=True, embedder=True, chat=True) as memory,
    ):
        there = memory.stats()
        holds = f"{counted(there.turns, 'turn')} of {counted(there.users, 'user')}"
        note(f"{address(listening)} serves {memory.settings.path} ({holds})", label="serve")
        if known is None:
            note("there are no keys: whoever is on this machine may read and erase everything", label="serve")
        app = create_app(memory, keys=known, limits=limits, reports=reports)
        if behind is not None:
            _put_in_front(app, replace(behind, timeout=memory.settings.timeout), known is not None, user)
            note(f"{address(listening)}/v1 is a chat server in front of {behind.base_url}", label="serve")
        run(app, listening, limits)


def _put_in_front(app: FastAPI, behind: Upstream, keyed: bool, user: str | None) -> None:
    from backread.server.proxy import proxy_router

    app.include_router(proxy_router(behind, keyed=keyed, user_id=user))


def _upstream(url: str | None, user: str | None) -> Upstream | None:
    from backread.server.upstream import Upstream

    if url is None:
        if user is not None:
            raise InvalidInputError("--user is for --upstream", hint="the API names the user in its paths")
        return None
    if user is not None and not user.strip():
        raise InvalidInputError("--user is blank")
    return Upstream.at(url, api_key=os.environ.get("BACKREAD_UPSTREAM_KEY") or None)


def _keys(file: Path | None) -> Keys | None:
    from backread.server.keys import parse_keys, read_keys

    given = os.environ.get("BACKREAD_KEYS")
    if file is not None and given:
        raise InvalidInputError("keys are in BACKREAD_KEYS and in a file", hint="leave one of them out")
    if file is not None:
        return read_keys(file)
    if not given:
        return None
    try:
        data = json.loads(given)
    except ValueError as error:
        raise InvalidInputError(f"BACKREAD_KEYS is not JSON: {error}", hint="or name a file with --keys") from error
    return parse_keys(data, "BACKREAD_KEYS")
