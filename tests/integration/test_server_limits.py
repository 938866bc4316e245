"""The server as a process beside clients that mean no good: others get their turn, and it ends in time."""

from __future__ import annotations

import http.server
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from backread import Memory

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(os.name != "posix", reason="signals"),
]

Server = tuple[str, subprocess.Popen[str]]


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., Any]:
    path = tmp_path / "m.db"
    with Memory.open(path, embedder="none") as memory:
        for user in ("ann", "bo"):
            memory.add({"role": "user", "content": "The parcel is in the attic."}, user_id=user, session_id="s")

    @contextmanager
    def serve(*limits: str, **variables: str) -> Iterator[Server]:
        options = [part for limit in limits for part in ("--limit", limit)]
        command = [sys.executable, "-m", "backread", "serve", "--path", str(path), "--port", "0", *options]
        env = {**os.environ, "BACKREAD_EMBEDDER": "none", **variables}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
            assert process.stderr is not None
            found = re.search(r"http://\S+", process.stderr.readline())
            assert found is not None, process.stderr.read()
            try:
                yield found[0], process
            finally:
                process.kill()

    return serve


FOUR_MB = "x" * 4_000_000


class SlowModel(http.server.ThreadingHTTPServer):
    """A chat server that says one word every tenth of a second for a minute; counts who asked, and who is there."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked, self.there = 0, 0
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Slow)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Slow(http.server.BaseHTTPRequestHandler):
    server: SlowModel

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.asked += 1
            self.server.there += 1
        try:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for _ in range(600):
                self.wfile.write(b'data: {"choices": [{"delta": {"content": "word "}}]}\n\n')
                self.wfile.flush()
                time.sleep(0.1)
        except OSError:
            pass
        finally:
            with self.server.lock:
                self.server.there -= 1

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def model() -> Iterator[SlowModel]:
    with SlowModel() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=30)


def ask(url: str, user: str = "ann") -> socket.socket:
    """A connection that asks a question, and reads no answer."""
    body = b'{"question": "Where is the parcel?"}'
    made = connect(url)
    head = f"POST /v1/users/{user}/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    made.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return made


def ended(made: socket.socket) -> bool:
    """True when the server ends the connection without a word."""
    try:
        return made.recv(65536) == b""
    except ConnectionError:
        return True


def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.02)


def test_half_requests_hold_nobody_up(serve: Callable[..., Any]) -> None:
    with serve("connections=40", "header_seconds=60") as (url, _), ExitStack() as stack:
        halves = []
        for _ in range(120):
            made = stack.enter_context(connect(url))
            made.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Never: ")
            halves.append(made)
        time.sleep(1.2)  # those that have just come are left alone for a second
        for _ in range(5):
            assert httpx2.get(f"{url}/healthz", timeout=30).status_code == 200
        assert httpx2.get(f"{url}/v1/users/ann/turns", timeout=30).status_code == 200
        assert ended(halves[0])  # the oldest made room


@pytest.mark.parametrize("after_an_answer", [False, True])
def test_the_head_of_a_request_comes_in_time(serve: Callable[..., Any], after_an_answer: bool) -> None:
    with serve("header_seconds=0.5") as (url, _), connect(url) as made:
        if after_an_answer:
            made.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            answer = b""
            while b'{"status":"ok"}' not in answer:
                answer += made.recv(65536)
        made.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        assert ended(made)


def test_an_answer_is_taken_in_in_time(serve: Callable[..., Any]) -> None:
    with serve("stall_seconds=0.5") as (url, _):
        for number in range(4):
            message = {"role": "user", "content": "x", "id": f"m{number}", "attachments": [{"type": "x", "x": FOUR_MB}]}
            assert httpx2.post(f"{url}/v1/users/ann/turns", json={"messages": [message]}, timeout=60).is_success
        with connect(url) as made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            made.sendall(b"GET /v1/users/ann/export HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            time.sleep(2)
            read = 0
            try:
                while part := made.recv(1 << 20):
                    read += len(part)
            except ConnectionError:
                pass
            assert read < 16_000_000


def test_abandoned_questions_leave_the_model_alone(serve: Callable[..., Any], model: SlowModel) -> None:
    variables = {"OPENAI_BASE_URL": model.url, "BACKREAD_MODEL": "slow"}
    with serve("asks_per_user=3", **variables) as (url, _):
        flood = [ask(url) for _ in range(60)]
        until(lambda: model.there == 3)
        other = ask(url, "bo")
        until(lambda: model.there == 4)  # another user's is at work at once
        started = time.monotonic()
        assert httpx2.get(f"{url}/healthz", timeout=30).status_code == 200
        assert time.monotonic() - started < 5
        for made in flood:
            made.close()
        until(lambda: model.there == 1)  # the replies that were being streamed were closed
        assert model.asked == 4
        other.close()
        until(lambda: model.there == 0)


def test_it_ends_in_time_while_it_is_busy(serve: Callable[..., Any], model: SlowModel) -> None:
    variables = {"OPENAI_BASE_URL": model.url, "BACKREAD_MODEL": "slow"}
    with serve("drain_seconds=1", **variables) as (url, process), ask(url):
        until(lambda: model.there == 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
