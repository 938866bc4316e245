"""kill -9 while a store is written to: nothing acknowledged is lost, nothing is half there.

    python benchmarks/crash.py --kills 1000 [--json]

A writer appends single turns and batches of 32, puts vectors, commits entries and deletes turns, and says so after each
of these calls has returned. It is killed at points spread over the time that `OPERATIONS` such calls take, creation of
the file included. Then the store is opened again: every call that returned must have left all it wrote, the one after
it all or nothing, and `verify` must find no fault. The next writer goes on with the same file; every `LIVES` kills a
new one is begun. A process that is killed loses its memory, not what the kernel holds: this shows that transactions
are whole, not that they survive a power cut.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: the writer is forked from this process

import numpy as np

from backread.errors import BackreadError
from backread.store.base import TURNS, Progress
from backread.store.sqlite import SqliteStore
from backread.types import EntryDraft, Source, TurnDraft

USER = "ann"
OPERATIONS = 24
LIVES = 4
CYCLE = (1, 32, 1, "vectors", 32, 1, "entry", "delete")


def drafts_of(run: int, operation: int, count: int) -> list[TurnDraft]:
    """The turns of one append; texts of a line up to some pages, known from the ids alone."""
    drafts = []
    for number in range(count):
        name = f"{run}-{operation}-{number}"
        rng = random.Random(name)
        words = " ".join(rng.choices(("kettle", "lamp", "blue", "attic", "stamps", "Ghent"), k=rng.randrange(1, 60)))
        text = f"{name} {words}" * (40 if rng.random() < 0.02 else 1)
        drafts.append(TurnDraft(f"s{operation % 5}", "user", text, external_id=name))
    return drafts


@dataclass
class Content:
    """What a store should hold: texts by external id, entries by id, and turns that were embedded."""

    texts: dict[str, str] = field(default_factory=dict)
    entries: dict[str, str] = field(default_factory=dict)
    vectors: int = 0

    def after(self, run: int, operation: int) -> Content:
        """The content once one more call is done."""
        texts, entries, vectors = dict(self.texts), dict(self.entries), self.vectors
        kind = CYCLE[operation % len(CYCLE)]
        if isinstance(kind, int):
            texts |= {item.external_id or "": item.text for item in drafts_of(run, operation, kind)}
        elif kind == "vectors":
            vectors = len(texts)
        elif kind == "entry":
            entries[f"{run}-{operation}"] = f"{run}-{operation - 1}-0"
        else:
            gone = f"{run}-{operation - 3}-0"
            vectors -= gone in texts and sorted_by_arrival(texts).index(gone) < vectors
            del texts[gone]
            entries = {entry: turn for entry, turn in entries.items() if turn != gone}
        return Content(texts, entries, vectors)


def sorted_by_arrival(texts: dict[str, str]) -> list[str]:
    """External ids in the order they were appended."""
    return sorted(texts, key=lambda name: [int(part) for part in name.split("-")])


def do(store: SqliteStore, run: int, operation: int) -> None:
    """One call, or two that belong together, as `Content.after` describes it."""
    kind = CYCLE[operation % len(CYCLE)]
    if isinstance(kind, int):
        store.append(USER, drafts_of(run, operation, kind))
    elif kind == "vectors":
        reached = store.progress(USER, TURNS, "m")
        docs = np.sort(store.layout(USER).docs)
        docs = docs[docs >= reached.doc]
        matrix = np.random.default_rng(operation).standard_normal((len(docs), 32)).astype(np.float32)
        store.put_vectors(USER, TURNS, "m", reached, docs, matrix, Progress(int(docs[-1]) + 1, 0))
    elif kind == "entry":
        name = f"{run}-{operation - 1}-0"
        (doc,) = store.docs_of_turns(USER, [name]).values()
        (turn,) = store.turns_by_doc(USER, [doc])
        version, _ = store.strategy_state(USER, "lean")
        note = EntryDraft(f"{run}-{operation}", "lean", "event", {}, f"note on {name}", (Source(turn.turn_id),))
        store.commit(USER, "lean", version, [note], state=b"%d" % operation)
    else:
        store.delete(USER, turn_ids=[f"{run}-{operation - 3}-0"])


def write_until_killed(path: Path, run: int, out: int) -> None:
    """The writer: says "r" when it begins and "." after each call that returned."""
    try:
        os.write(out, b"r")
        store = SqliteStore(path)
        operation = 0
        while True:
            do(store, run, operation)
            os.write(out, b".")
            operation += 1
    except BackreadError as error:
        os.write(out, f"E{error}".encode())
    finally:
        os._exit(1)


def killed_writer(path: Path, run: int, seconds: float | None) -> tuple[int, float, str]:
    """(calls that returned, seconds, error) of a writer killed after `seconds`, or after `OPERATIONS` calls."""
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(source)
        write_until_killed(path, run, sink)
    os.close(sink)
    said = os.read(source, 1)
    started = time.monotonic()
    while seconds is None and said.count(b".") < OPERATIONS and (more := os.read(source, 4096)):
        said += more
    if seconds is not None:
        deadline = started + seconds
        while (left := deadline - time.monotonic()) > 0 and select.select([source], [], [], left)[0]:
            more = os.read(source, 4096)
            if not more:
                break
            said += more
    took = time.monotonic() - started
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while more := os.read(source, 4096):
        said += more
    os.close(source)
    calls, _, error = said.decode().partition("E")
    return calls.count("."), took, error


def read_content(store: SqliteStore) -> Content:
    """What the store holds."""
    turns = store.turns_by_doc(USER, store.layout(USER).docs.tolist())
    names = {turn.turn_id: turn.external_id or "" for turn in turns}
    entries = {entry.entry_id: names.get(entry.sources[0].turn_id, "?") for entry in store.entries(USER, "lean")}
    vectors = len(store.vectors(USER, TURNS, "m")[0])
    return Content({turn.external_id or "": turn.text for turn in turns}, entries, vectors)


def check(path: Path, expected: Content, allowed: Content, summary: Counter[str], faults: list[str]) -> Content:
    """Compare a store with what it must hold, or may hold when the call that was cut short is done; what it holds."""
    started = time.monotonic()
    with closing(SqliteStore(path)) as store:
        found = read_content(store)
        summary["reopen_ms"] = max(summary["reopen_ms"], round(1000 * (time.monotonic() - started)))
        report = store.verify()
    if found not in (expected, allowed):
        kept = expected.texts.keys() & allowed.texts.keys()
        lost = sum(found.texts.get(name) != expected.texts[name] for name in kept)
        lost += len((expected.entries.keys() & allowed.entries.keys()) - found.entries.keys())
        summary["lost"] += lost
        summary["partial"] += not lost
        faults.append(f"{path}: holds {len(found.texts)} turns, {len(found.entries)} entries, {found.vectors} vectors")
    summary["verify_faults"] += len(report.faults)
    faults.extend(f"{fault.where} {fault.what}: {fault.detail}" for fault in report.faults[:5])
    summary["half_done_calls_kept"] += found == allowed
    return found


def delays(kills: int, duration: float) -> Iterator[float]:
    """Moments spread evenly over the duration, in an order that doesn't follow the clock."""
    order = list(range(kills))
    random.Random(kills).shuffle(order)
    return (duration * (index + 0.5) / kills for index in order)


def kill_many(kills: int, folder: Path) -> dict[str, object]:
    """Kill that many writers, one after the other."""
    started = time.monotonic()
    _, duration, error = killed_writer(folder / "measured.db", 0, None)
    summary: Counter[str] = Counter(
        dict.fromkeys(("kills", "acknowledged_calls", "lost", "partial", "verify_faults", "half_done_calls_kept"), 0)
    )
    faults = [error] if error else []
    content, path = Content(), folder / "none"
    for number, delay in enumerate(delays(kills, duration), 1):
        if number % LIVES == 1:
            path.unlink(missing_ok=True)
            content, path = Content(), folder / f"{number}.db"
        calls, _, error = killed_writer(path, number, delay)
        if error:
            faults.append(error)
        for operation in range(calls):
            content = content.after(number, operation)
        content = check(path, content, content.after(number, calls), summary, faults)
        summary["kills"] += 1
        summary["acknowledged_calls"] += calls
    return {
        **summary,
        "errors": faults,
        "spread_over_seconds": round(duration, 3),
        "seconds": round(time.monotonic() - started, 1),
    }


def together(parts: list[dict[str, object]]) -> dict[str, object]:
    """One summary of those of several workers."""
    total: dict[str, object] = {}
    for part in parts:
        for name, value in part.items():
            if isinstance(value, list):
                total[name] = [*total.get(name, []), *value]  # type: ignore[misc]
            elif isinstance(value, float) or name == "reopen_ms":
                total[name] = max(total.get(name, 0), value)  # type: ignore[call-overload]
            else:
                total[name] = total.get(name, 0) + value  # type: ignore[operator]
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill writers of a store and look at what is left.")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    given = parser.parse_args()
    if given.parallel == 1:
        folder = Path(tempfile.mkdtemp(prefix="backread-crash-"))
        try:
            total = kill_many(given.kills, folder)
        finally:
            shutil.rmtree(folder)
    else:
        shares = [len(range(worker, given.kills, given.parallel)) for worker in range(given.parallel)]
        command = [sys.executable, __file__, "--parallel", "1", "--json", "--kills"]
        workers = [subprocess.Popen([*command, str(share)], stdout=subprocess.PIPE) for share in shares if share]
        total = together([json.loads(worker.communicate()[0]) for worker in workers])
    if given.json:
        print(json.dumps(total))
    else:
        for name, value in total.items():
            print(f"{name:24} {value}")
    return int(bool(total["lost"] or total["partial"] or total["verify_faults"] or total["errors"]))


if __name__ == "__main__":
    sys.exit(main())
