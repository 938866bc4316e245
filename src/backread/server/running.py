"""Running the server: where it listens, and how it ends without losing anything."""

from __future__ import annotations

import os
import signal
import socket
from types import FrameType
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from backread.errors import InvalidInputError
from backread.server.guard import is_loopback
from backread.server.keys import Keys

__all__ = ["address", "listen", "run"]

_BACKLOG: Final = 2048
_INTERRUPTED: Final = 130


def listen(host: str, port: int, keys: Keys | None) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Raises:
        InvalidInputError: the address can't be had, or others could reach it and there are no keys.
    """
    if keys is None and not is_loopback(host):
        raise InvalidInputError(
            f"without keys everybody who reaches {host} could read and erase everything",
            hint="give --keys FILE, or listen on 127.0.0.1",
        )
    if not 0 <= port <= 65535:
        raise InvalidInputError(f"{port} is no port", hint="a port is a number from 0 to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise InvalidInputError(
            f"{host}:{port}: {error.strerror or error}", hint="choose another --host or --port"
        ) from error
    # asyncio turns Nagle's algorithm off only where a socket says that it is TCP; with it each answer takes 40 ms more.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=made.detach())


def address(listening: socket.socket) -> str:
    """The URL of a server that listens."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """uvicorn's, which a second Ctrl-C ends at once: else Python would wait for every thread that waits for a model."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit and sig == signal.SIGINT:
            os._exit(_INTERRUPTED)
        super().handle_exit(sig, frame)


def run(app: ASGIApp, listening: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT, then end: nothing new is taken in, what runs is finished and answered.

    A second SIGINT ends the process at once. What was acknowledged is on the disk in any case.
    """
    config = uvicorn.Config(
        app,
        lifespan="on",
        ws="none",
        log_config=None,  # logging is its owner's
        log_level="warning",
        access_log=False,  # paths hold ids of users
        proxy_headers=False,
        server_header=False,
    )
    server = _Server(config)

    def stop(number: int, frame: object) -> None:
        # uvicorn handles signals while it serves, and raises them again when it has ended: that is no failure.
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
