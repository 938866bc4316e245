"""What the tests of the chat proxy share: an app with memory in front of a server that is played."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx2
from starlette.testclient import TestClient

from backread import Memory
from backread.server.app import create_app
from backread.server.keys import Keys
from backread.server.proxy import proxy_router
from backread.server.upstream import Upstream

__all__ = ["CHAT", "Behind", "Chats", "completion", "piece", "proxied", "said", "user"]

CHAT = "/v1/chat/completions"


def user(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def said(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def completion(text: Any = "Noted.", **message: Any) -> dict[str, Any]:
    """A whole answer, with fields that only the server behind knows."""
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "served",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {**said(text), **message}, "logprobs": None}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
        "x_vendor": {"seed": 1.50},
    }


def piece(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk of a stream."""
    return {"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


class Behind:
    """The server behind: keeps what it gets, and answers as a function says."""

    def __init__(self, answer: Callable[[httpx2.Request], httpx2.Response] | None = None) -> None:
        self.requests: list[httpx2.Request] = []
        self.answer = answer or (lambda request: httpx2.Response(200, json=completion()))

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return self.answer(request)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]

    def evidence(self) -> str:
        """The message with evidence in the last request; "" when there is none."""
        found = [
            text for message in self.bodies[-1]["messages"] if "<evidence id=" in (text := str(message["content"]))
        ]
        return found[0] if found else ""


class Chats:
    """Chats with the proxy, as `ann` unless a header says otherwise."""

    def __init__(self, client: TestClient, behind: Behind, memory: Memory) -> None:
        self.client, self.behind, self.memory = client, behind, memory

    def send(self, *messages: Any, headers: dict[str, str] | None = None, **fields: Any) -> httpx2.Response:
        body = {"model": "m", "messages": list(messages), **fields}
        return self.client.post(CHAT, json=body, headers={"X-Backread-User": "ann", **(headers or {})})

    def chat(self, *messages: Any, **more: Any) -> Any:
        """A chat that must go well: its answer as JSON."""
        response = self.send(*messages, **more)
        assert response.status_code == 200, response.text
        return response.json()

    def texts(self, user_id: str = "ann") -> list[str]:
        return [turn.text for turn in self.memory.turns(user_id=user_id)]


@contextmanager
def proxied(
    memory: Memory,
    behind: Behind | None = None,
    *,
    keys: Keys | None = None,
    api_key: str | None = None,
    **options: Any,
) -> Iterator[Chats]:
    """The proxy in front of a server that is played."""
    behind = behind or Behind()
    upstream = replace(Upstream.at("http://behind", api_key=api_key), transport=httpx2.MockTransport(behind))
    app = create_app(memory, keys=keys)
    app.include_router(proxy_router(upstream, keyed=keys is not None, **options))
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False, follow_redirects=False) as client:
        yield Chats(client, behind, memory)
