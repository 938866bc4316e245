"""Look after look under one budget, until another one would change nothing of what the answerer sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from backread.construction.keep_drop import WindowDecisions
from backread.construction.stretches import Stretch, best_first
from backread.construction.window_reading import Read, kept_turns
from backread.models.usage import total
from backread.rendering import Candidate, Fitted, fit
from backread.strategies.evidence import rewritten, verbatim
from backread.strategies.trace import Trace
from backread.strategies.trailmem.looks import Ground, Look, share
from backread.types import Evidence

__all__ = ["LEAST", "Reader", "Rules", "Stop", "Trail"]

LEAST = 4
"""Turns that are kept however far they are from the best one."""

Reader = Callable[[Sequence[tuple[int, Stretch]]], Iterable[WindowDecisions | None]]
"""Reads windows, each given with its number, in order."""

Stop = Literal["all seen", "steps", "full", "gap", "unchanged"]
"""Why no further look was taken: nothing was left, as many as are allowed were taken, the budget is full of better
turns, what is left is too far from the best turn, or the last looks changed nothing."""


@dataclass(frozen=True, slots=True)
class Rules:
    """When a trail ends.

    Attributes:
        steps: looks at most; None for any number.
        patience: looks in a row that may change nothing before it ends; an empty memory is never left for that.
        gap: without a model, turns further below the best one are not kept: a share of the distance between the best
            and the worst turn that was found.
        early: False takes all `steps` looks and keeps every turn.
    """

    steps: int | None
    patience: int
    gap: float
    early: bool = True


class _Line(NamedTuple):
    """A line of the memory, and the place of the turn it was found by."""

    evidence: Evidence
    place: int


class Trail:
    """The looks of one recall and the memory they make.

    Args:
        ground: what may be looked at.
        rules: when it ends.
        reader: keeps and drops with a model; None keeps turns by their score.
        question: as it was asked.
        budget: tokens of the block at most; None for no limit.
        trace: is told of every look.
    """

    def __init__(
        self, ground: Ground, rules: Rules, reader: Reader | None, question: str, budget: int | None, trace: Trace
    ) -> None:
        self._ground, self._rules, self._reader = ground, rules, reader
        self._question, self._budget, self._trace = question, budget, trace
        self._left = list(ground.looks)
        self._places = {turn_id: place for window in ground.windows for turn_id, place in window.places.items()}
        self._near = self._near_the_best()
        self._opened: list[int] = []
        self._read: dict[int, WindowDecisions | None] = {}
        self._lines: list[_Line] = []
        self._looks = self._quiet = 0
        self._order = {turn_id: place for place, turn_id in enumerate(_ids(ground.windows))}
        self.fitted: Fitted = self._fit()
        self.cut_short = False

    @property
    def windows(self) -> list[Stretch]:
        """What was opened, in the order of the history."""
        return [self._ground.windows[number] for number in sorted(self._opened)]

    @property
    def turns(self) -> tuple[str, ...]:
        """The turns of what was opened, each once, in the order of the history."""
        return tuple(_ids(self.windows))

    @property
    def read(self) -> Read:
        """What the model decided, by window in the order of the history."""
        return [self._read[number] for number in sorted(self._read)]

    def follow(self) -> None:
        """Take looks until a rule ends it, or the call is to end."""
        stop: Stop | None = None
        while self._left and stop is None:
            if self._trace.over:
                self.cut_short = True
                return
            stop = self._step(self._left.pop(0))

    def _step(self, look: Look) -> Stop | None:
        """Open a look and fit the memory anew; why it was the last one."""
        before = self.fitted.rendered
        self._opened += look.windows
        made: list[WindowDecisions | None] = []
        if self._reader is not None:
            made = list(self._reader([(number, self._ground.windows[number]) for number in look.windows]))
            self._read |= dict(zip(look.windows, made, strict=True))
        self._looks += 1
        self._lines = self._memory()
        self.fitted = self._fit()
        changed = self.fitted.rendered != before
        self._quiet = 0 if changed or not self.fitted.evidence else self._quiet + 1
        stop = self._stop()
        detail: dict[str, Any] = {
            "look": self._looks,
            "session": look.session_id,
            "windows": len(look.windows),
            "kept": self._kept_of(look),
            "tokens": self.fitted.tokens,
            "changed": changed,
            "stop": stop,
        }
        if self._reader is not None:
            spent = total(usage for item in made if item is not None for usage in item.usage)
            detail |= {"calls": spent.calls, "input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens}
        self._trace.tell("trailmem", detail)
        return stop

    def _stop(self) -> Stop | None:
        """Why no further look is worth taking; None when one is."""
        rules = self._rules
        if not self._left:
            return "all seen"
        if rules.steps is not None and self._looks >= rules.steps:
            return "steps"
        if not rules.early:
            return None
        nearest = min(look.best for look in self._left)
        if self._reader is None and nearest >= self._near:
            return "gap"
        if self._full and nearest > self._worst:
            return "full"
        return "unchanged" if self._quiet >= rules.patience else None

    @property
    def _full(self) -> bool:
        """Whether the block has no room for a line of the memory, or not for all of it."""
        shown = self.fitted.evidence
        return len(shown) < len(self._lines) or any(line.cut for line in shown)

    @property
    def _worst(self) -> int:
        """The worst place of a line that is shown; -1 when none is."""
        return max((self._lines[line.rank].place for line in self.fitted.evidence), default=-1)

    def _near_the_best(self) -> int:
        """How many turns, from the best, are kept by their score."""
        ranked, rules = self._ground.ranked, self._rules
        if not rules.early:
            return len(ranked)
        near = sum(share(ranked, place) >= 1 - rules.gap for place in range(len(ranked)))
        return min(max(LEAST, near), len(ranked))

    def _memory(self) -> list[_Line]:
        """What is kept of all that was opened, in the order in which a budget takes it."""
        windows = self.windows
        if self._reader is None:
            return self._by_score(windows)
        found_by: dict[str, int] = {}
        for window in sorted(windows, key=lambda window: window.best):
            for turn in window.turns:
                found_by.setdefault(turn.turn_id, window.best)
        kept = kept_turns(windows, self.read, keep_hits=True)
        return [
            _Line(verbatim(turn, rank) if text is None else rewritten(turn, text, rank), found_by[turn.turn_id])
            for rank, (turn, text) in enumerate(kept)
        ]

    def _by_score(self, windows: Sequence[Stretch]) -> list[_Line]:
        """The turns that were found, best first; behind them those around, unless turns are kept by their score."""
        behind = len(self._places)
        turns = sorted(best_first(windows), key=lambda turn: self._places.get(turn.turn_id, behind))
        if self._rules.early:
            turns = [turn for turn in turns if self._places.get(turn.turn_id, behind) < self._near]
        return [_Line(verbatim(turn, rank), self._places.get(turn.turn_id, behind)) for rank, turn in enumerate(turns)]

    def _kept_of(self, look: Look) -> int:
        """How many lines of the memory are turns of a look's windows."""
        opened = set(_ids(self._ground.windows[number] for number in look.windows))
        return sum(line.evidence.sources[0].turn_id in opened for line in self._lines)

    def _fit(self) -> Fitted:
        candidates = [
            Candidate(line.evidence, (self._order[line.evidence.sources[0].turn_id],)) for line in self._lines
        ]
        return fit(candidates, self._budget, self._trace.ctx.counter, self._question)


def _ids(windows: Iterable[Stretch]) -> Iterator[str]:
    """The turns of windows, each once."""
    return iter(dict.fromkeys(turn.turn_id for window in windows for turn in window.turns))
