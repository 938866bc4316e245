"""A server that is asked how it is while others make it work: it answers, and it ends when it is told to."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attack_ledger import Outcome
from attack_servers import Served, request, serving

__all__ = ["HEALTHY_S", "LOADS", "health_under"]

HEALTHY_S: Final = 0.5
_TURNS: Final = "/v1/users/eve/turns"


def _post(served: Served, path: str, body: object, timeout: float = 30) -> int:
    status, _ = request(served.url, "POST", path, body, timeout=timeout)
    return int(status)


def _add(served: Served, *texts: str) -> None:
    _post(served, _TURNS, {"messages": [{"role": "user", "content": text} for text in texts], "session_id": "e"})


def _dots(served: Served, over: threading.Event) -> None:
    """One turn of 400 kB of dots, shown without a budget."""
    _add(served, "lamp " + "." * 400_000)
    while not over.is_set():
        _post(served, "/v1/users/eve/ask", {"question": "lamp", "budget": "none"}, timeout=5)
        _post(served, "/v1/users/eve/recall", {"question": "lamp"}, timeout=5)


def _long_queries(served: Served, over: threading.Event) -> None:
    """Queries of 1.2 MB."""
    query = "lamp " + " ".join(f"word{number}" for number in range(130_000))
    while not over.is_set():
        _post(served, "/v1/users/eve/search", {"query": query}, timeout=5)


def _abandoned(served: Served, over: threading.Event) -> None:
    """Questions to a model that takes its time, whose clients leave at once."""
    _add(served, "The lamp is in the attic.")
    while not over.is_set():
        _post(served, "/v1/users/eve/ask", {"question": "Where is the lamp?"}, timeout=0.05)


def _half_requests(served: Served, over: threading.Event) -> None:
    """Hundreds of connections that send half a request and wait."""
    host, port = served.url.removeprefix("http://").split(":")
    held: list[socket.socket] = []
    try:
        while not over.is_set():
            if len(held) >= 300:
                held.pop(0).close()
            try:
                held.append(socket.create_connection((host, int(port)), timeout=2))
                held[-1].sendall(b"POST /v1/users/eve/turns HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n")
            except OSError:
                time.sleep(0.05)
    finally:
        for item in held:
            item.close()


def _large_pages(served: Served, over: threading.Event) -> None:
    """Pages of large turns."""
    for number in range(12):
        _add(served, f"lamp {number} " + "word " * 400_000)
    while not over.is_set():
        request(served.url, "GET", f"{_TURNS}?limit=500", timeout=10)
        request(served.url, "GET", "/v1/users/eve/export", timeout=10)


LOADS: Final[Mapping[str, tuple[Callable[[Served, threading.Event], None], int]]] = {
    "dots": (_dots, 4),
    "long queries": (_long_queries, 8),
    "abandoned asks": (_abandoned, 12),
    "half requests": (_half_requests, 2),
    "large pages": (_large_pages, 2),
}
"""What makes the server work, by name, and by how many clients at once."""
_WITH_MODEL: Final = "abandoned asks"


class _Slow(http.server.BaseHTTPRequestHandler):
    """A chat model that takes three seconds."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(3)
        message = {"role": "assistant", "content": "In the attic [1]."}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        body = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: object) -> None:
        """Quiet."""


class _Model(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Quiet: whoever asked is gone."""


@contextmanager
def _environment(folder: Path, with_model: bool) -> Iterator[None]:
    """A server without an embedder; its chat model, if any, is a slow one in a process of its own."""
    before = dict(os.environ)
    for name in before:
        if name.startswith(("BACKREAD_", "OPENAI_", "XDG_")):
            del os.environ[name]
    with _Model(("127.0.0.1", 0), _Slow) as model:
        pid = os.fork()
        if pid == 0:
            try:
                model.serve_forever()
            finally:
                os._exit(1)
        url = f"http://127.0.0.1:{model.server_address[1]}/v1"
        os.environ |= {"HOME": str(folder), "BACKREAD_EMBEDDER": "none"}
        if with_model:
            os.environ |= {"OPENAI_BASE_URL": url, "BACKREAD_MODEL": "m"}
        try:
            yield
        finally:
            os.environ.clear()
            os.environ |= before
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def health_under(load: str, *, seconds: float = 10, bound: float = HEALTHY_S, end: float = 20.0) -> Outcome:
    """Ask a server for `/healthz` while a load is on it, then end it with SIGTERM.

    Args:
        load: one of `LOADS`.
        seconds: how long.
        bound: seconds an answer may take.
        end: seconds the server may take to end once clients are gone.
    """
    outcome = Outcome(f"health: {load}")
    work, clients = LOADS[load]
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="backread-attack-"))
    try:
        with _environment(folder, load == _WITH_MODEL), serving(folder / "m.db") as served:
            over = threading.Event()
            threads = [threading.Thread(target=work, args=(served, over), daemon=True) for _ in range(clients)]
            for thread in threads:
                thread.start()
            time.sleep(1)
            took = []
            while time.monotonic() - started < seconds:
                asked = time.monotonic()
                status, _ = request(served.url, "GET", "/healthz", timeout=max(10 * bound, 5))
                took.append(time.monotonic() - asked)
                outcome.attempts += 1
                if status != 200 or took[-1] > bound:
                    outcome.fault(f"/healthz: status {status} after {took[-1]:.2f} s")
                time.sleep(0.1)
            outcome.figures["health slowest ms"] = round(1000 * max(took))
            outcome.figures["health median ms"] = round(1000 * sorted(took)[len(took) // 2])
            told = time.monotonic()
            served.kill(signal.SIGTERM)
            over.set()
            if served.wait(end) is None:
                outcome.fault(f"SIGTERM: still there after {end:.0f} s")
            outcome.figures["end after SIGTERM ms"] = round(1000 * (time.monotonic() - told))
            for thread in threads:
                thread.join(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    outcome.seconds = time.monotonic() - started
    return outcome
