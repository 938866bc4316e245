"""Many clients at one server at the same time: nothing fails, nothing acknowledged is lost, and what HTTP costs.

    python benchmarks/server_load.py                  # 50 clients for 15 seconds
    python benchmarks/server_load.py --seconds 60 --mode hybrid --embedder minilm --json
    python benchmarks/server_load.py --hostile        # beside a user who floods, see `hostile_neighbour.py`

A server is started on a history made from the bundled one. First one client searches, each search once over HTTP and
once by calling `Memory` on the same file, alternately, so that both meet the same machine. Then all clients work at
once, four searches to one message, and afterwards every acknowledged message is looked for, over HTTP and in the file.
The same work by as many threads on a `Memory` of their own follows. The clients are threads of this process, so that
with few cores they take their share of what the server could have done. A search over HTTP waits for a core four times,
one by a call not once: on a busy machine only the ratio of CPU times means anything.
"""

from __future__ import annotations

import argparse
import http.client
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from backread.memory import Memory

USER = "ann"
SEARCHES_TO_A_MESSAGE = 4
MOST_RATIO, MOST_HEALTH_MS = 3.0, 500.0
"""What a hostile neighbour may cost the others in the p99 of a search, and how long health may take."""


def lines() -> list[str]:
    text = files("backread.demo").joinpath("history.jsonl").read_text(encoding="utf-8")
    return [json.loads(line)["content"] for line in text.splitlines()]


class Client:
    """One connection that is kept, and what the server answers on it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=120)

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """(status, body as JSON or text)."""
        data = None if body is None else json.dumps(body)
        self._connection.request(method, path, data, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        text = response.read().decode()
        is_json = "json" in (response.getheader("Content-Type") or "")
        return response.status, json.loads(text) if is_json else text

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@contextmanager
def server(path: Path, embedder: str, *options: str, **variables: str) -> Iterator[str]:
    """A `backread serve` on `path`; gives its URL, and ends it with SIGTERM."""
    command = [sys.executable, "-m", "backread", "serve", "--path", str(path), "--port", "0", *options]
    env = {**os.environ, "BACKREAD_EMBEDDER": embedder, **variables}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        if found is None:
            raise RuntimeError(process.stderr.read())
        try:
            yield found[0]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


@dataclass
class Work:
    """What the clients did together."""

    took: dict[str, list[float]] = field(default_factory=lambda: {"search": [], "add": []})
    added: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def row(self) -> dict[str, Any]:
        """The figures of it."""
        requests = sum(len(times) for times in self.took.values())
        return {
            "requests": requests,
            "requests_per_s": requests / self.seconds,
            "errors": dict(self.errors),
            "added": len(self.added),
            **{name: percentiles(times) for name, times in self.took.items()},
        }


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds."""
    if not seconds:
        return {"p50": float("nan"), "p99": float("nan")}
    return {"p50": 1e3 * float(np.percentile(seconds, 50)), "p99": 1e3 * float(np.percentile(seconds, 99))}


def together(
    clients: int,
    seconds: float,
    source: Sequence[str],
    connect: Callable[[], tuple[Callable[[str], None], Callable[[str, str], None]]],
) -> Work:
    """`clients` threads at work at once; `connect` gives each its (search, add), which raise when they fail."""
    work, lock, until = Work(), threading.Lock(), time.monotonic() + seconds

    def client(number: int) -> None:
        search, add = connect()
        rng, step = random.Random(number), 0
        while time.monotonic() < until:
            name = f"c{number}n{step}"
            adds = step % (SEARCHES_TO_A_MESSAGE + 1) == 0
            started = time.perf_counter()
            try:
                if adds:
                    add(name, f"{rng.choice(source)} {name}")
                else:
                    search(rng.choice(source))
            except Exception as error:  # noqa: BLE001 -- counted and shown: that there are none is what is measured
                with lock:
                    work.errors[f"{type(error).__name__}: {error}"[:200]] += 1
            else:
                with lock:
                    work.took["add" if adds else "search"].append(time.perf_counter() - started)
                    if adds:
                        work.added.append(name)
            step += 1

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work.seconds = time.perf_counter() - started
    return work


def over_http(url: str, mode: str) -> tuple[Callable[[str], None], Callable[[str, str], None]]:
    """(search, add) of a client with a connection of its own."""
    client = Client(url)

    def search(query: str) -> None:
        status, body = client.ask("POST", f"/v1/users/{USER}/search", {"query": query, "mode": mode})
        if status != 200:
            raise RuntimeError(f"{status} {body}")

    def add(name: str, text: str) -> None:
        message = {"role": "user", "content": text, "id": name}
        body = {"messages": [message], "session_id": name.split("n")[0]}
        status, receipt = client.ask("POST", f"/v1/users/{USER}/turns", body)
        if status != 200 or receipt["stored"] != 1:
            raise RuntimeError(f"{status} {receipt}")

    return search, add


def directly(memory: Memory, mode: str) -> tuple[Callable[[str], None], Callable[[str, str], None]]:
    """(search, add) by calls of `Memory`."""

    def search(query: str) -> None:
        memory.search(query, user_id=USER, mode=mode)

    def add(name: str, text: str) -> None:
        memory.add({"role": "user", "content": text, "id": f"d{name}"}, user_id=USER, session_id=name.split("n")[0])

    return search, add


def alternately(url: str, memory: Memory, mode: str, source: Sequence[str], count: int) -> dict[str, Any]:
    """Each search over HTTP and directly, one client; `cpu` is the server's, or this thread's."""
    rest, _ = over_http(url, mode)
    direct, _ = directly(memory, mode)
    took: dict[str, list[float]] = {"rest": [], "direct": []}
    cpu = {"rest": 0.0, "direct": 0.0}
    for number in range(-5, count):
        query = source[11 * number % len(source)]
        if number == 0:  # the first ones warmed both up
            cpu = {"rest": -cpu_seconds(url), "direct": 0.0}
        for name, search in (("rest", rest), ("direct", direct)):
            started, busy = time.perf_counter(), time.thread_time()
            search(query)
            if number >= 0:
                took[name].append(time.perf_counter() - started)
                cpu["direct"] += time.thread_time() - busy if name == "direct" else 0.0
    cpu["rest"] += cpu_seconds(url)
    rows: dict[str, Any] = {
        name: {**percentiles(times), "cpu": 1e3 * cpu[name] / count} for name, times in took.items()
    }
    rows["ratio_p50"] = rows["rest"]["p50"] / rows["direct"]["p50"]
    rows["ratio_cpu"] = rows["rest"]["cpu"] / rows["direct"]["cpu"]
    return rows


def cpu_seconds(url: str) -> float:
    """CPU time the server has used, as it tells itself."""
    client = Client(url)
    text = client.ask("GET", "/metrics")[1]
    client.close()
    found = re.search(r"^process_cpu_seconds_total (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else float("nan")


def found_again(url: str) -> set[str]:
    """External ids of all turns, by walking through the pages."""
    client, cursor, names = Client(url), "", set()
    while True:
        page = client.ask("GET", f"/v1/users/{USER}/turns?limit=500{cursor}")[1]
        names |= {turn["external_id"] for turn in page["items"]}
        if page["next_cursor"] is None:
            client.close()
            return names
        cursor = f"&cursor={page['next_cursor']}"


def measure(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    source, path = lines(), folder / "m.db"
    os.environ["BACKREAD_EMBEDDER"] = args.embedder
    with Memory.open(path) as memory:
        turns = [{"role": "user", "content": source[at % len(source)], "id": f"t{at}"} for at in range(args.turns)]
        memory.add(turns, user_id=USER, session_id="before")
        if memory.embedder is not None:
            memory.index()
        with server(path, args.embedder) as url:
            result: dict[str, Any] = {"alone": alternately(url, memory, args.mode, source, args.searches)}
            before = cpu_seconds(url)
            work = together(args.clients, args.seconds, source, lambda: over_http(url, args.mode))
            result["together"] = work.row()
            result["together"]["server_cpu_ms_per_request"] = (
                1e3 * (cpu_seconds(url) - before) / max(1, result["together"]["requests"])
            )
            lost_over_http = set(work.added) - found_again(url)
        stored = {turn.external_id for turn in memory.turns(user_id=USER)}
        result["lost"] = len(lost_over_http | (set(work.added) - stored))
        result["verify_faults"] = len(memory.verify().faults)
        again = together(args.clients, args.seconds, source, lambda: directly(memory, args.mode)).row()
        result["together_directly"] = again
        result["load"] = os.getloadavg()[0]
        result["requests_per_s_ratio"] = result["together"]["requests_per_s"] / again["requests_per_s"]
    return result


def show(result: dict[str, Any]) -> None:
    alone = result["alone"]
    print("one client, the same searches alternately, ms")
    for name in ("rest", "direct"):
        row = alone[name]
        print(f"  {name:<8}p50 {row['p50']:.2f}  p99 {row['p99']:.2f}  CPU {row['cpu']:.2f}")
    print(f"  HTTP / Memory: {alone['ratio_p50']:.2f} of the time, {alone['ratio_cpu']:.2f} of the CPU")
    for name, title in (("together", "all clients over HTTP"), ("together_directly", "as many threads on Memory")):
        row = result[name]
        print(f"{title}: {row['requests_per_s']:,.0f} requests/s, {sum(row['errors'].values())} errors")
        for kind in ("search", "add"):
            print(f"  {kind:<8}p50 {row[kind]['p50']:.1f}  p99 {row[kind]['p99']:.1f} ms")
        for error, count in row["errors"].items():
            print(f"  {count} x {error}")
    row = result["together"]
    print(f"HTTP / Memory: {result['requests_per_s_ratio']:.2f} of the requests a second")
    print(f"server CPU: {row['server_cpu_ms_per_request']:.2f} ms a request")
    print(f"load {result['load']:.1f}")
    print(f"{row['added']:,} turns acknowledged, {result['lost']} lost, {result['verify_faults']} faults in the file")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0, help="of work together, over HTTP and directly each")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--turns", type=int, default=1000, help="of the history that is there before")
    parser.add_argument("--searches", type=int, default=200, help="of one client alone")
    parser.add_argument("--mode", default="bm25", choices=("bm25", "hybrid"))
    parser.add_argument("--embedder", default="none")
    parser.add_argument("--hostile", action="store_true", help="what others notice of a user who floods the server")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="backread-load-"))
    hostile_neighbour = importlib.import_module("hostile_neighbour")  # beside this file
    try:
        if args.hostile:
            result = hostile_neighbour.measured(folder / "m.db", args.seconds, args.turns, lines(), server)
        else:
            result = measure(folder, args)
    finally:
        shutil.rmtree(folder)
    if args.hostile:
        print(json.dumps(result, indent=1)) if args.json else hostile_neighbour.show(result)
        return int(result["ratio_p99"] > MOST_RATIO or result["beside"]["health"]["most"] > MOST_HEALTH_MS)
    print(json.dumps(result, indent=1)) if args.json else show(result)
    failed = result["lost"] or result["together"]["errors"] or result["verify_faults"]
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
