"""Searching one large user: exact from the file, exact on a matrix in memory, and with the nearest-neighbour index.

    python benchmarks/large_user.py                        # 300,000 vectors; needs backread[ann], minutes, 3 GB of disk
    python benchmarks/large_user.py --vectors 20000 --json

Vectors: 384 dimensions, seeded. One centre, a random direction, for every 300 vectors; each session of twenty turns has
one of them; a vector is centre + 0.8 x a random direction, made a unit vector (cosine about .78 with its centre, .61
within a cluster, 0 across). A question is the vector of a random turn + 0.8 x a random direction, with half of the
turn's words. Turns are spliced from the bundled history with a rare word added, so that their words say nothing about
their cluster. Each way of searching runs in a process of its own, beside the numpy scan of the same matrix; recall@50
is against that scan. Milliseconds are medians; ratios use CPU time, which a busy machine disturbs least.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from backread.retrieval.registry import create_retriever
from backread.store.base import TURNS, Progress
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.types import TurnDraft

DIMENSION, SESSION, CLUSTER, NOISE = 384, 20, 300, 0.8
DEPTH, COMPARED = 50, 800  # COMPARED is what a search asks an index for
FINGERPRINT = f"clustered:{DIMENSION}"
WAYS = ("scan", "file", "matrix", "index", "index, newer rows")
RANKINGS = "rankings"
RETRIEVERS = ("dense", "rrf", "interpolation", "hybrid")


class GivenEmbedder:
    """Gives the vector it was handed, whatever the text."""

    name = "given"
    fingerprint = FINGERPRINT
    dimension = DIMENSION
    max_tokens = 254
    vector = np.zeros(DIMENSION, dtype=np.float32)

    def count_tokens(self, text: str) -> int:
        """Words."""
        return len(text.split())

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        """The vector, once for each text."""
        return np.tile(self.vector, (len(texts), 1))


def noisy(rng: np.random.Generator, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors plus a random direction each, as unit vectors."""
    noise = rng.standard_normal(vectors.shape, dtype=np.float32)
    moved = vectors + np.float32(NOISE) * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    unit: NDArray[np.float32] = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    return unit


def make_vectors(count: int, questions: int, folder: Path, texts: Sequence[str]) -> None:
    """Write `vectors.npy`, and the questions' vectors and words."""
    rng = np.random.default_rng(7)
    centres = rng.standard_normal((max(1, count // CLUSTER), DIMENSION), dtype=np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    of = np.repeat(rng.integers(len(centres), size=count // SESSION + 1), SESSION)[:count]
    vectors = np.concatenate([noisy(rng, centres[of[at : at + 20_000]]) for at in range(0, count, 20_000)])
    about = rng.choice(count, size=questions, replace=False)
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "questions.npy", noisy(rng, vectors[about]))
    words = [" ".join(texts[turn].split()[::2]) for turn in about.tolist()]
    (folder / "questions.json").write_text(json.dumps(words), encoding="utf-8")


def make_texts(count: int) -> list[str]:
    """Texts spliced from two of the bundled history."""
    rng = random.Random(2)
    text = files("backread.demo").joinpath("history.jsonl").read_text(encoding="utf-8")
    source = [json.loads(line)["content"].split() for line in text.splitlines()]
    made = []
    for _ in range(count):
        first, second = rng.choice(source), rng.choice(source)
        made.append(
            " ".join([*first[: len(first) // 2], *second[len(second) // 2 :], f"rare{rng.randrange(count // 10)}"])
        )
    return made


def fill(path: Path, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
    """A store of one user."""
    store = SqliteStore(path)
    for first in track(range(0, len(texts), 2000), description=f"{len(texts):,} turns", transient=True):
        store.append(
            "ann",
            [
                TurnDraft(f"s{number // SESSION}", "user" if number % 2 == 0 else "assistant", texts[number])
                for number in range(first, min(first + 2000, len(texts)))
            ],
        )
    add_vectors(store, vectors)
    store.close()


def add_vectors(store: SqliteStore, vectors: NDArray[np.float32]) -> None:
    """Vectors for all turns that have none, in order of arrival."""
    reached = store.progress("ann", TURNS, FINGERPRINT)
    docs = np.sort(store.layout("ann").docs)
    docs = docs[docs >= reached.doc]
    for at in range(0, len(docs), 4096):
        part = docs[at : at + 4096]
        until = Progress(int(part[-1]) + 1, 0)
        assert store.put_vectors("ann", TURNS, FINGERPRINT, reached, part, vectors[at : at + len(part)], until)
        reached = until


def rss_mb() -> dict[str, float]:
    """Memory of this process: of its own, and mapped from files, which processes share."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    found = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.startswith("Rss")}

    return {"own_mb": found["RssAnon"], "mapped_mb": found["RssFile"]}


def measure(way: str, folder: Path) -> dict[str, Any]:
    """One way of searching: times, memory, and the rows it finds."""
    questions = np.load(folder / "questions.npy")
    if way == "scan":
        matrix = np.load(folder / "vectors.npy")

        def search(query: NDArray[np.float32]) -> NDArray[np.int64]:
            return np.argsort(-(matrix @ query))[:DEPTH]
    else:
        cached, least = {"file": (0, 2**60), "matrix": (2**40, 2**60)}.get(way, (0, 0))
        store = SqliteStore(folder / "memory.db", vector_cache_bytes=cached, ann_bytes=least)
        wanted = None if least else COMPARED
        first = int(store.layout("ann").docs.min())

        def search(query: NDArray[np.float32]) -> NDArray[np.int64]:
            found = store.cosines("ann", TURNS, FINGERPRINT, query, wanted=wanted)
            return found.docs[np.argsort(-found.values, kind="stable")[:DEPTH]] - first

    before = time.perf_counter()
    search(questions[0])
    out: dict[str, Any] = {"first_ms": 1e3 * (time.perf_counter() - before)}
    wall, cpu, found = [], [], []
    for question in questions:
        wall_start, cpu_start = time.perf_counter(), time.process_time()
        best = search(question)
        wall.append(1e3 * (time.perf_counter() - wall_start))
        cpu.append(1e3 * (time.process_time() - cpu_start))
        found.append(best.tolist())
    return {**out, "wall": statistics.median(wall), "cpu": statistics.median(cpu), **rss_mb(), "found": found}


def measured(way: str, folder: Path) -> dict[str, Any]:
    """`measure` or `rankings` in a process of its own, with one thread."""
    command = [sys.executable, __file__, "--measure", way, "--folder", str(folder)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    out: dict[str, Any] = json.loads(done.stdout)
    return out


def rankings(folder: Path) -> dict[str, Any]:
    """Top-10 of each retriever with the index beside the same retriever comparing all."""
    questions = np.load(folder / "questions.npy")
    words = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    tops: dict[str, dict[str, list[list[str]]]] = {}
    cpu: dict[str, dict[str, float]] = {}
    for way, cached in (("exact", 2**40), ("index", 0)):
        store = SqliteStore(folder / "memory.db", vector_cache_bytes=cached, ann_bytes=0)
        embedder, history = GivenEmbedder(), History(store, "ann")
        for name in RETRIEVERS:
            retriever, times = create_retriever(name, embedder), []
            for question, vector in zip(words, questions, strict=True):
                embedder.vector = vector
                start = time.process_time()
                found = retriever.search(history.corpus("turn"), question, 10)
                times.append(1e3 * (time.process_time() - start))
                tops.setdefault(name, {}).setdefault(way, []).append([item.unit_id for item in found.items])
            cpu.setdefault(name, {})[way] = statistics.median(times)
        store.close()
    return {
        name: {
            "top10_overlap": _overlap(found["exact"], found["index"]),
            "same_first": statistics.mean(a[:1] == b[:1] for a, b in zip(found["exact"], found["index"], strict=True)),
            "cpu_exact": cpu[name]["exact"],
            "cpu_index": cpu[name]["index"],
        }
        for name, found in tops.items()
    }


def _overlap(truth: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> float:
    return statistics.mean(len({*a} & {*b}) / max(1, len(a)) for a, b in zip(truth, found, strict=True))


def run(count: int, questions: int, folder: Path) -> dict[str, Any]:
    texts, path = make_texts(count), folder / "memory.db"
    make_vectors(count, questions, folder, texts)
    fill(path, texts, np.load(folder / "vectors.npy", mmap_mode="r"))
    ways: dict[str, dict[str, Any]] = {way: measured(way, folder) for way in WAYS[:3]}
    store = SqliteStore(path)
    start, cpu = time.perf_counter(), time.process_time()
    built = store.build_ann("ann", TURNS, FINGERPRINT, min_bytes=0)
    assert built is not None
    result: dict[str, Any] = {
        "vectors": count,
        "questions": questions,
        "build_s": time.perf_counter() - start,
        "build_cpu_s": time.process_time() - cpu,
        "rows": built.rows,
        "index_mb": built.bytes / 1e6,
        "vectors_mb": count * DIMENSION * 4 / 1e6,
    }
    ways["index"] = measured("index", folder)
    result["rankings"] = measured(RANKINGS, folder)
    newer = [TurnDraft("later", "user", text) for text in texts[: count // 30]]
    store.append("ann", newer)
    add_vectors(store, np.load(folder / "vectors.npy", mmap_mode="r")[: len(newer)] * np.float32(-1))
    store.close()
    ways["index, newer rows"] = measured("index, newer rows", folder)
    truth = ways["scan"]["found"]
    result["ways"] = {way: {"recall": _overlap(truth, row.pop("found")), **row} for way, row in ways.items()}
    result["load"] = os.getloadavg()[0]
    return result


def show(result: dict[str, Any]) -> None:
    print(
        f"\n{result['vectors']:,} vectors, {result['vectors_mb']:.0f} MB; index {result['index_mb']:.0f} MB,", end=" "
    )
    print(f"built in {result['build_s']:.0f} s ({result['build_cpu_s']:.0f} s CPU)")
    print(f"  {'':<20}{'recall@50':>10}{'wall ms':>9}{'CPU ms':>9}{'first ms':>10}{'own MB':>8}{'mapped MB':>11}")
    for way, row in result["ways"].items():
        times = f"{row['wall']:>9.1f}{row['cpu']:>9.1f}{row['first_ms']:>10.0f}"
        print(f"  {way:<20}{row['recall']:>10.4f}{times}{row['own_mb']:>8.0f}{row['mapped_mb']:>11.0f}")
    print(f"\n  {'':<20}{'top-10 as exact':>16}{'same first':>12}{'CPU ms exact':>14}{'index':>8}")
    for name, row in result["rankings"].items():
        times = f"{row['cpu_exact']:>14.1f}{row['cpu_index']:>8.1f}"
        print(f"  {name:<20}{row['top10_overlap']:>16.3f}{row['same_first']:>12.3f}{times}")
    print(f"\nload {result['load']:.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=300_000)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--folder", type=Path, help="use this folder and keep what is made there")
    parser.add_argument("--measure", choices=(*WAYS, RANKINGS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        done = rankings(args.folder) if args.measure == RANKINGS else measure(args.measure, args.folder)
        print(json.dumps(done))
        return 0
    folder = args.folder or Path(tempfile.mkdtemp(prefix="backread-large-"))
    folder.mkdir(exist_ok=True)
    try:
        result = run(args.vectors, args.questions, folder)
    finally:
        if args.folder is None:
            shutil.rmtree(folder)
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
