"""What memory costs a chat: the same chats through the proxy and straight to the server behind, alternately.

    python benchmarks/proxy_overhead.py                       # 200 chats each way, by words only
    python benchmarks/proxy_overhead.py --embedder minilm --chats 100 --upstream-ms 300 --json

A chat server that answers from a script, and `backread serve --upstream` on a history made from the bundled one, run as
processes of their own. Each chat has a question of its own and is sent once straight and once through the proxy, right
after each other, so that both meet the same machine; the order changes from chat to chat. Whole answers and streams are
measured apart; of a stream also the time to its first chunk. `--upstream-ms` is how long the server behind thinks: with
0 the ratio is that of nothing but overhead, with what a model takes it is what a user would notice.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from starlette.types import Receive, Scope, Send

from backread.memory import Memory

USER = "ann"
PATH = "/v1/chat/completions"
WORDS = "The spare key is under the blue pot beside the back door, where it was in spring."


def lines() -> list[str]:
    text = files("backread.demo").joinpath("history.jsonl").read_text(encoding="utf-8")
    return [json.loads(line)["content"] for line in text.splitlines()]


async def fake(scope: Scope, receive: Receive, send: Send) -> None:
    """A chat server: the same answer to everything, after UPSTREAM_MS."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await asyncio.sleep(float(os.environ["UPSTREAM_MS"]) / 1e3)
    base = {"id": "c", "created": 1, "model": "fake"}
    if json.loads(body).get("stream"):
        deltas: list[dict[str, str]] = [{"content": f"{word} "} for word in WORDS.split()]
        events = [
            {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}]}
            for delta in (*deltas, {})
        ]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for event in events:
            data = f"data: {json.dumps(event)}\n\n".encode()
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})
        return
    choice = {"index": 0, "message": {"role": "assistant", "content": WORDS}, "finish_reason": "stop"}
    whole = json.dumps({**base, "choices": [choice]}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": whole})


def serve_fake() -> None:
    import socket

    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    sys.stderr.write(f"http://127.0.0.1:{listening.getsockname()[1]}\n")
    sys.stderr.flush()
    uvicorn.Server(uvicorn.Config(fake, lifespan="off", log_level="critical")).run(sockets=[listening])


@contextmanager
def process(*command: str, **variables: str) -> Iterator[str]:
    """A process that says its address on stderr; it is ended with SIGTERM."""
    env = {**os.environ, **variables}
    with subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True, env=env) as running:
        assert running.stderr is not None
        found = re.search(r"http://\S+", running.stderr.readline())
        if found is None:
            raise RuntimeError(running.stderr.read())
        try:
            yield found[0]
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(60)


class Client:
    """One connection that is kept."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=120)

    def chat(self, question: str, *, stream: bool) -> tuple[float, float, bytes]:
        """(seconds to the first byte of the body, seconds in all, the body)."""
        body = {"model": "m", "messages": [{"role": "user", "content": question}], "stream": stream}
        started = time.perf_counter()
        self._connection.request("POST", PATH, json.dumps(body), {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        first = response.read1(65536)
        at_first = time.perf_counter() - started
        answer = first + response.read()
        took = time.perf_counter() - started
        if response.status != 200:
            raise RuntimeError(f"{response.status} {answer!r}")
        return at_first, took, answer

    def cpu_seconds(self) -> float:
        """CPU time the server has used, as it tells itself."""
        self._connection.request("GET", "/metrics")
        found = re.search(r"^process_cpu_seconds_total (\S+)$", self._connection.getresponse().read().decode(), re.M)
        return float(found[1]) if found else float("nan")


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds."""
    return {"p50": 1e3 * float(np.percentile(seconds, 50)), "p95": 1e3 * float(np.percentile(seconds, 95))}


def alternately(direct: Client, proxy: Client, questions: Sequence[str], *, stream: bool) -> dict[str, Any]:
    took: dict[str, list[float]] = {"direct": [], "proxy": []}
    first: dict[str, list[float]] = {"direct": [], "proxy": []}
    cited, warm = 0, 5
    cpu = 0.0
    for number, question in enumerate(questions):
        if number == warm:
            cpu = -proxy.cpu_seconds()
        pair = [("direct", direct), ("proxy", proxy)]
        for name, client in pair if number % 2 else reversed(pair):
            at_first, whole, answer = client.chat(question, stream=stream)
            if number >= warm:
                took[name].append(whole)
                first[name].append(at_first)
                cited += b'"citations":[{' in answer
    count = len(took["proxy"])
    rows: dict[str, Any] = {name: percentiles(times) for name, times in took.items()}
    if stream:
        rows |= {f"{name}_first": percentiles(times) for name, times in first.items()}
    differences = [proxied - straight for straight, proxied in zip(took["direct"], took["proxy"], strict=True)]
    return {
        **rows,
        "added": percentiles(differences),
        "ratio_p50": rows["proxy"]["p50"] / rows["direct"]["p50"],
        "ratio_p95": rows["proxy"]["p95"] / rows["direct"]["p95"],
        "cpu_ms": 1e3 * (cpu + proxy.cpu_seconds()) / count,
        "chats": count,
        "with_evidence": cited,
    }


def measure(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    source, path = lines(), folder / "m.db"
    os.environ["BACKREAD_EMBEDDER"] = args.embedder
    with Memory.open(path) as memory:
        turns = [{"role": "user", "content": source[at % len(source)], "id": f"t{at}"} for at in range(args.turns)]
        memory.add(turns, user_id=USER, session_id="before")
        if memory.embedder is not None:
            memory.index()
    with (
        process(__file__, "--fake", UPSTREAM_MS=str(args.upstream_ms)) as behind,
        process(
            *("-m", "backread", "serve", "--path", str(path), "--port", "0"),
            *("--upstream", behind, "--user", USER),
            BACKREAD_EMBEDDER=args.embedder,
        ) as url,
    ):
        direct, proxy = Client(behind), Client(url)
        result: dict[str, Any] = {}
        for name, stream in (("whole", False), ("stream", True)):
            questions = [f"{source[(11 * at) % len(source)]} {name} {at}" for at in range(args.chats + 5)]
            result[name] = alternately(direct, proxy, questions, stream=stream)
    result["load"] = os.getloadavg()[0]
    return result


def show(result: dict[str, Any]) -> None:
    for name in ("whole", "stream"):
        row = result[name]
        print(f"{name} answers, {row['chats']} each way, {row['with_evidence']} with evidence, ms")
        for part in ("direct", "proxy", "direct_first", "proxy_first", "added"):
            if part in row:
                print(f"  {part.replace('_', ', '):<14}p50 {row[part]['p50']:.1f}  p95 {row[part]['p95']:.1f}")
        print(f"  proxy / direct: {row['ratio_p50']:.2f} at p50, {row['ratio_p95']:.2f} at p95")
        print(f"  CPU of the proxy: {row['cpu_ms']:.1f} ms a chat")
    print(f"load {result['load']:.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chats", type=int, default=200, help="each way, whole and as streams each")
    parser.add_argument("--turns", type=int, default=1000, help="of the history that is there before")
    parser.add_argument("--upstream-ms", type=float, default=0.0, help="how long the server behind thinks")
    parser.add_argument("--embedder", default="none")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--fake", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.fake:
        serve_fake()
        return 0
    folder = Path(tempfile.mkdtemp(prefix="backread-proxy-"))
    try:
        result = measure(folder, args)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(result, indent=1)) if args.json else show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
