"""Connections that nobody can hold on to: requests come in time, answers are taken in, and new ones find room."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Final

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from backread.server.limits import Limits

__all__ = ["BURST", "Connection", "connection_class"]

_PATIENCE_S: Final = 1.0
BURST: Final = 4
"""So many times the limit may be connected for so long, when many come at once."""


class Connection(H11Protocol):
    """uvicorn's, with limits.

    Between two requests, and until the head of one is complete, it waits. Those that wait are kept in the order in
    which they began to; when there are too many connections, the one that has waited longest makes room.
    """

    limits: ClassVar[Limits]
    idle: ClassVar[dict[Connection, float]]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room if there is none, and wait for a request."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > self.limits.connections:
            oldest = next(iter(self.idle))
            # Those that have just come may have sent their request, which was not read yet.
            patient = self.loop.time() - self.idle[oldest] > _PATIENCE_S
            if patient or len(self.connections) > BURST * self.limits.connections:
                oldest.transport.abort()
                oldest._busy()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any longer."""
        self._busy()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in what came: perhaps a whole head, perhaps a part."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait()  # a part of a head that comes after an answer counts from its first byte on
        else:
            self._busy()

    def on_response_complete(self) -> None:
        """Wait for the next request; uvicorn itself closes a connection on which nothing comes."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE:
            self.idle[self] = self.loop.time()

    def pause_writing(self) -> None:
        """The client takes in nothing, or not fast enough."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self.limits.stall_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has taken in most of what there was."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    def _wait(self) -> None:
        self.idle.setdefault(self, self.loop.time())
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.limits.header_seconds, self.transport.abort)

    def _busy(self) -> None:
        self.idle.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def connection_class(limits: Limits) -> type[Connection]:
    """The connections of one server."""
    return type("Connection", (Connection,), {"limits": limits, "idle": {}})
