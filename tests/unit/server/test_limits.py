"""Limits: by name, described, and refused when they make no sense; what is asked for within them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from memory_samples import TALK, opened
from rest_samples import KEYS, rest, users_path
from starlette.types import Message

from backread import Memory
from backread.errors import CancelledError, InvalidInputError
from backread.server.app import create_app
from backread.server.limits import LIMITS, Limits, read_limits
from backread.testing.fakes import ChatRequest, FunctionChat, HashEmbedder

ASK, RECALL, SEARCH, BUILDS = (users_path("ann", name) for name in ("ask", "recall", "search", "builds"))


def test_every_limit_is_described() -> None:
    assert list(LIMITS) == [item.name for item in fields(Limits)]


def test_limits_by_name() -> None:
    assert read_limits([]) == Limits()
    assert read_limits(["asks=3", "header_seconds=0.5", "asks=2"]) == Limits(asks=2, header_seconds=0.5)


@pytest.mark.parametrize("given", ["ask=1", "asks", "asks=", "asks=0", "asks=-1", "asks=1.5", "body_seconds=inf", "=1"])
def test_what_is_no_limit(given: str) -> None:
    with pytest.raises(InvalidInputError, match="limit"):
        read_limits([given])


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path) as made:
        made.add(TALK, user_id="ann", session_id="s1")
        yield made


@pytest.mark.parametrize(
    ("path", "name"), [(SEARCH, "query"), (ASK, "question"), (users_path("ann", "recall"), "question")]
)
def test_a_question_of_a_megabyte_is_refused(memory: Memory, path: str, name: str) -> None:
    with rest(memory, query_chars=1000) as server:
        assert server.send("POST", path, {name: "kettle " + "x" * 993}).status_code == 200
        told = server.problem("POST", path, {name: "x" * 100_000}, status=422)
        assert told["detail"] == f"the {name} has 100,000 characters, and 1,000 are the most"
        told = server.problem("POST", path, {name: "x" * 1_200_000}, status=413)
        assert told["detail"] == "the body has more than 262,144 bytes"
        page = server.send("GET", "/ui/users/ann/search?q=" + "x" * 1001)
        assert (page.status_code, "1,001 characters" in page.text) == (422, True)


def test_no_budget_is_the_most_there_is(memory: Memory) -> None:
    with rest(memory, evidence_tokens=60) as server:
        sizes = [
            server.post(users_path("ann", "recall"), {"question": "kettle vinegar lamp ferry", "budget": budget})[
                "tokens"
            ]
            for budget in ("none", 10**9, 60)
        ]
    assert 0 < sizes[0] == sizes[1] == sizes[2] <= 60


def test_builds_of_one_user(memory: Memory) -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow(request: ChatRequest) -> str:
        started.set()
        go_on.wait(30)
        return "{}"

    with (
        Memory(memory._store, memory.settings, chat=FunctionChat(slow)) as busy,
        rest(busy, builds_per_user=2) as server,
    ):
        for strategy in ("t2mem:summary", "leanmem"):
            assert server.send("POST", BUILDS, {"strategy": strategy, "flush": True}).status_code == 202
        assert started.wait(30)
        response = server.send("POST", BUILDS, {"strategy": "lightmem", "flush": True})
        assert (response.status_code, response.headers["retry-after"]) == (429, "60")
        go_on.set()


class Client:
    """One request to an app without a network, whose client can go away."""

    def __init__(self, app: Any, path: str, body: object, key: str, accept: str = "application/json") -> None:
        headers = {"host": "h", "content-type": "application/json", "authorization": f"Bearer {key}", "accept": accept}
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.messages.put_nowait({"type": "http.request", "body": json.dumps(body).encode(), "more_body": False})
        self.sent: list[Message] = []
        self.task = asyncio.ensure_future(app(scope, self.messages.get, self._send))

    async def _send(self, message: Message) -> None:
        self.sent.append(message)

    def go_away(self) -> None:
        """As a connection that is closed."""
        self.messages.put_nowait({"type": "http.disconnect"})

    @property
    def status(self) -> int:
        """Of the answer."""
        return int(self.sent[0]["status"])


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_questions_nobody_waits_for_never_reach_the_model(tmp_path: Path, accept: str) -> None:
    asked = threading.Semaphore(0)
    go_on = threading.Event()

    def slow(request: ChatRequest) -> str:
        asked.release()
        go_on.wait(30)
        return "In the attic. [1]"

    chat = FunctionChat(slow)

    async def flood(app: Any) -> None:
        async with app.router.lifespan_context(app):
            flood = [Client(app, ASK, {"question": "Where is the parcel?"}, "ann's", accept) for _ in range(50)]
            for _ in range(2):
                await asyncio.to_thread(asked.acquire)
            other = Client(app, users_path("bo", "ask"), {"question": "Where is the parcel?"}, "bo's")
            await asyncio.to_thread(asked.acquire)  # bo's is at work beside ann's two
            for client in flood:
                client.go_away()
            while sum(client.task.done() for client in flood) < 48:  # those that waited for a place
                await asyncio.sleep(0)
            go_on.set()
            await asyncio.wait([other.task, *(client.task for client in flood)])
            assert other.status == 200

    with Memory.open(tmp_path / "m.db", embedder=HashEmbedder(64), model=chat) as memory:
        for user in ("ann", "bo"):
            memory.add({"role": "user", "content": "The parcel is in the attic."}, user_id=user, session_id="s")
        asyncio.run(flood(create_app(memory, keys=KEYS, limits=Limits(asks_per_user=2))))
    assert len(chat.requests) == 3


def test_a_memory_that_is_cancelled_asks_nobody(tmp_path: Path) -> None:
    chat = FunctionChat(lambda request: "no")
    cancel = threading.Event()
    cancel.set()
    with Memory.open(tmp_path / "m.db", embedder=HashEmbedder(64), model=chat) as memory:
        memory.add({"role": "user", "content": "The parcel is in the attic."}, user_id="ann", session_id="s")
        with pytest.raises(CancelledError):
            memory.ask("Where is the parcel?", user_id="ann", cancel=cancel)
    assert chat.requests == []


def test_a_body_that_never_comes(memory: Memory) -> None:
    async def run() -> int:
        app = create_app(memory, keys=KEYS, limits=Limits(body_seconds=0.05))
        async with app.router.lifespan_context(app):
            client = Client(app, SEARCH, {"query": "kettle"}, "ann's")
            first = client.messages.get_nowait()
            client.messages.put_nowait({**first, "body": first["body"][:9], "more_body": True})
            await asyncio.wait_for(client.task, 30)
            return client.status

    assert asyncio.run(run()) == 408
