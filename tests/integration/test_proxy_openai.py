"""The chat proxy over real connections: the official client, a server behind on loopback, and clients that leave."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from chat_samples import CHAT, said, user
from fake_chat_server import FakeChatServer
from running import running

from backread import Memory
from backread.server.app import create_app
from backread.server.keys import hash_key
from backread.server.proxy import proxy_router
from backread.server.upstream import Upstream
from backread.testing.fakes import HashEmbedder

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.enable_socket, pytest.mark.timeout(120)]

KEY = "I put the spare key under the blue pot."
QUESTION = "Where did I put the spare key?"


@pytest.fixture
def fake() -> FakeChatServer:
    return FakeChatServer()


@pytest.fixture
def behind(fake: FakeChatServer) -> Iterator[str]:
    with running(fake) as url:
        yield url


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m.db", embedder=HashEmbedder(256)) as opened:
        yield opened


@pytest.fixture
def proxy(memory: Memory, behind: str) -> Iterator[str]:
    app = create_app(memory)
    app.include_router(proxy_router(Upstream.at(behind, timeout=20), keyed=False, user_id="ann"))
    with running(app, lifespan="on") as url:
        yield url


@pytest.fixture
def client(proxy: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{proxy}/v1", api_key="sk-client", max_retries=0, timeout=30) as made:
        yield made


def texts(memory: Memory) -> list[str]:
    return [turn.text for turn in memory.turns(user_id="ann")]


def until(true: Callable[[], bool]) -> None:
    for _ in range(2000):
        if true():
            return
        time.sleep(0.005)
    raise AssertionError("it did not come about")


def test_a_second_conversation_remembers(client: openai.OpenAI, fake: FakeChatServer, memory: Memory) -> None:
    first = client.chat.completions.create(model="m", messages=[{"role": "user", "content": KEY}])
    assert first.choices[0].message.content == "I don't know."
    second = client.chat.completions.create(model="m", messages=[{"role": "user", "content": QUESTION}])
    assert second.choices[0].message.content == f"You said: {KEY}"
    assert second.usage is not None
    assert second.usage.total_tokens == 15
    told = (second.model_extra or {})["backread"]
    assert KEY in [line["text"] for line in told["citations"]]
    assert texts(memory) == [KEY, "I don't know.", QUESTION, f"You said: {KEY}"]
    assert fake.requests[0][0]["authorization"] == "Bearer sk-client"
    assert [model.id for model in client.models.list()] == ["m"]


def test_a_stream_for_the_official_client(client: openai.OpenAI, memory: Memory) -> None:
    memory.add(user(KEY), user_id="ann")
    extra: list[Any] = []
    with client.chat.completions.stream(
        model="m", messages=[{"role": "user", "content": QUESTION}], stream_options={"include_usage": True}
    ) as events:
        extra.extend(event.chunk.model_extra for event in events if event.type == "chunk" and event.chunk.model_extra)
        final = events.get_final_completion()
    assert final.choices[0].message.content == f"You said: {KEY} "
    assert final.choices[0].finish_reason == "stop"
    assert final.usage is not None
    assert final.usage.total_tokens == 11
    assert [line["text"] for line in extra[0]["backread"]["citations"]] == [KEY]
    assert len(extra) == 1
    chunks = list(client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}], stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "I don't know. "


def test_calls_of_tools_for_the_official_client(client: openai.OpenAI, memory: Memory) -> None:
    tools: Any = [{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]
    with client.chat.completions.stream(
        model="m", messages=[{"role": "user", "content": QUESTION}], tools=tools
    ) as events:
        message = events.get_final_completion().choices[0].message
    assert message.tool_calls is not None
    assert message.tool_calls[0].function.arguments == '{"q": "key"}'
    answer: Any = {"role": "tool", "tool_call_id": "t1", "content": "under the pot"}
    asked: Any = [{"role": "user", "content": QUESTION}, message.to_dict(), answer]
    client.chat.completions.create(model="m", messages=asked)
    assert [turn.role for turn in memory.turns(user_id="ann")] == ["user", "assistant", "tool", "assistant"]


def test_a_stream_comes_through_as_it_comes(proxy: str, fake: FakeChatServer) -> None:
    fake.go.clear()
    body = {"model": "m", "messages": [user("Hi")], "stream": True}
    with httpx2.Client(timeout=30) as http, http.stream("POST", proxy + CHAT, json=body) as response:
        pieces = response.iter_bytes()
        got = b""
        while b"I " not in got:
            got += next(pieces)
        assert not fake.go.is_set()  # the rest is not even written
        fake.go.set()
        got += b"".join(pieces)
    assert re.sub(rb',"backread":\{.*\}(?=\}\n)', b"", got) == fake.sent


def test_a_client_that_leaves_a_stream(proxy: str, fake: FakeChatServer, memory: Memory) -> None:
    fake.go.clear()
    body = {"model": "m", "messages": [user(QUESTION)], "stream": True}
    with httpx2.Client(timeout=30) as http, http.stream("POST", proxy + CHAT, json=body) as response:
        next(response.iter_bytes())
    assert fake.left.wait(20)
    fake.go.set()
    assert httpx2.get(f"{proxy}/healthz").status_code == 200
    assert texts(memory) == [QUESTION]
    retried = httpx2.post(proxy + CHAT, json={"model": "m", "messages": [user(QUESTION)]}, timeout=30).json()
    assert len(retried["backread"]["stored"]) == 1
    assert texts(memory) == [QUESTION, "I don't know."]


def test_a_client_that_leaves_before_the_answer(proxy: str, fake: FakeChatServer, memory: Memory) -> None:
    fake.go.clear()
    host, port = proxy.removeprefix("http://").split(":")
    body = json.dumps({"model": "m", "messages": [user(QUESTION)]}).encode()
    with socket.create_connection((host, int(port))) as raw:
        raw.sendall(
            b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (CHAT.encode(), len(body), body)
        )
        until(lambda: bool(fake.requests))
    assert fake.left.wait(20)
    fake.go.set()
    assert httpx2.get(f"{proxy}/healthz").status_code == 200
    assert texts(memory) == [QUESTION]


def test_a_server_that_is_down(memory: Memory) -> None:
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    app = create_app(memory)
    app.include_router(proxy_router(Upstream.at(f"http://127.0.0.1:{port}"), keyed=False, user_id="ann"))
    with (
        running(app, lifespan="on") as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client,
        pytest.raises(openai.APIStatusError) as caught,
    ):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": KEY}])
    assert (caught.value.status_code, caught.value.code) == (502, "upstream_unreachable")
    assert texts(memory) == [KEY]


# CON-01
def test_many_chats_at_once(proxy: str, memory: Memory) -> None:
    def talk(number: int) -> int:
        messages: list[Any] = []
        with openai.OpenAI(base_url=f"{proxy}/v1", api_key="k", max_retries=0, timeout=60) as client:
            for step in range(5):
                messages.append(user(f"parcel t{number}n{step} arrived"))
                answer = client.chat.completions.create(model="m", messages=messages)
                messages.append(said(answer.choices[0].message.content))
        return len(messages)

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(talk, range(16))) == [10] * 16
    kept = [text for text in texts(memory) if text.startswith("parcel")]
    assert sorted(kept) == sorted(f"parcel t{number}n{step} arrived" for number in range(16) for step in range(5))
    assert len(memory.sessions(user_id="ann")) == 16
    assert memory.verify().ok


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_the_command(behind: str, fake: FakeChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKREAD_EMBEDDER", "none")
    monkeypatch.setenv("BACKREAD_UPSTREAM", behind)
    monkeypatch.setenv("BACKREAD_UPSTREAM_KEY", "sk-up")
    monkeypatch.setenv("BACKREAD_KEYS", json.dumps({"keys": [{"sha256": hash_key("mine"), "user": "ann"}]}))
    path = tmp_path / "served.db"
    command = [sys.executable, "-m", "backread", "serve", "--path", str(path), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stderr is not None
        url = re.search(r"http://\S+", process.stderr.readline())
        assert url is not None
        assert process.stderr.readline() == f"serve: {url[0]}/v1 is a chat server in front of {behind}/v1\n"
        with openai.OpenAI(base_url=f"{url[0]}/v1", api_key="mine", max_retries=0) as client:
            for text, reply in ((KEY, "I don't know."), (QUESTION, f"You said: {KEY}")):
                answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
                assert answer.choices[0].message.content == reply
            with pytest.raises(openai.AuthenticationError):
                client.with_options(api_key="guessed").models.list()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""
    assert {headers["authorization"] for headers, _ in fake.requests} == {"Bearer sk-up"}
    with Memory.open(path, embedder="none") as kept:
        assert texts(kept)[:2] == [KEY, "I don't know."]
