"""Recorded exchanges with a real llama.cpp server: what was sent, parsed, and what came back, word for word.

`scripts/record_cassettes.py` makes them. A cassette is frozen, so it proves how replies are read; that we still send
the same is asserted request by request, and a recording that is not played to its end fails the test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

__all__ = ["FOLDER", "Exchange", "Recorder", "played"]

FOLDER = Path(__file__).with_name("cassettes")


@dataclass(frozen=True)
class Exchange:
    """One request and its response; no header is kept but the content type, so no key can be."""

    method: str
    path: str
    request: Any
    status: int
    content_type: str
    response: str


@dataclass
class Recorder(httpx2.BaseTransport):
    """Passes requests on and keeps what went both ways."""

    inner: httpx2.BaseTransport
    exchanges: list[Exchange] = field(default_factory=list)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        sent = request.read()
        response = self.inner.handle_request(request)
        body = response.read()
        kind = response.headers.get("content-type", "")
        self.exchanges.append(
            Exchange(
                request.method,
                request.url.path,
                json.loads(sent) if sent else None,
                response.status_code,
                kind,
                body.decode(),
            )
        )
        return httpx2.Response(response.status_code, headers={"content-type": kind}, content=body)


@contextmanager
def played(name: str) -> Iterator[httpx2.Client]:
    """A client that plays a cassette: requests must come in its order and say the same, and all of them must come."""
    left = [Exchange(**item) for item in json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))]

    def play(request: httpx2.Request) -> httpx2.Response:
        assert left, f"{name}: one request more than was recorded: {request.method} {request.url.path}"
        exchange = left.pop(0)
        sent = request.read()
        assert (request.method, request.url.path) == (exchange.method, exchange.path)
        assert (json.loads(sent) if sent else None) == exchange.request
        headers = {"content-type": exchange.content_type}
        return httpx2.Response(exchange.status, headers=headers, content=exchange.response.encode())

    with httpx2.Client(transport=httpx2.MockTransport(play)) as client:
        yield client
    assert not left, f"{name}: {len(left)} recorded exchanges were not played"
