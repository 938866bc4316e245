"""`backread serve` under load until it is killed: the REST API, and the chat proxy in front of a server of ours."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import random
import re
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, urlsplit

import uvicorn
from attack_ledger import USER, Ledger, Operation, Outcome, text_of
from attack_victims import quiet

from backread.cli import main
from backread.server import app, proxy, running

PRELOADED: Final = (uvicorn, app, proxy, running)
"""What a server imports when it starts: loaded before the fork, so that kills hit its work."""

__all__ = ["PRELOADED", "SERVERS", "Served", "killed_server", "request", "serving", "wait_until"]

SERVERS: Final = ("server", "proxy")
CLIENTS: Final = 3
_STARTING: Final = 1 / 8  # the share of kills that hit a server before it listens


class Served:
    """A server that is a fork of this process: its address and its process id."""

    def __init__(self, url: str, pid: int) -> None:
        self.url, self.pid = url, pid
        self.ended: int | None = None

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal; after SIGKILL wait for the end."""
        if self.ended is None:
            os.kill(self.pid, number)
            if number is signal.SIGKILL:
                self.wait(60)

    def wait(self, seconds: float) -> int | None:
        """The exit code, minus the signal that ended it; None when it is still there after `seconds`."""
        deadline = time.monotonic() + seconds
        while self.ended is None and time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.ended = os.waitstatus_to_exitcode(status)
            else:
                time.sleep(0.005)
        return self.ended


def _forked(arguments: list[str]) -> tuple[int, int]:
    """(process id, where its stderr can be read) of `backread` with these arguments."""
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            quiet(sink)
            sys.argv = ["backread", *arguments]
            main()
        except SystemExit as done:
            os._exit(done.code if isinstance(done.code, int) else 1)
        except BaseException:  # noqa: BLE001 -- told to the attacker
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(1)
    os.close(sink)
    return pid, source


def _address(source: int, seconds: float = 30) -> str:
    """The address that a server says it listens at.

    Raises:
        RuntimeError: it said something else, or nothing in time.
    """
    said, deadline = b"", time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and select.select([source], [], [], left)[0]:
        more = os.read(source, 4096)
        said += more
        found = re.search(rb"http://\S+:\d+(?=[/\s])", said)
        if found:
            return found[0].decode()
        if not more:
            break
    raise RuntimeError(f"the server did not start: {said.decode(errors='replace')[-500:]}")


@contextmanager
def serving(path: Path, *options: str) -> Iterator[Served]:
    """`backread serve` over a file; killed in the end, if it is still there."""
    pid, source = _forked(["serve", "--path", str(path), "--port", "0", *options])
    served = Served("", pid)
    try:
        served.url = _address(source)
        yield served
    finally:
        served.kill()
        os.close(source)


def request(
    url: str,
    method: str,
    path: str,
    body: object = None,
    *,
    timeout: float = 30,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """(status, body) of a request over a connection of its own; (0, None) when there was no answer."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    try:
        data = None if body is None else json.dumps(body)
        sent = {"Content-Type": "application/json"} if data else {}
        connection.request(method, path, data, {**sent, **headers})
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        return 0, None
    finally:
        connection.close()


class _Behind(http.server.BaseHTTPRequestHandler):
    """A chat server that answers each message with the text of a turn named after it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = [item["content"] for item in given["messages"] if item["role"] == "user"][-1]
        word = re.findall(r"zq\w+?qz", asked)[-1]
        message = {"role": "assistant", "content": text_of(f"{word[:-2]}rqz")}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        body = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: object) -> None:
        """Quiet."""


class _BehindServer(http.server.ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Quiet: whoever asked was killed."""


@contextmanager
def _behind() -> Iterator[str]:
    """The address of the server behind: a fork, so that this process has no thread when it forks again."""
    with _BehindServer(("127.0.0.1", 0), _Behind) as server:
        pid = os.fork()
        if pid == 0:
            try:
                server.serve_forever()
            finally:
                os._exit(1)
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def killed_server(victim: str, path: Path, run: int, rng: random.Random, ledger: Ledger, outcome: Outcome) -> None:
    """Start a server, let clients write to it, and kill it."""
    if rng.random() < _STARTING:
        pid, source = _forked(["serve", "--path", str(path), "--port", "0"])
        time.sleep(rng.uniform(0, 0.3))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(source)
        outcome.figures["kills while starting"] += 1
        return
    seconds = rng.uniform(0, 0.6)
    if victim == "server":
        with serving(path) as served:
            _attacked(_write, served, run, seconds, ledger, outcome)
    else:
        with _behind() as behind, serving(path, "--upstream", behind, "--user", USER) as served:
            _attacked(_chat, served, run, seconds, ledger, outcome)


def wait_until(reached: Callable[[], bool], seconds: float) -> None:
    """Wait for something, but not for ever."""
    deadline = time.monotonic() + seconds
    while not reached() and time.monotonic() < deadline:
        time.sleep(0.005)


def _attacked(client: Any, served: Served, run: int, seconds: float, ledger: Ledger, outcome: Outcome) -> None:
    lock, over = threading.Lock(), threading.Event()

    def one(number: int) -> None:
        client(served.url, f"{run}c{number}", ledger, lock, over, outcome)

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(one, number) for number in range(CLIENTS)]
        if run % 4:  # at work already; else also before the first answer
            wait_until(lambda: any(acknowledged for _, acknowledged in ledger.begun), 10)
        time.sleep(seconds)
        served.kill()
        over.set()
        for done in clients:
            done.result()


def _call(
    url: str,
    operation: Operation,
    ledger: Ledger,
    lock: threading.Lock,
    outcome: Outcome,
    *how: Any,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """Make a request that carries out an operation; whether it was acknowledged."""
    with lock:
        place = ledger.begin(operation)
    method, path, *more = how
    status, body = request(url, method, path, *more, headers=headers)
    if status == 0:
        return False
    with lock:
        if 200 <= status < 300:
            ledger.done(place)
        elif status == 409 and operation.kind == "other":
            outcome.figures["builds that were under way"] += 1
        elif status not in (429, 503):  # busy is an answer; the operation may or may not have been done
            outcome.fault(f"{how[0]} {how[1]} was answered {status}: {str(body)[:200]}")
        else:
            outcome.figures["answers that say busy"] += 1
    return True


def _write(url: str, name: str, ledger: Ledger, lock: threading.Lock, over: threading.Event, outcome: Outcome) -> None:
    """A client of the API: batches, deletes of turns and of sessions, builds."""
    base = f"/v1/users/{USER}"
    for step in range(10**9):
        session = f"zs{name}x{step}sz"
        words = tuple(f"zq{name}x{step}x{number}qz" for number in range((1, 8, 3)[step % 3]))
        messages = [{"role": "user", "content": text_of(word), "id": word} for word in words]
        body = {"messages": messages, "session_id": session}
        calls: list[tuple[Operation, tuple[Any, ...]]] = [
            (Operation("add", words, session), ("POST", f"{base}/turns", body))
        ]
        if step % 3 == 0:
            calls.append((Operation("erase", words, session), ("DELETE", f"{base}/turns/{words[0]}")))
        if step % 6 == 1:
            design = ("lightmem", "leanmem", "t2mem")[step // 6 % 3]
            calls.append((Operation("other"), ("POST", f"{base}/builds", {"strategy": design, "flush": True})))
        if step % 9 == 4:
            erase = Operation("erase_session", words, session)
            calls.append((erase, ("DELETE", f"{base}/sessions/{quote(session)}")))
        for operation, how in calls:
            if over.is_set() or not _call(url, operation, ledger, lock, outcome, *how):
                return


def _chat(url: str, name: str, ledger: Ledger, lock: threading.Lock, over: threading.Event, outcome: Outcome) -> None:
    """A chat client: each message opens or goes on with a conversation; its reply is a turn as well."""
    talk: list[dict[str, str]] = []
    for step in range(10**9):
        word = f"zq{name}x{step}qz"
        talk = [*(talk if step % 4 else []), {"role": "user", "content": text_of(word)}]
        operation = Operation("add", (word, f"{word[:-2]}rqz"), f"zs{name}x{step // 4}sz", whole=False)
        session = {"X-Backread-Session": operation.session}
        how = ("POST", "/v1/chat/completions", {"model": "m", "messages": talk})
        if over.is_set() or not _call(url, operation, ledger, lock, outcome, *how, headers=session):
            return
        talk.append({"role": "assistant", "content": text_of(f"{word[:-2]}rqz")})
