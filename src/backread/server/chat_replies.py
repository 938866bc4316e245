"""What a chat model replied, put together from an answer or from the chunks of a stream that passes through."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

__all__ = ["Reply", "insert", "with_object"]

_JOINED: Final = ("content", "refusal")


class Reply:
    """The first choice of a completion.

    Attributes:
        finish: why it ended; None while it has not.
        choices: how many there were.
    """

    def __init__(self) -> None:
        self.finish: str | None = None
        self.choices = 0
        self._message: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}

    def read(self, body: Mapping[str, Any]) -> None:
        """Take in an answer, or a chunk of one; what is not as it should be is passed over."""
        choices = body.get("choices")
        for place, choice in enumerate(choices if isinstance(choices, list) else ()):
            if not isinstance(choice, Mapping):
                continue
            index = choice.get("index")
            self.choices = max(self.choices, 1 + (index if isinstance(index, int) else place))
            if index in (0, None):
                self._take(choice)

    def message(self) -> dict[str, Any]:
        """The reply as a message of the chat API."""
        texts = {key: "".join(pieces) for key, pieces in self._texts.items()}
        message = {"role": "assistant", "content": None, **self._message, **texts}
        if self._calls:
            message["tool_calls"] = [self._calls[index] for index in sorted(self._calls)]
        return message

    def _take(self, choice: Mapping[str, Any]) -> None:
        whole, delta = choice.get("message"), choice.get("delta")
        if isinstance(whole, Mapping):
            self._message.update({key: value for key, value in whole.items() if key != "role"})
        elif isinstance(delta, Mapping):
            for key in _JOINED:
                if isinstance(piece := delta.get(key), str):
                    self._texts.setdefault(key, []).append(piece)
            calls = delta.get("tool_calls")
            for place, call in enumerate(calls if isinstance(calls, list) else ()):
                if isinstance(call, Mapping):
                    index = call.get("index")
                    _join(self._calls.setdefault(index if isinstance(index, int) else place, {}), call)
            if isinstance(call := delta.get("function_call"), Mapping):
                _join(self._message.setdefault("function_call", {}), call)
        if isinstance(reason := choice.get("finish_reason"), str) and reason:
            self.finish = reason


def _join(call: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add a piece of a call to it: arguments and names come in pieces, everything else once."""
    for key, value in piece.items():
        if isinstance(value, Mapping):
            _join(call.setdefault(key, {}), value)
        elif key in {"arguments", "name"} and isinstance(value, str):
            call[key] = (call.get(key) or "") + value
        elif value is not None and key != "index":
            call[key] = value


def with_object(body: bytes, name: str, value: str) -> bytes:
    """The JSON object `body` with one more member at its end; every other byte stays as it is.

    Args:
        body: a JSON object.
        name: of the member.
        value: as JSON.
    """
    end = body.rstrip()
    comma = b"" if end[:-1].rstrip().endswith(b"{") else b","
    return b"%b%b%b:%b}%b" % (end[:-1], comma, json.dumps(name).encode(), value.encode(), body[len(end) :])


async def insert(
    pieces: AsyncIterator[bytes], reply: Reply, finished: Callable[[], Awaitable[str]]
) -> AsyncIterator[bytes]:
    """A stream of chunks as it comes, line by line, with one member more in the chunk that ends the reply.

    Lines end as in server-sent events, with LF, CRLF or CR; the last one may have no end. A chunk may be the data of
    several lines: they wait for the blank line behind them, a chunk of one line waits for nothing.

    Args:
        pieces: the bytes of server-sent events, cut anywhere.
        reply: takes in every chunk.
        finished: called once, when the reply has ended; the JSON of the member `backread`.
    """
    events = _Events(reply, finished)
    tail: list[bytes] = []
    async for piece in pieces:
        if out := b"".join([await events.passed(line) for line in _lines(tail, piece)]):
            yield out
    if out := await events.passed(b"".join(tail)) + await events.ended():
        yield out


class _Events:
    """The events of a stream on their way: lines go in one by one, and come out, the last chunk with a member more."""

    def __init__(self, reply: Reply, finished: Callable[[], Awaitable[str]]) -> None:
        self._reply, self._finished = reply, finished
        self._told = False
        self._held: list[bytes] = []  # lines of an event from its first data on, when that alone is no chunk

    async def passed(self, line: bytes) -> bytes:
        """What goes on now that this line came."""
        if not line.strip(b"\r\n"):
            return await self.ended() + line
        if self._held:
            self._held.append(line)
            return b""
        data = _data(line)
        if data is None:
            return line
        if data.strip() == b"[DONE]":
            if not self._told:
                self._told = True
                await self._finished()
            return line
        chunk = _chunk(data)
        if chunk is None:
            self._held.append(line)
            return b""
        return await self._taken(chunk, line)

    async def ended(self) -> bytes:
        """What was held, now that its event is whole."""
        lines, self._held = self._held, []
        data = [(place, value) for place, line in enumerate(lines) if (value := _data(line)) is not None]
        chunk = _chunk(b"\n".join(value for _, value in data)) if len(data) > 1 else None
        if chunk is not None:
            place = max(place for place, value in data if value.rstrip().endswith(b"}"))
            lines[place] = await self._taken(chunk, lines[place])
        return b"".join(lines)

    async def _taken(self, chunk: Mapping[str, Any], line: bytes) -> bytes:
        """The line that ends a chunk, with the member when the chunk ends the reply."""
        self._reply.read(chunk)
        if self._reply.finish is None or self._told:
            return line
        self._told = True
        return with_object(line, "backread", await self._finished())


def _lines(tail: list[bytes], piece: bytes) -> list[bytes]:
    """The lines that are whole now, with their ends; what is not stays in `tail`, and so does a CR at the very end."""
    returned = bool(tail) and tail[-1].endswith(b"\r")
    tail.append(piece)
    if not returned and b"\n" not in piece and b"\r" not in piece:
        return []
    lines = b"".join(tail).splitlines(keepends=True)
    tail[:] = [] if lines[-1].endswith(b"\n") else [lines.pop()]
    return lines


def _data(line: bytes) -> bytes | None:
    """The value of a line of data; None for every other line."""
    name, colon, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
    return value.strip(b"\r\n") if name == b"data" and colon else None


def _chunk(data: bytes) -> Mapping[str, Any] | None:
    """The chunk that the data of an event is, if it is one."""
    if not data.rstrip().endswith(b"}"):
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) and "error" not in value else None
