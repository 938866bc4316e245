"""Bytes of a store changed behind its back: whatever is read is right, or an error that says so.

A small store is filled, and what every way of reading gives is kept as the truth. Then, again and again, a copy of its
files is damaged (bits, bytes, sectors of zeros or noise, a cut), opened, and read in every way. What was said, by whom,
where and when must be as it was, and what a strategy wrote too. A row that is gone can't say so, and the order of hits
and their scores follow from derived data: a change there is no wrong reading, but then `verify` must find a fault.
"""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attack_ledger import Outcome

from backread import Memory
from backread.errors import BackreadError
from backread.testing.fakes import HashEmbedder
from backread.types import Answer, Hits, Recall, Turn

__all__ = ["flip_many"]

DESIGNS: Final = ("leanmem", "lightmem", "t2mem")
USERS: Final = ("ann", "bo")
SECTOR: Final = 512
SLOW: Final = 10
_WORDS: Final = ("kettle", "lamp", "attic", "stamps", "ferry", "piano", "garden", "letter")

Reading = Callable[[Memory], Any]


def _fill(path: Path) -> None:
    """Two users, sessions with times, attachments and corrections, and entries of each design that needs no model."""
    rng = random.Random(7)
    with Memory.open(path, embedder=HashEmbedder(32)) as memory:
        for user in USERS:
            for session in range(3):
                messages = [
                    {
                        "role": ("user", "assistant")[number % 2],
                        "name": user.title(),
                        "content": f"{user} {session}.{number}: {' '.join(rng.choices(_WORDS, k=9))}.",
                        "id": f"{user}-{session}-{number}",
                        "timestamp": f"2024-0{session + 1}-0{number + 1}T09:00:00Z",
                        "caption": f"a picture of {rng.choice(_WORDS)}",
                    }
                    for number in range(6)
                ]
                memory.add(messages, user_id=user, session_id=f"{user}{session}")
            corrected = {"role": "user", "content": f"No, {user}'s ferry is at eight.", "supersedes": f"{user}-1-0"}
            memory.add([corrected], user_id=user, session_id=f"{user}1")
            for design in DESIGNS:
                memory.build(user_id=user, strategy=design, flush=True)
            memory.delete(user_id=user, turn_id=f"{user}-2-1")
            memory.index(user_id=user)


def _entries(user: str, design: str) -> Reading:
    return lambda memory: memory.entries(user_id=user, strategy=design)


def _readings(turn_ids: Mapping[str, str]) -> dict[str, Reading]:
    """Every way to read, by name; what each gives can be compared."""
    found: dict[str, Reading] = {"users": lambda memory: memory.users()}
    for user in USERS:
        own: dict[str, Any] = {
            "sessions": lambda memory, user=user: memory.sessions(user_id=user),
            "turns": lambda memory, user=user: list(memory.turns(user_id=user)),
            "session": lambda memory, user=user: list(memory.turns(user_id=user, session_id=f"{user}1")),
            "export": lambda memory, user=user: list(memory.export(user_id=user)),
            "get": lambda memory, user=user: memory.get(turn_ids[user], user_id=user),
            "get by own id": lambda memory, user=user: memory.get(f"{user}-0-3", user_id=user),
            "search by words": lambda memory, user=user: memory.search("ferry piano", user_id=user, mode="bm25"),
            "search": lambda memory, user=user: memory.search("ferry piano", user_id=user),
            "recall": lambda memory, user=user: memory.recall("Where is the ferry?", user_id=user),
            "ask": lambda memory, user=user: memory.ask("Where is the ferry?", user_id=user),
            "recall t2mem": lambda memory, user=user: memory.recall("the piano", user_id=user, strategy="t2mem"),
        }
        for design in DESIGNS:
            own[f"entries {design}"] = _entries(user, design)
        found |= {f"{name} of {user}": reading for name, reading in own.items()}
    return found


class _Truth:
    """What an undamaged store gives."""

    def __init__(self, path: Path) -> None:
        with Memory.open(path, embedder=HashEmbedder(32)) as memory:
            self.turns = {turn.turn_id: turn for user in USERS for turn in memory.turns(user_id=user)}
            self.owner = {turn.turn_id: user for user in USERS for turn in memory.turns(user_id=user)}
            firsts = {user: next(memory.turns(user_id=user)).turn_id for user in USERS}
            self.readings = _readings(firsts)
            self.values = {name: _comparable(reading(memory)) for name, reading in self.readings.items()}

    def judge(self, name: str, value: Any, outcome: Outcome) -> str | None:
        """What is wrong with what a reading of a damaged store gave; None when nothing is, "" when it is less."""
        true = self.values[name]
        if _comparable(value) == true:
            outcome.figures["right"] += 1
            return None
        user = name.rpartition(" of ")[2]
        if isinstance(value, Hits):
            wrong = self._foreign([turn for hit in value for turn in (hit.turn, *hit.also)], user)
        elif isinstance(value, Recall):
            wrong = self._misquoted(value, user)
        elif isinstance(value, Answer):
            wrong = self._misquoted(value.recall, user) or self._unsaid(value)
        elif isinstance(value, list):
            others = [item for item in value if item not in true]
            wrong = f"{len(others)} of {len(value)} are not so: {str(others[0])[:300]}" if others else None
            outcome.figures["lists with lines missing"] += wrong is None
        else:
            wrong = f"{str(value)[:200]} in place of {str(true)[:200]}"
        if wrong is None:
            outcome.figures["other hits, scores or order"] += not isinstance(value, list)
            return ""
        outcome.figures["wrong"] += 1
        return wrong

    def _foreign(self, turns: Iterable[Turn], user: str) -> str | None:
        for turn in turns:
            if self.owner.get(turn.turn_id) != user or turn != self.turns[turn.turn_id]:
                return f"a turn that is not so in the record: {turn}"
        return None

    def _misquoted(self, recall: Recall, user: str) -> str | None:
        for line in recall.evidence:
            for source in line.sources:
                turn = self.turns.get(source.turn_id)
                if turn is None or self.owner[source.turn_id] != user:
                    return f"evidence from elsewhere: {line}"
                if line.kind == "verbatim" and line.text not in f"{turn.text} {turn.caption}":
                    return f"evidence that was not said: {line}"
                if line.kind == "verbatim" and (line.speaker, line.time) != (turn.speaker or turn.role, turn.time):
                    return f"evidence of another speaker or time: {line}"
        return None

    def _unsaid(self, answer: Answer) -> str | None:
        for citation in answer.citations:
            turn = self.turns.get(citation.turn_id)
            if turn is None or turn.text[citation.start : citation.end] != citation.quote:
                return f"a citation of what was not said: {citation}"
        return None


def _comparable(value: Any) -> Any:
    """A value without what differs from call to call: seconds, usage."""
    if isinstance(value, Answer):
        return value.text, value.citations, _comparable(value.recall)
    if isinstance(value, Recall):
        return value.evidence, value.ranked, value.tokens, value.degraded
    return value


def _damaged(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """The bytes with some damage, and which."""
    data = bytearray(content)
    kind = rng.choice(("bit", "bit", "byte", "byte", "bytes", "zeros", "noise", "cut"))
    place = rng.randrange(len(data))
    if kind == "bit":
        data[place] ^= 1 << rng.randrange(8)
    elif kind == "byte":
        data[place] = rng.randrange(256)
    elif kind == "bytes":
        for offset in range(place, min(place + rng.randrange(2, 9), len(data))):
            data[offset] = rng.randrange(256)
    elif kind == "cut":
        del data[place:]
    else:
        start = place // SECTOR * SECTOR
        length = min(SECTOR * rng.randrange(1, 9), len(data) - start)
        data[start : start + length] = bytes(length) if kind == "zeros" else rng.randbytes(length)
    return bytes(data), f"{kind} at {place}"


def flip_many(
    flips: int, *, seed: int = 1, log_share: float = 0.2, progress: Callable[[int], None] = lambda number: None
) -> Outcome:
    """Damage a copy of a store that many times and read it in every way.

    Args:
        flips: how many copies.
        seed: of the damage.
        log_share: share of the damage that hits the write-ahead log of a store that was not closed.
        progress: told how many are done.
    """
    outcome = Outcome("flips")
    started = time.monotonic()
    rng = random.Random(f"flips {seed}")
    folder = Path(tempfile.mkdtemp(prefix="backread-attack-"))
    try:
        whole, open_ = folder / "whole" / "m.db", folder / "open" / "m.db"
        _fill(whole)
        truth = _Truth(whole)
        _left_open(whole, open_)
        for number in range(flips):
            in_log = rng.random() < log_share
            source = open_ if in_log else whole
            copy = folder / f"flip{number}" / "m.db"
            copy.parent.mkdir()
            for file in source.parent.glob("m.db*"):
                shutil.copy(file, copy.with_name(file.name))
            target = copy.with_name("m.db-wal") if in_log else copy
            data, what = _damaged(target.read_bytes(), rng)
            target.write_bytes(data)
            _read_all(copy, truth, f"flip {number} ({'log' if in_log else 'file'}, {what})", outcome, in_log)
            shutil.rmtree(copy.parent)
            outcome.attempts += 1
            progress(number + 1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    outcome.seconds = time.monotonic() - started
    return outcome


def _left_open(whole: Path, copy: Path) -> None:
    """A copy of the store as it lies while somebody has it open: the latest turns only in the log."""
    held = whole.with_name("held.db")
    shutil.copy(whole, held)
    copy.parent.mkdir()
    with Memory.open(held, embedder="none") as memory:
        memory.add([{"role": "user", "content": "Only in the log.", "id": "late"}], user_id="carl", session_id="c")
        for file in held.parent.glob("held.db*"):
            if not file.name.endswith("-shm"):
                shutil.copy(file, copy.with_name(file.name.replace("held", "m")))


def _read_all(copy: Path, truth: _Truth, where: str, outcome: Outcome, in_log: bool) -> None:
    """Every reading of a damaged store."""
    try:
        with Memory.open(copy, embedder=HashEmbedder(32)) as memory:
            less = ""
            for name, reading in truth.readings.items():
                try:
                    with _limited():
                        value = reading(memory)
                except BackreadError as error:
                    outcome.figures[f"refused: {type(error).__name__}"] += 1
                    continue
                except Exception as error:  # noqa: BLE001 -- what this looks for
                    outcome.figures["other errors"] += 1
                    outcome.fault(f"{where}: {name}: {type(error).__name__}: {error}")
                    continue
                if in_log and name == "users":  # a log that was cut short ends earlier: that is what logs are for
                    value = [user for user in value if user != "carl"]
                wrong = truth.judge(name, value, outcome)
                if wrong:
                    outcome.fault(f"{where}: {name}: {wrong}")
                less = less or name * (wrong == "")
            if less and _is_clean(memory):
                outcome.figures["less, and verify is clean"] += 1
                outcome.fault(f"{where}: {less}: less than there was, or other hits, and `verify` finds nothing")
    except BackreadError as error:
        outcome.figures[f"not opened: {type(error).__name__}"] += 1
    except Exception as error:  # noqa: BLE001 -- what this looks for
        outcome.figures["other errors"] += 1
        outcome.fault(f"{where}: open: {type(error).__name__}: {error}")


@contextmanager
def _limited() -> Iterator[None]:
    """A TimeoutError in what takes longer than `SLOW` seconds; in the main thread of a process only."""

    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"not done after {SLOW} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SLOW)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _is_clean(memory: Memory) -> bool:
    try:
        return memory.verify().ok
    except BackreadError:
        return False
