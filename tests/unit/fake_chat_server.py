"""A chat server for tests of real connections, as an ASGI app."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from typing import Any

from chat_samples import completion
from starlette.types import Receive, Scope, Send

__all__ = ["FakeChatServer"]


class FakeChatServer:
    """A chat server: it says what evidence it got, in as many chunks as words, and knows when a client left."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.left, self.go = threading.Event(), threading.Event()
        self.go.set()
        self.sent = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while (message := await receive()).get("more_body"):
            body += message["body"]
        body += message["body"]
        if scope["path"].endswith("/models"):
            await self._whole(send, {"object": "list", "data": [{"id": "m", "object": "model"}]})
            return
        data = json.loads(body)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append((headers, data))
        watch = asyncio.ensure_future(self._watch(receive))
        try:
            text = self._text(data)
            if data.get("stream"):
                await self._stream(send, text, data)
            else:
                await self._wait()
                await self._whole(send, completion(text))
        finally:
            watch.cancel()

    def _text(self, data: dict[str, Any]) -> str:
        evidence = [str(message["content"]) for message in data["messages"] if "<evidence" in str(message["content"])]
        found = re.search(r"^\[\d+\] user: (.*pot.*)$", "\n".join(evidence), re.MULTILINE)
        return f"You said: {found[1]}" if found else "I don't know."

    async def _wait(self) -> None:
        while not self.go.is_set() and not self.left.is_set():
            await asyncio.sleep(0.005)

    async def _watch(self, receive: Receive) -> None:
        if (await receive())["type"] == "http.disconnect":
            self.left.set()

    async def _whole(self, send: Send, answer: object) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    async def _stream(self, send: Send, text: str, data: dict[str, Any]) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        words = [f"{word} " for word in text.split()]
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": word} for word in words)]
        if data.get("tools"):
            call = {"index": 0, "id": "t1", "type": "function", "function": {"name": "find", "arguments": ""}}
            deltas = [{"role": "assistant", "content": None, "tool_calls": [call]}]
            deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in ('{"q":', ' "key"}')]
        reason = "tool_calls" if data.get("tools") else "stop"
        self.sent = b""
        for place, delta in enumerate([*deltas, {}]):
            if place == 2:
                await self._wait()
            finish = None if delta else reason
            await self._event(send, {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        if (data.get("stream_options") or {}).get("include_usage"):
            usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
            await self._event(send, {"choices": [], "usage": usage})
        self.sent += b"data: [DONE]\n\n"
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    async def _event(self, send: Send, chunk: dict[str, Any]) -> None:
        whole = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "served", **chunk}
        event = f"data: {json.dumps(whole)}\n\n".encode()
        self.sent += event
        await send({"type": "http.response.body", "body": event, "more_body": True})
