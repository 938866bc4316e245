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
        message = {"role": "assistant", "content": None, **self._message}
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
                    self._message[key] = (self._message.get(key) or "") + piece
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

    Args:
        pieces: the bytes of server-sent events.
        reply: takes in every chunk.
        finished: called once, when the reply has ended; the JSON of the member `backread`.
    """
    rest = b""
    told = False
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        out = b""
        for line in lines:
            chunk = _chunk(line)
            if chunk is not None:
                reply.read(chunk)
                if reply.finish is not None and not told:
                    told = True
                    line = with_object(line, "backread", await finished())
            elif line.strip() == b"data: [DONE]" and not told:
                told = True
                await finished()
            out += line + b"\n"
        if out:
            yield out
    if rest:
        yield rest


def _chunk(line: bytes) -> Mapping[str, Any] | None:
    """The chunk that a line of a stream holds, if it holds one."""
    if not line.startswith(b"data:") or not line.rstrip().endswith(b"}"):
        return None
    try:
        value = json.loads(line[5:])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) and "error" not in value else None
