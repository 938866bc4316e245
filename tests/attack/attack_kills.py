"""kill -9 at random moments: nothing acknowledged is lost, nothing is half there, nothing erased is left.

A process that is killed loses its memory, not what the kernel holds: this shows that transactions are whole, not that
they survive a power cut.
"""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

from attack_ledger import Ledger, Outcome
from attack_servers import SERVERS, killed_server
from attack_victims import FORKED, operations, quiet

__all__ = ["VICTIMS", "kill_many"]

VICTIMS: Final = (*FORKED, *SERVERS)
LIVES: Final = 4
OPERATIONS: Final = 12


def kill_many(
    victim: str, kills: int, *, seed: int = 1, progress: Callable[[int], None] = lambda number: None
) -> Outcome:
    """Kill that many processes one after the other; each goes on with the file of the one before, for `LIVES` kills.

    Args:
        victim: one of `VICTIMS`.
        kills: how many.
        seed: of the moments.
        progress: told how many are done.
    """
    outcome = Outcome(f"kills: {victim}")
    started = time.monotonic()
    rng = random.Random(f"{victim} {seed}")
    folder = Path(tempfile.mkdtemp(prefix="backread-attack-"))
    try:
        with _environment(folder):
            horizon = _horizon(victim, folder) if victim in FORKED else 0.0
            ledger, path = Ledger(), folder / "none"
            for number in range(kills):
                if number % LIVES == 0:
                    shutil.rmtree(path.parent, ignore_errors=number > 0 and path.parent != folder)
                    ledger, path = Ledger(), folder / f"life{number}" / "m.db"
                    path.parent.mkdir(parents=True)
                run = seed * 10**6 + number
                try:
                    if victim in FORKED:
                        _killed_fork(victim, path, run, rng.uniform(0, horizon), ledger, outcome)
                    else:
                        killed_server(victim, path, run, rng, ledger, outcome)
                    ledger.check(path, outcome)
                except Exception as error:  # noqa: BLE001 -- whatever it is, it is what this looks for
                    outcome.fault(f"{path.parent.name}: {error!r} {traceback.format_exc(limit=-2)}")
                    ledger, path = Ledger(), folder / f"after{number}" / "m.db"
                    path.parent.mkdir(parents=True)
                outcome.attempts += 1
                progress(number + 1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    outcome.seconds = time.monotonic() - started
    return outcome


@contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """No settings of whoever runs this, no weights."""
    before = dict(os.environ)
    for name in before:
        if name.startswith(("BACKREAD_", "OPENAI_", "XDG_")):
            del os.environ[name]
    os.environ |= {"HOME": str(folder), "BACKREAD_EMBEDDER": "none", "NO_COLOR": "1"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


def _horizon(victim: str, folder: Path) -> float:
    """Seconds that `OPERATIONS` calls of a victim take: kills are spread over them."""
    path = folder / "measured" / "m.db"
    path.parent.mkdir()
    measured = Outcome("measured")
    started = time.monotonic()
    _killed_fork(victim, path, 0, None, Ledger(), measured)
    took = time.monotonic() - started
    if measured.faults:
        raise RuntimeError(measured.faults[0])
    return took


def _killed_fork(victim: str, path: Path, run: int, seconds: float | None, ledger: Ledger, outcome: Outcome) -> None:
    """Fork a victim and kill it after `seconds`, or after `OPERATIONS` calls."""
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(source)
        _live(victim, path, run, sink)
    os.close(sink)
    said = b""
    deadline = time.monotonic() + (60 if seconds is None else seconds)
    while seconds is not None or said.count(b".") < OPERATIONS:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([source], [], [], left)[0]:
            break
        more = os.read(source, 4096)
        if not more:
            break
        said += more
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while more := os.read(source, 4096):
        said += more
    os.close(source)
    calls, _, error = said.partition(b"E")
    if error:
        outcome.fault(f"{victim} failed by itself: {error.decode(errors='replace')}")
    done = calls.count(b".")
    for number, operation in enumerate(operations(victim, run)):
        if number > done:
            break
        place = ledger.begin(operation)
        if number < done:
            ledger.done(place)


def _live(victim: str, path: Path, run: int, out: int) -> NoReturn:
    """The life of a forked victim: says "." after each call that returned, and "E" with an error of its own."""
    try:
        quiet()
        do = FORKED[victim](path)
        for operation in operations(victim, run):
            do(operation)
            os.write(out, b".")
    except BaseException:  # noqa: BLE001 -- told to the attacker, whatever it is
        os.write(out, b"E" + traceback.format_exc(limit=-4).encode())
    finally:
        os._exit(1)
