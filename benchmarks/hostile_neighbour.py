"""A user with a key who means no good, and what the others notice of it; run by `server_load.py --hostile`.

One key floods, from a process of its own: questions whose client goes away, to a model that takes a minute; queries of
1.2 MB; connections with half a request; pages of large turns; more searches than there are places. Meanwhile the others
search, and somebody asks for the server's health.
"""

from __future__ import annotations

import http.client
import http.server
import json
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from backread.memory import Memory
from backread.server.keys import hash_key

OTHERS = ("ann", "bo", "carl", "dora")
HOSTILE = "mallory"
HALVES, ASKS, SEARCHES = 1100, 40, 8


class SlowModel(http.server.ThreadingHTTPServer):
    """A chat server whose reply takes a minute; counts who asked."""

    daemon_threads = True
    asked = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Slow)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Slow(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        SlowModel.asked += 1
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for _ in range(600):
                self.wfile.write(b'data: {"choices": [{"delta": {"content": "word "}}]}\n\n')
                time.sleep(0.1)
        except OSError:
            return

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def opened(url: str) -> http.client.HTTPConnection:
    """A connection, made when it is needed."""
    parts = urlsplit(url)
    return http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=120)


def sent(
    connection: http.client.HTTPConnection, user: str, method: str, path: str, body: object = None
) -> tuple[int, bytes]:
    """(status, body) of one request."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {user}"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    return response.status, response.read()


def once(url: str, method: str, path: str, body: object = None) -> None:
    """A request on a connection of its own."""
    connection = opened(url)
    try:
        sent(connection, HOSTILE, method, path, body)
    finally:
        connection.close()


def flood(url: str, seconds: float) -> None:
    """Everything at once, until the time is over; niced, for it would come from another machine."""
    os.nice(10)
    until = time.monotonic() + seconds
    here, mine = (str(urlsplit(url).hostname), urlsplit(url).port), f"/v1/users/{HOSTILE}"
    question = b'{"question": "what is honey?"}'
    head = f"POST {mine}/ask HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {HOSTILE}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(question)}\r\n\r\n"

    def abandoned() -> None:
        with socket.create_connection(here, timeout=30) as made:
            made.sendall(head.encode() + question)
            time.sleep(0.2)

    def halves() -> None:
        kept = [socket.create_connection(here, timeout=30) for _ in range(HALVES)]
        for made in kept:
            made.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        time.sleep(2)
        for made in kept:
            made.close()

    large = {"query": "honey " * 200_000, "mode": "bm25"}
    work: list[Callable[[], None]] = [abandoned] * ASKS + [halves]
    work += [lambda: once(url, "POST", f"{mine}/search", large)] * 2
    work += [lambda: once(url, "GET", f"{mine}/turns?limit=500&attachments=full")] * 2
    work += [lambda: once(url, "POST", f"{mine}/search", {"query": "honey", "mode": "bm25"})] * SEARCHES

    def again(one: Callable[[], object]) -> None:
        while time.monotonic() < until:
            try:
                one()
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)  # refused or closed, as it should be

    threads = [threading.Thread(target=again, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    os._exit(0)


def others(url: str, seconds: float, queries: Sequence[str]) -> dict[str, Any]:
    """Milliseconds of the searches of the others, one after the other each, and of health."""
    took: dict[str, list[float]] = {"search": [], "health": []}
    failed: list[str] = []
    until = time.monotonic() + seconds

    def timed(
        name: str, connection: http.client.HTTPConnection, user: str, method: str, path: str, body: object = None
    ) -> None:
        started = time.perf_counter()
        try:
            status = sent(connection, user, method, path, body)[0]
        except (OSError, http.client.HTTPException) as error:
            failed.append(f"{name}: {error!r}")
            connection.close()
            return
        took[name].append(1e3 * (time.perf_counter() - started))
        if status != 200:
            failed.append(f"{name}: {status}")

    def search(user: str) -> None:
        number, connection = 0, opened(url)
        while time.monotonic() < until:
            query = {"query": queries[number % len(queries)], "mode": "bm25"}
            timed("search", connection, user, "POST", f"/v1/users/{user}/search", query)
            number += 7

    def health() -> None:
        while time.monotonic() < until:
            connection = opened(url)  # as whoever watches a server does
            timed("health", connection, HOSTILE, "GET", "/healthz")
            connection.close()
            time.sleep(0.05)

    threads = [threading.Thread(target=search, args=(user,)) for user in OTHERS] + [threading.Thread(target=health)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    row = {
        name: {"p50": float(np.percentile(times, 50)), "p99": float(np.percentile(times, 99)), "most": max(times)}
        for name, times in took.items()
    }
    return {**row, "searches": len(took["search"]), "failed": failed}


def filled(path: Path, turns: int, texts: Sequence[str]) -> Path:
    """Histories of the others and large turns of the hostile one; the file of their keys."""
    with Memory.open(path, embedder="none") as memory:
        for user in OTHERS:
            messages = [{"role": "user", "content": texts[at % len(texts)], "id": f"t{at}"} for at in range(turns)]
            memory.add(messages, user_id=user, session_id="s")
        for number in range(20):
            held = [{"type": "picture", "data": "x" * 4_000_000}]
            message = {"role": "user", "content": "honey", "attachments": held, "id": f"m{number}"}
            memory.add(message, user_id=HOSTILE, session_id=f"s{number}")
    keys = path.with_suffix(".toml")
    entries = [f'[[keys]]\nsha256 = "{hash_key(user)}"\nuser = "{user}"\n' for user in (*OTHERS, HOSTILE)]
    keys.write_text("".join(entries), encoding="utf-8")
    return keys


@contextmanager
def _flooding(url: str, seconds: float) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=flood, args=(url, seconds), daemon=True)
    process.start()
    time.sleep(3)  # until it is at work
    try:
        yield
    finally:
        process.terminate()
        process.join()


def measured(
    path: Path, seconds: float, turns: int, texts: Sequence[str], serving: Callable[..., Any]
) -> dict[str, Any]:
    """The others alone, then beside the flood, on one server each half of the time."""
    keys = filled(path, turns, texts)
    model = SlowModel()
    address = f"http://127.0.0.1:{model.server_address[1]}/v1"
    with serving(path, "none", "--keys", str(keys), OPENAI_BASE_URL=address, BACKREAD_MODEL="slow") as url:
        alone = others(url, seconds, texts)
        with _flooding(url, seconds + 10):
            beside = others(url, seconds, texts)
    ratio = beside["search"]["p99"] / alone["search"]["p99"]
    return {"alone": alone, "beside": beside, "ratio_p99": ratio, "asked": SlowModel.asked, "load": os.getloadavg()[0]}


def show(result: dict[str, Any]) -> None:
    """Print it for people."""
    for name in ("alone", "beside"):
        row = result[name]
        print(f"{name}: {row['searches']:,} searches of {len(OTHERS)} users, {len(row['failed'])} requests failed")
        for kind in ("search", "health"):
            print(f"  {kind:<8}p50 {row[kind]['p50']:.1f}  p99 {row[kind]['p99']:.1f}  most {row[kind]['most']:.1f} ms")
        for what in sorted(set(row["failed"])):
            print(f"  {row['failed'].count(what)} x {what}")
    print(f"p99 of a search: {result['ratio_p99']:.2f} times that of alone")
    print(f"{result['asked']} questions reached the model; load {result['load']:.1f}")
