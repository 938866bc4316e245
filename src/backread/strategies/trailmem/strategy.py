"""TrailMem: cues say where to look, windows what to keep, one budget rules both. Our own design; see `PAPER.md`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from backread.construction.episode_ranking import Entries
from backread.construction.episodes import episode_prompt, model_maker
from backread.construction.keep_drop import WindowDecisions, prompt_hash
from backread.construction.sessions import build_sessions
from backread.construction.stretches import Stretch
from backread.construction.window_reading import read_windows, shortcomings
from backread.models.base import ChatModel
from backread.retrieval.base import Retriever
from backread.retrieval.windows import LONGEST, RADIUS, STRIDE
from backread.store.history import History
from backread.strategies.base import Context, Parts, StrategySpec
from backread.strategies.recall import recalled
from backread.strategies.trace import Trace
from backread.strategies.trailmem.looks import CUE, WINDOWS, survey
from backread.strategies.trailmem.trail import LEAST, Reader, Rules, Trail
from backread.types import BuildReport, Degradation, Recall

__all__ = ["SPECS", "TrailMem"]

_ENTRIES = Entries("trailmem", "episode", "")


class TrailMem:
    """Looks into one session after the other, best first, and keeps what the question needs within the budget.

    With `build_chat` each session has an entry, and its score is a part of what a look is worth. With `chat` the turns
    of a look's windows are kept or dropped, and compressed; without, turns are kept by their score, as they were said.

    Args:
        retriever: ranks turns, and the entries of sessions.
        chat: keeps and drops.
        build_chat: writes the entries of sessions.
        looks: take just as many looks, without an early stop, and keep every turn that is seen when there is no model;
            None for the design itself.
        top_k: turns that are found.
        steps: looks at most, with a model; without, there are as many as the budget needs.
        patience: looks in a row that may change nothing of what is shown.
        gap: without a model, how much worse than the best turn one may be: a share of the distance to the worst.
    """

    def __init__(
        self,
        retriever: Retriever,
        chat: ChatModel | None = None,
        build_chat: ChatModel | None = None,
        *,
        looks: int | None = None,
        top_k: int = 50,
        steps: int = 5,
        patience: int = 1,
        gap: float = 0.76,
    ) -> None:
        self._retriever, self._chat, self._build_chat = retriever, chat, build_chat
        self._looks, self._top_k = looks, top_k
        most = steps if chat is not None else None
        self._rules = Rules(most if looks is None else looks, patience, gap, early=looks is None)

    @classmethod
    def of(cls, parts: Parts, *, looks: int | None = None) -> TrailMem:
        """The design with these parts."""
        return cls(parts.retriever, parts.chat, parts.build_chat, looks=looks)

    @property
    def name(self) -> str:
        """The name users choose it by."""
        return "trailmem" if self._looks is None else f"trailmem:fixed{self._looks}"

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a result; "form" says what decides on a turn: "keep or drop" or "score"."""
        rules, build_chat = self._rules, self._build_chat
        own: dict[str, Any] = {
            "strategy": self.name,
            "form": "score" if self._chat is None else "keep or drop",
            "unit": "turn",
            "top_k": self._top_k,
            "cue_share": CUE,
            "radius": RADIUS,
            "longest": LONGEST,
            "stride": STRIDE,
            "windows": WINDOWS,
            "looks": self._looks,
            "build_model": None if build_chat is None else build_chat.name,
            "prompts": {} if build_chat is None else {_ENTRIES.kind: episode_prompt("episode").hash},
        }
        if self._looks is None:
            own |= {"patience": rules.patience}
            own |= {"gap": rules.gap, "least": LEAST} if self._chat is None else {"steps": rules.steps}
        if self._chat is not None:
            own |= {"model": self._chat.name, "prompts": {**own["prompts"], "keep_drop": prompt_hash()}}
        return {**self._retriever.config, **own}

    def build(self, history: History, ctx: Context, *, flush: bool = False) -> BuildReport:
        """An entry for each session that is new or changed, where there is a model to write it; else nothing."""
        if self._build_chat is None:
            return BuildReport(self.name)
        make = model_maker(self._build_chat, "episode", strategy=_ENTRIES.strategy)
        report = build_sessions(
            history, ctx, make, strategy=_ENTRIES.strategy, ledger=_ENTRIES.kind, recipe=_ENTRIES.recipe, flush=flush
        )
        return replace(report, strategy=self.name)

    def maintain(self, history: History, ctx: Context) -> BuildReport:
        """Nothing."""
        return BuildReport(self.name)

    def recall(
        self, history: History, question: str, budget: int | None, ctx: Context, *, asked_at: datetime | None = None
    ) -> Recall:
        """What is kept of the sessions that were looked into; `steps` has each look, and why the last one was.

        Once `ctx.cancel` is set or the deadline has passed no further window is read, which `degraded` says.

        Raises:
            ModelError: the chat model can't be asked.
        """
        trace = Trace(ctx)
        built, _ = history.strategy_state(_ENTRIES.strategy)
        ground = survey(
            history,
            self._retriever,
            question,
            _ENTRIES if built else None,
            top_k=self._top_k,
            cued=self._rules.steps or 0,
        )
        found = {"found": len(ground.ranked), "windows": len(ground.windows), "looks": len(ground.looks)}
        trace.tell("retrieve", found)
        reader = None if self._chat is None else self._reader(self._chat, history, question, ctx, asked_at)
        trail = Trail(ground, self._rules, reader, question, budget, trace)
        trail.follow()
        done = [made for made in trail.read if made is not None]
        degraded = [*ground.degraded, *shortcomings(trail.read, keep_hits=True)]
        if trail.cut_short:
            degraded.append(Degradation("trailmem", "stopped before its end; the memory so far is shown"))
        return recalled(
            self,
            history,
            question,
            trail.fitted,
            ctx,
            asked_at=asked_at,
            ranked=ground.ranked,
            considered=trail.turns,
            decisions=(decision for made in done for decision in made.decisions),
            steps=trace.steps,
            usage=(usage for made in done for usage in made.usage),
            degraded=degraded,
        )

    def _reader(
        self, chat: ChatModel, history: History, question: str, ctx: Context, asked_at: datetime | None
    ) -> Reader:
        sessions = {session.session_id: session for session in history.sessions()}

        def read(windows: Sequence[tuple[int, Stretch]]) -> Iterable[WindowDecisions | None]:
            return read_windows(chat, question, asked_at, sessions, windows, ctx)

        return read


SPECS: Final[Mapping[str, StrategySpec]] = MappingProxyType(
    {
        "": StrategySpec(TrailMem.of, "one session after the other, as long as it pays", builds=True, unit="turn"),
        "fixed1": StrategySpec(lambda parts: TrailMem.of(parts, looks=1), "just one look", builds=True, unit="turn"),
        "fixed5": StrategySpec(lambda parts: TrailMem.of(parts, looks=5), "just five looks", builds=True, unit="turn"),
    }
)
"""By the name of the preset, "" for the design itself."""
