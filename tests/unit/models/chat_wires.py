"""The official client over a transport that keeps what goes out and answers with what a test gives it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2

from backread.models.base import ChatMessage, ChatReply
from backread.models.openai import OpenAIChat

__all__ = ["MESSAGES", "Wire", "answering", "choice", "completion", "events", "in_turn"]

MESSAGES = [ChatMessage("system", "Be brief."), ChatMessage("user", "Où? 東京 🎉")]


def completion(content: object = "Here.", **changes: Any) -> dict[str, Any]:
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "served",
        "choices": [choice(content)],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    } | changes


def choice(content: object, finish: str | None = "stop", **message: object) -> dict[str, Any]:
    return {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}


def events(*lines: str) -> httpx2.Response:
    """A stream of exactly these lines."""
    content = "".join(f"{line}\n" for line in lines).encode()
    return httpx2.Response(200, content=content, headers={"Content-Type": "text/event-stream"})


class Wire:
    """A chat model over a transport that keeps the requests and answers with what it is given."""

    def __init__(self, answer: Callable[[httpx2.Request], httpx2.Response], **options: Any) -> None:
        self.requests: list[httpx2.Request] = []

        def handle(request: httpx2.Request) -> httpx2.Response:
            self.requests.append(request)
            return answer(request)

        options = {"base_url": "http://server:8000"} | options
        self.chat = OpenAIChat("m", http_client=httpx2.Client(transport=httpx2.MockTransport(handle)), **options)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests if request.content]

    def ask(self, **options: Any) -> ChatReply:
        arguments: dict[str, Any] = {"messages": MESSAGES, "purpose": "answer", "max_tokens": 50} | options
        return self.chat.complete(**arguments)


def answering(body: object, status: int = 200, **options: Any) -> Wire:
    """The same answer to every request."""
    return Wire(lambda request: httpx2.Response(status, json=body), **options)


def in_turn(*answers: httpx2.Response | dict[str, Any], **options: Any) -> Wire:
    """One answer after the other; the last one is repeated."""
    left = list(answers)

    def answer(request: httpx2.Request) -> httpx2.Response:
        given = left.pop(0) if len(left) > 1 else left[0]
        return given if isinstance(given, httpx2.Response) else httpx2.Response(200, json=given)

    return Wire(answer, **options)
