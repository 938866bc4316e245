"""Everything that tries to make backread lose, leak or hang, by the thousand.

    python benchmarks/attack.py                                   # all of it
    python benchmarks/attack.py kills --victims server builds --kills 200
    python benchmarks/attack.py flips --flips 2000 --seed 7 --json
    python benchmarks/attack.py fuzz --surfaces rest mcp --inputs 10000
    python benchmarks/attack.py health

`kills` ends processes with SIGKILL at random moments: one that uses the library, one that builds entries, commands,
a server and a chat proxy under load. `flips` damages the file or the log of a store and compares every reading with the
truth. `fuzz` sends damaged files and requests of every shape. `health` asks a server how it is while others make it
work. The attacks themselves, and what counts as a fault, are in `tests/attack/`; the test suite runs a few of each. All
choices follow from the seed, but for the moments at which processes are killed, which follow the clock. The exit code
is 1 when there was a fault.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: victims are forked from this process

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "attack"))
sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tests" / "unit"))

from attack_flips import flip_many
from attack_fuzz import SURFACES, fuzz
from attack_health import HEALTHY_S, LOADS, health_under
from attack_kills import VICTIMS, kill_many
from attack_ledger import Outcome

KINDS = ("kills", "flips", "fuzz", "health")
SHOWN = 20


def pieces(given: argparse.Namespace) -> list[tuple[str, str, int, int]]:
    """(attack, part, count, seed) of what each process is to do; the parts of one attack have seeds of their own."""
    wanted = KINDS if given.attack == "all" else (given.attack,)
    todo: list[tuple[str, str, int]] = []
    if "kills" in wanted:
        todo += [("kills", victim, given.kills) for victim in given.victims]
    if "flips" in wanted:
        todo += [("flips", "", given.flips)]
    if "fuzz" in wanted:
        todo += [("fuzz", surface, given.inputs) for surface in given.surfaces]
    if "health" in wanted:
        todo += [("health", load, given.seconds) for load in given.loads]
    found = []
    for attack, part, count in todo:
        shares = 1 if attack == "health" else min(given.parallel, count)  # a server's answers are timed undisturbed
        for share in range(shares):
            found.append((attack, part, len(range(share, count, shares)), given.seed + share))
    return found


def attacked(attack: str, part: str, count: int, seed: int, bound: float) -> Outcome:
    """Carry out one piece in this process."""
    tell = progress(f"{attack} {part}".strip(), count)
    if attack == "kills":
        return kill_many(part, count, seed=seed, progress=tell)
    if attack == "flips":
        return flip_many(count, seed=seed, progress=tell)
    if attack == "fuzz":
        return fuzz(part, count, seed=seed, progress=tell)
    return health_under(part, seconds=count, bound=bound)


def progress(name: str, count: int) -> Callable[[int], None]:
    """What tells stderr how far it is, every ten seconds."""
    told = time.monotonic()

    def tell(done: int) -> None:
        nonlocal told
        if time.monotonic() - told > 10:
            told = time.monotonic()
            print(f"{name}: {done} of {count}", file=sys.stderr, flush=True)

    return tell


def apart(todo: Sequence[tuple[str, str, int, int]], parallel: int, bound: float) -> dict[str, Outcome]:
    """Carry out all pieces, each in a process of its own, some at a time; outcomes by name."""
    outcomes: dict[str, Outcome] = {}
    waiting = list(todo)
    running: list[tuple[tuple[str, str, int, int], subprocess.Popen[bytes]]] = []
    while waiting or running:
        alone = bool(running) and "health" in (running[0][0][0], waiting[0][0] if waiting else "")
        if waiting and len(running) < parallel and not alone:
            command = [sys.executable, __file__, "--piece", json.dumps([*waiting[0], bound])]
            running.append((waiting.pop(0), subprocess.Popen(command, stdout=subprocess.PIPE)))
            continue
        piece, process = running.pop(0)
        told = process.communicate()[0]
        name = f"{piece[0]}: {piece[1]}" if piece[1] else piece[0]
        outcome = outcomes.setdefault(name, Outcome(name))
        if process.returncode:
            outcome.fault(f"the attack itself ended with {process.returncode}")
        else:
            outcome.take(json.loads(told))
    return outcomes


def table(outcomes: Sequence[Outcome], seed: int) -> str:
    """A table in Markdown: attempts and faults of each attack, and what else was counted."""
    lines = [
        f"Seed {seed}.",
        "",
        "| attack | attempts | faults | seconds | counted |",
        "| --- | --- | --- | --- | --- |",
    ]
    for item in outcomes:
        counted = "; ".join(f"{name} {count:,}" for name, count in sorted(item.figures.items()) if count)
        row = (item.name, f"{item.attempts:,}", f"{len(item.faults):,}", f"{item.seconds:,.0f}", counted)
        lines.append(f"| {' | '.join(row)} |")
    attempts, faults = sum(item.attempts for item in outcomes), sum(len(item.faults) for item in outcomes)
    return "\n".join([*lines, f"| all | {attempts:,} | {faults:,} | | |"])


def main() -> int:
    parser = argparse.ArgumentParser(description="Attack backread and count what goes wrong.")
    parser.add_argument("attack", nargs="?", choices=("all", *KINDS), default="all")
    parser.add_argument("--kills", type=int, default=220, help="for each victim")
    parser.add_argument("--victims", nargs="+", choices=VICTIMS, default=VICTIMS)
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--inputs", type=int, default=10_000, help="for each surface")
    parser.add_argument("--surfaces", nargs="+", choices=tuple(SURFACES), default=tuple(SURFACES))
    parser.add_argument("--loads", nargs="+", choices=tuple(LOADS), default=tuple(LOADS))
    parser.add_argument("--seconds", type=int, default=20, help="for each load")
    parser.add_argument("--bound", type=float, default=HEALTHY_S, help="seconds that an answer of /healthz may take")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=2, help="processes at a time")
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    parser.add_argument("--piece", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.piece:
        print(json.dumps(attacked(*json.loads(given.piece)).as_json()))
        return 0
    outcomes = list(apart(pieces(given), given.parallel, given.bound).values())
    if given.json:
        print(json.dumps({"seed": given.seed, "outcomes": [item.as_json() for item in outcomes]}))
    else:
        for item in outcomes:
            for fault in item.faults[:SHOWN]:
                print(f"{item.name}: {fault}\n")
        print(table(outcomes, given.seed))
    return int(any(item.faults for item in outcomes))


if __name__ == "__main__":
    sys.exit(main())
