"""Speed of writing and searching, each beside the machine's limit measured in the same run.

    python benchmarks/speed.py                      # 1,000, 10,000 and 100,000 turns
    python benchmarks/speed.py --sizes 1000 --json
    python benchmarks/speed.py --sizes 1000 --crowd 999   # the same user again among 999 others

The histories are made from the bundled one: turns spliced from two of its turns with a rare word added, sessions of
twenty. Vectors are random unit vectors, so that no model is needed; what the model costs is measured by itself, with
the default embedder when its weights are there. Limits: the product of the same matrix and a vector in numpy for a
search, one write and fsync of a page in the same folder for a commit, one forward pass for a query's vector. Times are
milliseconds, wall and CPU; ratios use CPU time, which a busy machine disturbs least.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from backread.errors import ModelNotAvailableError
from backread.memory import Memory
from backread.models.embedders import open_embedder
from backread.models.fetch import models_dir
from backread.retrieval.registry import create_retriever
from backread.settings import Settings
from backread.store.base import TURNS, Progress
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.types import TurnDraft

QUERIES = 40
DIMENSION = 384


class RandomEmbedder:
    """Unit vectors that cost nothing, the same for the same text."""

    name = "random"
    fingerprint = f"random:{DIMENSION}"
    dimension = DIMENSION
    max_tokens = 254

    def count_tokens(self, text: str) -> int:
        """Words."""
        return len(text.split())

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        """A random unit vector a text."""
        rng = np.random.default_rng(len("".join(texts)))
        vectors = rng.standard_normal((len(texts), DIMENSION)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors


def lines() -> list[str]:
    text = files("backread.demo").joinpath("history.jsonl").read_text(encoding="utf-8")
    return [json.loads(line)["content"] for line in text.splitlines()]


def drafts(count: int, source: Sequence[str], rng: random.Random, start: int = 0) -> list[TurnDraft]:
    made = []
    for number in range(start, start + count):
        first, second = rng.choice(source).split(), rng.choice(source).split()
        words = [*first[: len(first) // 2], *second[len(second) // 2 :], f"rare{rng.randrange(20_000)}"]
        mine = number % 2 == 0
        made.append(
            TurnDraft(
                session_id=f"s{number // 20}",
                role="user" if mine else "assistant",
                speaker="Marta" if mine else None,
                text=" ".join(words),
                external_id=str(number),
            )
        )
    return made


def timed(work: Callable[[], object], repeats: int) -> dict[str, float]:
    """Wall and CPU milliseconds of a call: median, and the 99th percentile of the wall time."""
    wall, cpu = [], []
    for _ in range(repeats):
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        work()
        wall.append(1e3 * (time.perf_counter() - wall_start))
        cpu.append(1e3 * (time.process_time() - cpu_start))
    return {
        "p50": statistics.median(wall),
        "p99": float(np.percentile(wall, 99)),
        "cpu": statistics.median(cpu),
    }


def fsync_ms(folder: Path) -> float:
    """One write of a page made durable."""
    with (folder / "page").open("wb", buffering=0) as page:

        def write() -> None:
            page.seek(0)
            page.write(os.urandom(4096))
            os.fsync(page.fileno())

        return timed(write, 50)["p50"]


def ingest(folder: Path, source: Sequence[str]) -> dict[str, Any]:
    """Durable turns a second: one a commit, batches of 32, bulk."""
    rng = random.Random(1)
    store = SqliteStore(folder / "ingest.db")
    out: dict[str, Any] = {"fsync_ms": fsync_ms(folder)}
    at = 0
    for name, batch, count in (("single", 1, 150), ("batch_32", 32, 1600), ("bulk_1000", 1000, 10_000)):
        turns = drafts(count, source, rng, at)
        at += count
        started, cpu = time.perf_counter(), time.process_time()
        for first in range(0, count, batch):
            store.append("ann", turns[first : first + batch])
        out[name] = {
            "turns_per_s": count / (time.perf_counter() - started),
            "cpu_ms_per_turn": 1e3 * (time.process_time() - cpu) / count,
            "commit_ms": 1e3 * (time.perf_counter() - started) / (count / batch),
        }
    store.close()
    return out


def fill(path: Path, count: int, source: Sequence[str]) -> None:
    """A store of one user with vectors."""
    store, rng = SqliteStore(path), random.Random(2)
    for first in track(range(0, count, 2000), description=f"{count:,} turns", transient=True):
        store.append("ann", drafts(min(2000, count - first), source, rng, first))
    add_vectors(store, "ann")
    store.close()


def add_vectors(store: SqliteStore, user_id: str) -> None:
    """A random unit vector for every turn of a user."""
    docs = np.sort(store.layout(user_id).docs)
    vectors = np.random.default_rng(3).standard_normal((len(docs), DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    reached = Progress(0, 0)
    for first in range(0, len(docs), 4096):
        part = docs[first : first + 4096]
        until = Progress(int(part[-1]) + 1, 0)
        rows = vectors[first : first + 4096]
        store.put_vectors(user_id, TURNS, RandomEmbedder.fingerprint, reached, part, rows, until)
        reached = until


def crowd(path: Path, others: int, source: Sequence[str]) -> None:
    """More users of 1,000 turns each, written in turns of twenty, as traffic of many users is."""
    store, rng = SqliteStore(path), random.Random(4)
    for group in track(range(0, others, 50), description=f"{others} users", transient=True):
        names = [f"user{number}" for number in range(group, min(others, group + 50))]
        for first in range(0, 1000, 20):
            for name in names:
                store.append(name, drafts(20, source, rng, first))
        for name in names:
            add_vectors(store, name)
    store.close()


def searching(path: Path, count: int, source: Sequence[str]) -> dict[str, Any]:
    """Each retriever and a whole recall on one user, beside the scan of the same matrix."""
    embedder = RandomEmbedder()
    started = time.perf_counter()
    store = SqliteStore(path)
    history = History(store, "ann")
    create_retriever("bm25", None).search(history.corpus("turn"), source[5], 10)
    out: dict[str, Any] = {"cold_open_ms": 1e3 * (time.perf_counter() - started)}
    out["bytes_per_turn"] = path.stat().st_size / count
    matrix = np.array(store.vectors("ann", TURNS, embedder.fingerprint)[1])
    query = embedder.embed(["scan"])[0]
    out["scan"] = timed(lambda: matrix @ query, QUERIES)
    questions = iter([source[7 * number % len(source)] for number in range(20 * QUERIES)])
    for name in ("bm25", "dense", "rrf", "hybrid"):
        retriever = create_retriever(name, embedder)
        retriever.search(history.corpus("turn"), next(questions), 10)
        out[name] = timed(lambda: retriever.search(history.corpus("turn"), next(questions), 10), QUERIES)  # noqa: B023
    with contextlib.closing(SqliteStore(path, vector_cache_bytes=0)) as cold:
        retriever, unkept = create_retriever("dense", embedder), History(cold, "ann")
        out["dense, file"] = timed(lambda: retriever.search(unkept.corpus("turn"), next(questions), 10), QUERIES)
    with Memory(store, Settings(path=path), embedder=embedder) as memory:
        memory.recall(next(questions), user_id="ann")
        out["recall"] = timed(lambda: memory.recall(next(questions), user_id="ann"), QUERIES)
    return out


def embedding(source: Sequence[str]) -> dict[str, Any] | None:
    """Texts a second of the default embedder by length, and one query; None without its weights."""
    try:
        embedder = open_embedder("minilm", directory=models_dir())
    except ModelNotAvailableError:
        return None
    embedder.embed(["warm up"])
    out: dict[str, Any] = {"query": timed(lambda: embedder.embed([source[9]]), QUERIES)}
    for name, words in (("short", 20), ("long", 120)):
        pool = " ".join(source).split()
        texts = [" ".join(pool[at : at + words]) for at in range(0, 128 * words, words)]
        took = timed(lambda: embedder.embed(texts), 3)  # noqa: B023
        out[name] = {"texts_per_s": 1e3 * len(texts) / took["p50"], "cpu_ms_per_text": took["cpu"] / len(texts)}
    return out


def importing(folder: Path, count: int, source: Sequence[str]) -> dict[str, float] | None:
    """Seconds of an import from end to end: storing with its text index, then embedding; None without the weights."""
    rng = random.Random(5)
    with Memory.open(folder / "import.db") as memory:
        if memory.embedder is None:
            return None
        started = time.perf_counter()
        for first in range(0, count, 500):
            memory.add_turns(drafts(min(500, count - first), source, rng, first), user_id="ann")
        stored = time.perf_counter()
        memory.index()
        return {"turns": count, "storing_s": stored - started, "embedding_s": time.perf_counter() - stored}


def show(result: dict[str, Any]) -> None:
    """Tables a terminal can hold."""
    writing = result["ingest"]
    print(f"\nwriting, beside one fsync of {writing['fsync_ms']:.2f} ms")
    for name in ("single", "batch_32", "bulk_1000"):
        row = writing[name]
        print(
            f"  {name:<10}{row['turns_per_s']:>9,.0f} turns/s  {row['cpu_ms_per_turn']:.3f} CPU ms a turn"
            f"  {row['commit_ms'] / writing['fsync_ms']:.1f} fsyncs a commit"
        )
    for size, row in result["search"].items():
        print(f"\n{size} turns: {row['bytes_per_turn']:,.0f} bytes a turn, cold open {row['cold_open_ms']:.0f} ms")
        print(f"  {'':<12}{'p50':>9}{'p99':>9}{'CPU':>9}{'x scan':>9}")
        for name in ("scan", "bm25", "dense", "dense, file", "rrf", "hybrid", "recall"):
            took = row[name]
            share = took["cpu"] / row["scan"]["cpu"] if row["scan"]["cpu"] else float("nan")
            print(f"  {name:<12}{took['p50']:>9.2f}{took['p99']:>9.2f}{took['cpu']:>9.2f}{share:>9.1f}")
    model = result["embedding"]
    if model is None:
        print("\nembedding: not measured, the weights are not there")
    else:
        print(f"\nembedding: a query {model['query']['p50']:.1f} ms ({model['query']['cpu']:.1f} CPU)")
        for name in ("short", "long"):
            row = model[name]
            print(f"  {name:<8}{row['texts_per_s']:>7.0f} texts/s  {row['cpu_ms_per_text']:.1f} CPU ms a text")
    if (took := result["import"]) is not None:
        parts = f"storing {took['storing_s']:.0f} s, embedding {took['embedding_s']:.0f} s"
        print(f"\nimport of {took['turns']:,} turns: {parts}")
    print(f"\npeak memory {result['peak_rss_mb']:.0f} MB, load {result['load']:.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 10_000, 100_000])
    parser.add_argument("--crowd", type=int, default=0, help="users of 1,000 turns to add, then measure again")
    parser.add_argument(
        "--import-turns", type=int, default=0, help="turns to import from end to end, embedding included"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    source = lines()
    folder = Path(tempfile.mkdtemp(prefix="backread-speed-"))
    try:
        result: dict[str, Any] = {"ingest": ingest(folder, source), "search": {}}
        for size in args.sizes:
            fill(folder / f"{size}.db", size, source)
            result["search"][str(size)] = searching(folder / f"{size}.db", size, source)
            if args.crowd:
                crowd(folder / f"{size}.db", args.crowd, source)
                again = searching(folder / f"{size}.db", size + 1000 * args.crowd, source)
                result["search"][f"{size} among {args.crowd} users"] = again
            (folder / f"{size}.db").unlink()
        result["embedding"] = embedding(source)
        result["import"] = importing(folder, args.import_turns, source) if args.import_turns else None
        result["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        result["load"] = os.getloadavg()[0]
    finally:
        shutil.rmtree(folder)
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
