"""What was acknowledged, and whether a store holds exactly that.

Every turn of these attacks has one word that no other turn has, and every session an id of its own. Whatever became of
a turn can so be told from its word alone, in the record and in the bytes of the files.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from backread import Memory
from backread.testing.fakes import HashEmbedder

__all__ = ["USER", "Ledger", "Operation", "Outcome", "residue", "text_of"]

USER: Final = "ann"
DESIGNS: Final = ("leanmem", "lightmem", "t2mem")
_WORD: Final = re.compile(r"zq\w+?qz")
_FILLER: Final = ("kettle", "lamp", "blue", "attic", "stamps", "Ghent", "my sister", "last May", "I like", "not")


@dataclass
class Outcome:
    """What an attack came to.

    Attributes:
        name: of the attack.
        attempts: how many times it was tried.
        faults: what should not have happened, a line each.
        figures: what else was counted.
        seconds: what it took.
    """

    name: str
    attempts: int = 0
    faults: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def fault(self, what: str) -> None:
        """Note a fault."""
        self.faults.append(what[:600])

    def as_json(self) -> dict[str, Any]:
        """Everything, for `json.dumps`."""
        return {
            "name": self.name,
            "attempts": self.attempts,
            "faults": self.faults,
            "figures": dict(self.figures),
            "seconds": round(self.seconds, 1),
        }

    def take(self, other: Mapping[str, Any]) -> None:
        """Add what another process found, as `as_json` gives it; its time ran beside ours."""
        self.attempts += other["attempts"]
        self.faults += other["faults"]
        for name, count in other["figures"].items():
            self.figures[name] = max(self.figures[name], count) if name.endswith(" ms") else self.figures[name] + count
        self.seconds = max(self.seconds, other["seconds"])


def text_of(word: str) -> str:
    """The text of the turn that has this word: a line, now and then some pages of the file."""
    rng = random.Random(word)
    line = f"{word} {' '.join(rng.choices(_FILLER, k=rng.randrange(2, 40)))}. "
    return line * (60 if rng.random() < 0.03 else 1)


@dataclass(frozen=True, slots=True)
class Operation:
    """One call: turns that are kept or erased.

    Attributes:
        kind: what it does; "other" changes no turn.
        words: of the turns it keeps or erases.
        session: of these turns; for "erase_session" it goes with them.
        whole: True when all of it is there or nothing, whenever the process ends.
    """

    kind: Literal["add", "erase", "erase_session", "other"]
    words: tuple[str, ...] = ()
    session: str = ""
    whole: bool = True
    detail: str = ""


@dataclass
class Ledger:
    """What a store must hold: what it held before, and the operations since, each acknowledged or not."""

    present: set[str] = field(default_factory=set)
    erased: set[str] = field(default_factory=set)
    sessions: dict[str, set[str]] = field(default_factory=dict)
    begun: list[tuple[Operation, bool]] = field(default_factory=list)

    def begin(self, operation: Operation) -> int:
        """Note a call that is made; its place."""
        self.begun.append((operation, False))
        return len(self.begun) - 1

    def done(self, place: int) -> None:
        """Note that it was acknowledged."""
        self.begun[place] = (self.begun[place][0], True)

    def check(self, path: Path, outcome: Outcome) -> None:
        """Open the store again and compare; what it holds is what it must hold from now on."""
        where = path.parent.name
        with Memory.open(path, embedder=HashEmbedder(32)) as memory:
            report = memory.verify()
            if report.faults and all("scrub" in f"{fault.what} {fault.detail}" for fault in report.faults):
                outcome.figures["scrubs finished after reopening"] += 1
                memory.scrub()
                report = memory.verify()
            for fault in report.faults[:5]:
                outcome.fault(f"{where}: verify: {fault.where} {fault.what}: {fault.detail}")
            turns = list(memory.turns(user_id=USER))
            kept = {turn.turn_id for turn in turns}
            for design in DESIGNS:
                for entry in memory.entries(user_id=USER, strategy=design):
                    if not entry.sources or not {source.turn_id for source in entry.sources} <= kept:
                        outcome.fault(f"{where}: entry {entry.entry_id} of {design} rests on turns that are gone")
            found = self._turns([turn.text for turn in turns], where, outcome)
            self._compare(found, where, outcome)
            left = residue(path, self.erased)
        left += residue(path, self.erased)  # once more when all is closed
        for what, start in (
            ("words of erased turns in the files", "zq"),
            ("ids of erased sessions in the files", "zs"),
        ):
            if words := {word for word in left if word.startswith(start)}:
                outcome.figures[what] += len(words)
                outcome.fault(f"{where}: {what}: {', '.join(sorted(words)[:3])}, {len(words)} in all")
        self.erased -= set(left)  # told once

    def _turns(self, texts: Iterable[str], where: str, outcome: Outcome) -> set[str]:
        counts: Counter[str] = Counter()
        for text in texts:
            words = set(_WORD.findall(text))
            word = min(words, default="")
            if len(words) != 1 or text != text_of(word):
                outcome.fault(f"{where}: a turn that nobody wrote: {text[:60]!r}")
            counts[word] += 1
        for word, count in counts.items():
            if count > 1:
                outcome.fault(f"{where}: {word} is there {count} times")
        return set(counts)

    def _expected(self, found: set[str], where: str, outcome: Outcome) -> tuple[set[str], set[str], set[str]]:
        """Words that must be there, that must be gone, and of which either is right."""
        must, gone, open_ = set(self.present), set(), set()
        for operation, acknowledged in self.begun:
            words = set(operation.words)
            if operation.kind == "add":
                self.sessions.setdefault(operation.session, set()).update(words)
                if acknowledged:
                    must |= words
                    continue
                open_ |= words
            elif operation.kind != "other":
                must -= words
                if acknowledged:
                    gone |= words
                    continue
                open_ |= words
            if operation.whole and 0 < len(words & found) < len(words):
                outcome.fault(f"{where}: half of a call is there: {len(words & found)} of {len(words)} turns")
            if operation.kind == "add" and words & found:
                outcome.figures["calls cut short that were done"] += 1
        return must, gone, open_

    def _compare(self, found: set[str], where: str, outcome: Outcome) -> None:
        """Hold what was found against the calls, and take it as what is there now."""
        must, gone, open_ = self._expected(found, where, outcome)
        lost, back, odd = must - found, gone & found, found - must - open_ - gone
        for name, words in (("lost", lost), ("back after an erase", back), ("of nowhere", odd)):
            if words:
                outcome.figures[name] += len(words)
                outcome.fault(f"{where}: {name}: {', '.join(sorted(words)[:3])} and {len(words)} in all")
        outcome.figures["acknowledged calls"] += sum(acknowledged for _, acknowledged in self.begun)
        for operation, _ in self.begun:
            if operation.kind in ("erase", "erase_session"):
                self.erased |= set(operation.words) - found
                if operation.kind == "erase_session" and not self.sessions.get(operation.session, set()) & found:
                    self.erased.add(operation.session)
        self.erased -= found
        self.present, self.begun = found, []


def residue(path: Path, words: Iterable[str]) -> list[str]:
    """Those words that are in a file of the store: the database, its log, its index files."""
    data = b"\0".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")) if file.is_file())
    return [word for word in sorted(words) if word.encode() in data]
