"""Running the server: where it listens, and how it ends without losing anything."""

from __future__ import annotations

import math
import os
import signal
import socket
import sys
import threading
from types import FrameType
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from backread.errors import InvalidInputError
from backread.server.connections import BURST, connection_class
from backread.server.guard import is_loopback
from backread.server.keys import Keys
from backread.server.limits import Limits

__all__ = ["address", "listen", "run"]

_BACKLOG: Final = 2048
_ACCEPTED_AT_ONCE: Final = 64
"""Connections that are taken in before those that are there get their turn again."""

_INTERRUPTED: Final = 130
_ENDING_SECONDS: Final = 5.0
_SWITCH_SECONDS: Final = 0.0005
_OTHER_FILES: Final = 256


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
    """uvicorn's, which ends in time: a second Ctrl-C at once, else after a while of waiting for what still runs.

    Else Python would wait for every thread that waits for a model.
    """

    def __init__(self, config: uvicorn.Config, seconds: float) -> None:
        super().__init__(config)
        self._seconds = seconds

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_BACKLOG)  # asyncio has made it as short as what it accepts at a time

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit and sig == signal.SIGINT:
            os._exit(_INTERRUPTED)
        if not self.should_exit:
            broken_off = threading.Timer(self._seconds + _ENDING_SECONDS, os._exit, (0,))
            broken_off.daemon = True
            broken_off.start()
        super().handle_exit(sig, frame)


def _more_files(most: int) -> None:
    """Allow as many open files, as far as the system lets us."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, hard) if hard >= 0 else most, hard))


def run(app: ASGIApp, listening: socket.socket, limits: Limits) -> None:
    """Serve until SIGTERM or SIGINT, then end: nothing new is taken in, what runs is finished and answered.

    What still runs after `limits.drain_seconds` is broken off, and a second SIGINT ends the process at once. What was
    acknowledged is on the disk in any case.
    """
    # A thread that computes lets the loop in after so long. The loop has little to do, and all wait for it.
    sys.setswitchinterval(_SWITCH_SECONDS)
    _more_files(BURST * limits.connections + _OTHER_FILES)
    config = uvicorn.Config(
        app,
        lifespan="on",
        http=connection_class(limits),
        ws="none",
        log_config=None,  # logging is its owner's
        log_level="warning",
        access_log=False,  # paths hold ids of users
        proxy_headers=False,
        server_header=False,
        backlog=_ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=math.ceil(limits.drain_seconds),
    )
    server = _Server(config, limits.drain_seconds)

    def stop(number: int, frame: object) -> None:
        # uvicorn handles signals while it serves, and raises them again when it has ended: that is no failure.
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
