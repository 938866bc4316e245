"""The server as a process: it listens where it should, and whatever it acknowledged is there however it ended."""

from __future__ import annotations

import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from backread import Memory
from backread.server.keys import hash_key

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(os.name != "posix", reason="signals"),
]

WRITERS = 8
Server = tuple[str, subprocess.Popen[str]]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("BACKREAD_EMBEDDER", "none")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return dict(os.environ)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.db"


@pytest.fixture
def serve(environment: dict[str, str], path: Path) -> Callable[..., Any]:
    @contextmanager
    def serve(*options: str, **variables: str) -> Iterator[Server]:
        command = [sys.executable, "-m", "backread", "serve", "--path", str(path), "--port", "0", *options]
        env = {**environment, **variables}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r"http://\S+", line)
            assert found is not None, line + process.stderr.read()
            try:
                yield found[0], process
            finally:
                process.kill()

    return serve


def stored(path: Path) -> dict[str, str]:
    with Memory.open(path, embedder="none") as memory:
        assert memory.verify().ok
        return {turn.external_id or "": turn.text for turn in memory.turns(user_id="ann")}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["TERM", "KILL"])
def test_nothing_acknowledged_is_lost(serve: Callable[..., Any], path: Path, number: signal.Signals) -> None:
    acknowledged: list[str] = []
    enough = threading.Event()

    def write(writer: int, url: str) -> list[int]:
        statuses: list[int] = []
        with httpx2.Client(base_url=url, timeout=60) as client:
            for step in range(10**9):
                name = f"w{writer}n{step}"
                messages = [{"role": "user", "content": f"parcel {name}", "id": name}]
                body = {"messages": messages, "session_id": f"s{writer}"}
                try:
                    response = client.post("/v1/users/ann/turns", json=body)
                except httpx2.TransportError:
                    return statuses
                statuses.append(response.status_code)
                if response.status_code == 200:
                    acknowledged.append(name)
                if len(acknowledged) >= 100:
                    enough.set()
        return statuses

    with serve() as (url, process), ThreadPoolExecutor(WRITERS) as pool:
        writers = [pool.submit(write, writer, url) for writer in range(WRITERS)]
        assert enough.wait(60)
        process.send_signal(number)
        code = process.wait(60)
        statuses = {status for writer in writers for status in writer.result()}
    assert code == (0 if number is signal.SIGTERM else -9)
    assert statuses == {200}  # each request was answered, or never taken in
    kept = stored(path)
    assert {name: f"parcel {name}" for name in acknowledged}.items() <= kept.items()
    assert len(kept) - len(acknowledged) <= (0 if number is signal.SIGTERM else WRITERS)
    with serve() as (url, _):
        found = httpx2.post(f"{url}/v1/users/ann/search", json={"query": acknowledged[-1], "mode": "bm25"}).json()
        assert found["items"][0]["turn"]["external_id"] == acknowledged[-1]


class _Slow(http.server.BaseHTTPRequestHandler):
    """A chat endpoint that answers once it is let."""

    asked, go = threading.Event(), threading.Event()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.set()
        assert self.go.wait(60)
        message = {"role": "assistant", "content": "Under the blue pot [1]."}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        body = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def slow_chat() -> Iterator[str]:
    _Slow.asked.clear()
    _Slow.go.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Slow) as endpoint:
        thread = threading.Thread(target=endpoint.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{endpoint.server_address[1]}/v1"
        _Slow.go.set()
        endpoint.shutdown()
        thread.join()


def test_what_runs_is_answered_before_the_end(serve: Callable[..., Any], slow_chat: str) -> None:
    def ask(url: str, accept: str) -> httpx2.Response:
        body = {"question": "Where is the key?"}
        return httpx2.post(f"{url}/v1/users/ann/ask", json=body, headers={"Accept": accept}, timeout=60)

    with serve(OPENAI_BASE_URL=slow_chat, BACKREAD_MODEL="m") as (url, process), ThreadPoolExecutor(2) as pool:
        turn = {"role": "user", "content": "The key is under the blue pot."}
        httpx2.post(f"{url}/v1/users/ann/turns", json={"messages": [turn]})
        answers = [pool.submit(ask, url, accept) for accept in ("application/json", "text/event-stream")]
        assert _Slow.asked.wait(60)
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        with pytest.raises(httpx2.TransportError):  # nothing new is taken in
            httpx2.get(f"{url}/healthz")
        _Slow.go.set()
        whole, streamed = (answer.result() for answer in answers)
        assert process.wait(60) == 0
        assert process.stderr.read().count("\n") == 1  # that there are no keys, and nothing else
    assert whole.json()["text"] == "Under the blue pot [1]."
    assert streamed.text.count("event: answer\n") == 1
    assert '"text":"Under the blue pot [1]."' in streamed.text


def test_a_second_interrupt_waits_for_nothing(serve: Callable[..., Any], slow_chat: str, path: Path) -> None:
    with serve(OPENAI_BASE_URL=slow_chat, BACKREAD_MODEL="m") as (url, process), ThreadPoolExecutor(1) as pool:
        turn = {"role": "user", "content": "The key is under the blue pot.", "id": "m1"}
        httpx2.post(f"{url}/v1/users/ann/turns", json={"messages": [turn]})
        body = {"question": "Where is the key?"}
        answer = pool.submit(httpx2.post, f"{url}/v1/users/ann/ask", json=body, timeout=60)
        assert _Slow.asked.wait(60)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        with pytest.raises(httpx2.TransportError):
            answer.result()
    assert stored(path) == {"m1": turn["content"]}


def test_an_interrupt_is_no_failure(serve: Callable[..., Any]) -> None:
    with serve() as (url, process):
        assert httpx2.get(f"{url}/readyz").json() == {"status": "ok"}
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stdout.read() == ""
        told = process.stderr.read()
    assert told == "serve: there are no keys: whoever is on this machine may read and erase everything\n"


# CON-01
def test_the_command_line_works_beside_the_server(
    serve: Callable[..., Any], environment: dict[str, str], path: Path
) -> None:
    over = threading.Event()

    def write(url: str) -> int:
        number = 0
        while not over.is_set():
            messages = [{"role": "user", "content": f"letter r{number}", "id": f"r{number}"}]
            assert httpx2.post(f"{url}/v1/users/ann/turns", json={"messages": messages}, timeout=60).status_code == 200
            number += 1
        return number

    with serve() as (url, process), ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write, url)
        for number in range(2):
            add = [sys.executable, "-m", "backread", "add", "--path", str(path), "--user", "ann", "--id", f"c{number}"]
            subprocess.run([*add, f"letter c{number}"], env=environment, check=True, capture_output=True)
        over.set()
        written = writer.result()
        found = httpx2.post(f"{url}/v1/users/ann/search", json={"query": "c1", "mode": "bm25"}).json()
        assert [hit["turn"]["text"] for hit in found["items"]] == ["letter c1"]
        process.kill()
    assert written > 0
    assert len(stored(path)) == written + 2


def test_keys_of_a_file_and_of_the_environment(serve: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(f'[[keys]]\nsha256 = "{hash_key("abc")}"\nuser = "ann"\n', encoding="utf-8")
    inline = json.dumps({"keys": [{"sha256": hash_key("abc"), "user": "ann"}]})
    for options, variables in (
        (("--keys", str(file)), {}),
        ((), {"BACKREAD_KEYS": inline}),
    ):
        with serve("--host", "0.0.0.0", *options, **variables) as (url, process):
            own = f"{url.replace('0.0.0.0', '127.0.0.1')}/v1/users/ann/turns"
            assert httpx2.get(own).status_code == 401
            assert httpx2.get(own, headers={"Authorization": "Bearer abc"}).json() == {"items": [], "next_cursor": None}
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            assert process.stderr.read() == ""
