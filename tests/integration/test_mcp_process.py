"""`backread mcp` as a process: by the official client over stdio and HTTP, and line by line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_samples import text_of
from mcp_types import jsonrpc_message_adapter

from backread import Memory
from backread.server.keys import hash_key

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(os.name != "posix", reason="signals"),
]

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "lines", "version": "1"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.db"


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("BACKREAD_EMBEDDER", "none")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return dict(os.environ)


class Lines:
    """A server spoken to line by line; each line it writes must be a message of the protocol."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def send(self, message: object) -> None:
        assert self.process.stdin is not None
        line = message if isinstance(message, str) else json.dumps(message)
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        jsonrpc_message_adapter.validate_json(line)
        return json.loads(line)

    def ask(self, number: int, method: str, **params: object) -> Any:
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        answer = self.read()
        assert answer["id"] == number
        return answer

    def call(self, number: int, tool: str, /, **arguments: object) -> Any:
        return self.ask(number, "tools/call", name=tool, arguments=arguments)["result"]

    def end(self) -> tuple[int, str]:
        """(exit code, what was on stderr); nothing more may be on stdout."""
        out, err = self.process.communicate(timeout=60)
        assert out == b""
        return self.process.returncode, err.decode()


@contextmanager
def lines(command: list[str], env: dict[str, str]) -> Iterator[Lines]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=env) as process:
        server = Lines(process)
        try:
            assert server.ask(0, "initialize", **HELLO)["result"]["serverInfo"]["name"] == "backread"
            server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            yield server
        finally:
            process.kill()


def backread(path: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "backread", "mcp", "--path", str(path), *options]


# API-02
def test_stdout_carries_the_protocol_alone(path: Path, environment: dict[str, str], tmp_path: Path) -> None:
    loud = {**environment, "BACKREAD_DEBUG": "1", "BACKREAD_EMBEDDER": "minilm", "PYTHONWARNINGS": "always"}
    loud["BACKREAD_MODELS_DIR"] = str(tmp_path / "nothing")  # the model is missing
    command = [sys.executable, "-m", "backread", "--debug", *backread(path, "--user", "ann")[3:]]
    with lines(command, loud) as server:
        listed = server.ask(1, "tools/list", _meta={"progressToken": 1}, cursor=None)
        assert len(listed["result"]["tools"]) == 7
        found = server.ask(
            2, "tools/call", name="search_memories", arguments={"query": "x"}, _meta={"progressToken": 2}
        )
        assert found["result"]["isError"] is False
        refused = server.call(3, "search_memories", query="x", top_k="five")
        assert refused["isError"] is True
        assert refused["content"][0]["text"].startswith("error: top_k: Input should be a valid integer")
        assert server.ask(4, "tools/call", name="search", arguments={})["error"]["code"] == -32602
        assert server.ask(5, "tools/vote")["error"]["code"] == -32601
        for text, code in (("not json", -32700), ('{"jsonrpc": "2.0"}', -32600), ("[1]", -32600)):
            server.send(text)
            answer = server.read()
            assert (answer["id"], answer["error"]["code"]) == (None, code)
        megabyte = "parcel \U0001f4e6 " * 100_000
        assert server.call(6, "add_memory", messages=[{"role": "user", "content": megabyte}])["isError"] is False
        lone = server.call(7, "add_memory", messages=[{"role": "user", "content": "boiler \ud800", "id": "half"}])
        assert lone["structuredContent"]["stored"] == 1
        found = server.call(8, "search_memories", query="parcel boiler")
        assert len(found["structuredContent"]["hits"]) == 2
        assert any(item["part"] == "dense" for item in found["structuredContent"]["degraded"])
        code, told = server.end()
    assert code == 0
    assert "Traceback" not in told
    with Memory.open(path, embedder="none") as memory:
        assert [turn.text for turn in memory.turns(user_id="ann")] == [megabyte, "boiler \ud800"]


NOISY = """
    import logging, os, sys, warnings
    from backread import Memory
    from backread.server.mcp import own_stdout, serve_stdio
    from backread.testing.fakes import HashEmbedder

    kept = sys.stdout
    logging.basicConfig(stream=kept, level=logging.DEBUG)

    class Noisy(HashEmbedder):
        def embed(self, texts, *, kind="document"):
            print("downloading 100%")
            sys.stdout.write("no line end")
            kept.write("written to the object that was stdout")
            sys.__stdout__.write("and to the first one")
            os.write(1, b"from C\\n")
            warnings.warn("deprecated")
            logging.getLogger("lib").warning("logged")
            return super().embed(texts, kind=kind)

    with own_stdout() as stdout, Memory.open(sys.argv[1], embedder=Noisy(64)) as memory:
        print("early")
        serve_stdio(memory, stdout, user_id="ann")
        print("late")
"""


# API-02
def test_what_a_library_prints_goes_to_stderr(path: Path, environment: dict[str, str]) -> None:
    with lines([sys.executable, "-c", textwrap.dedent(NOISY), str(path)], environment) as server:
        server.call(1, "add_memory", messages=[{"role": "user", "content": "the blue kettle"}])
        found = server.call(2, "search_memories", query="kettle")
        assert found["structuredContent"]["hits"][0]["turn"]["text"] == "the blue kettle"
        code, told = server.end()
    assert code == 0
    for noise in (
        "early",
        "late",
        "downloading 100%",
        "no line end",
        "written to the object",
        "the first one",
        "from C",
        "logged",
    ):
        assert noise in told


def test_a_client_that_leaves_ends_it_quietly(path: Path, environment: dict[str, str]) -> None:
    with lines(backread(path), environment) as server:
        assert server.process.stdout is not None
        server.process.stdout.close()
        server.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}})
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.process.wait(60) == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read().decode().count("\n") == 1


def test_the_official_client_over_stdio(path: Path, environment: dict[str, str]) -> None:
    command, *args = backread(path, "--user", "ann")
    server = StdioServerParameters(command=command, args=args, env=environment)
    messages = [{"role": "user", "content": "The spare key is under the blue pot.", "timestamp": "2025-03-27T16:10Z"}]

    async def run(mode: str) -> tuple[str, list[int]]:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            async with Client(stdio_client(server, errlog=nowhere), mode=mode) as client:
                await client.call_tool("add_memory", {"messages": messages, "session_id": "s1"})
                found = await client.call_tool("recall", {"question": "Where is the spare key?"})
                sizes: list[int] = []

                async def search() -> None:
                    hits = await client.call_tool("search_memories", {"query": "spare key"})
                    sizes.append(len(hits.structured_content["hits"]))

                async with anyio.create_task_group() as group:
                    for _ in range(20):
                        group.start_soon(search)
                return text_of(found), sizes

    for mode in ("legacy", "auto"):
        text, sizes = anyio.run(run, mode)
        assert "# 2025-03-27 16:10\n[1] user: The spare key is under the blue pot.\n" in text
        assert sizes == [1] * 20


@pytest.fixture
def serve(environment: dict[str, str], path: Path) -> Callable[..., Any]:
    @contextmanager
    def serve(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
        command = backread(path, "--http", "--port", "0", *options)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as p:
            assert p.stderr is not None
            line = p.stderr.readline()
            found = re.search(r"http://\S+/mcp", line)
            assert found is not None, line + p.stderr.read()
            try:
                yield found[0], p
            finally:
                p.kill()

    return serve


async def over_http(url: str, key: str | None = None, mode: str = "legacy", user_id: str | None = None) -> list[str]:
    """Texts of all turns, after one was added; the names of a user if the tools take one."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        takes = "user_id" in (await client.list_tools()).tools[0].input_schema["properties"]
        assert takes is (user_id is not None)
        whose = {} if user_id is None else {"user_id": user_id}
        messages = [{"role": "user", "content": f"I am {key or user_id}", "id": "m1"}]
        await client.call_tool("add_memory", {"messages": messages, "session_id": "s", **whose})
        turns = await client.call_tool("get_turns", whose)
        return [turn["text"] for turn in turns.structured_content["turns"]]


def test_streamable_http(serve: Callable[..., Any]) -> None:
    with serve() as (url, process):
        for mode in ("legacy", "auto"):
            assert anyio.run(over_http, url, None, mode, "ann") == ["I am ann"]
        for headers, status in (({"Host": "evil.example"}, 403), ({"Origin": "http://evil.example"}, 403)):
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
            headers = {"Accept": "application/json, text/event-stream", **headers}
            assert httpx2.post(url, json=hello, headers=headers).status_code == status
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stdout.read() == ""


# ISO-01
def test_a_key_opens_the_history_of_its_user_only(serve: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    entries = [f'sha256 = "{hash_key(name)}"\nuser = "{name}"' for name in ("ann", "bo")]
    entries.append(f'sha256 = "{hash_key("root")}"\nadmin = true')
    file.write_text("".join(f"[[keys]]\n{entry}\n" for entry in entries), encoding="utf-8")
    with serve("--host", "0.0.0.0", "--keys", str(file)) as (url, _):
        url = url.replace("0.0.0.0", "127.0.0.1")
        for mode in ("legacy", "auto"):
            assert anyio.run(over_http, url, "ann", mode) == ["I am ann"]
            assert anyio.run(over_http, url, "bo", mode) == ["I am bo"]
            assert anyio.run(over_http, url, "root", mode, "carl") == ["I am root"]
        for given in ({}, {"Authorization": "Bearer guessed"}):
            assert httpx2.post(url, json={}, headers=given).status_code == 401
