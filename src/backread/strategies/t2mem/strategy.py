"""T2Mem: an index entry for each session, and a memory that is built when a question comes. See `PAPER.md`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Literal

from backread.construction.episode_ranking import Entries, Ranked, rank_episodes
from backread.construction.episodes import Representation, episode_prompt, model_maker
from backread.construction.extracts import RECIPE, extract_kind, extract_maker
from backread.construction.sessions import build_sessions
from backread.models.base import ChatModel
from backread.rendering import Candidate, fit
from backread.retrieval.base import Retriever
from backread.store.history import History
from backread.strategies.base import Context, Parts, StrategySpec
from backread.strategies.recall import recalled
from backread.strategies.t2mem.loop import FIRST, STEPS, Loop, Trajectory, controller_prompts
from backread.strategies.t2mem.memory_lines import as_evidence
from backread.strategies.t2mem.showing import Shown, best_turns, entries_as_evidence
from backread.types import BuildReport, Degradation, Recall, Step

__all__ = ["SPECS", "Preset", "T2Mem"]

Preset = Literal["summary", "graph", "no_metadata", "no_raw", "no_rollout"]
"""The designs T2Mem is compared with (section 5.2, table 3)."""


class T2Mem:
    """Builds an entry for each session; a loop over entries and raw sessions builds the memory for a question.

    Without `build_chat` the entries are extracts (`construction.extracts`). Without `chat` there is no loop: the best
    turns of the best sessions are shown, or the entries themselves in designs that never read raw sessions.

    Args:
        retriever: ranks entries, once a question.
        chat: reasons when a question comes.
        build_chat: writes the entries.
        preset: an ablation. "summary", "graph": another entry. "no_metadata": raw sessions instead of entries.
            "no_raw": never a raw session. "no_rollout": the first entries are the evidence, without a call.
        steps: T_max, calls of the loop at most.
        first: entries of the first observation.
        reasoning_tokens: N of the paper's token budgets; see `loop.Loop`.
    """

    def __init__(
        self,
        retriever: Retriever,
        chat: ChatModel | None = None,
        build_chat: ChatModel | None = None,
        *,
        preset: Preset | None = None,
        steps: int = STEPS,
        first: int = FIRST,
        reasoning_tokens: int | None = None,
    ) -> None:
        self._retriever, self._build_chat, self._preset = retriever, build_chat, preset
        self._steps, self._first = steps, first
        self._representation: Representation | None = _representation(preset)
        self._loop: Loop | None = None
        if chat is not None and preset != "no_rollout":
            tools = preset if preset in ("no_raw", "no_metadata") else "all"
            self._loop = Loop(chat, tools, steps, first, reasoning_tokens)

    @classmethod
    def of(cls, parts: Parts, preset: Preset | None = None) -> T2Mem:
        """The design with these parts."""
        return cls(parts.retriever, parts.chat, parts.build_chat, preset=preset)

    @property
    def name(self) -> str:
        """The name users choose it by."""
        return f"t2mem:{self._preset}" if self._preset else "t2mem"

    @property
    def entries(self) -> Entries | None:
        """Where its entries are, None for a design without any. Designs with the same entries share them."""
        if self._representation is None:
            return None
        strategy = f"t2mem:{self._representation}" if self._representation != "episode" else "t2mem"
        if self._build_chat is None:
            return Entries(strategy, extract_kind(self._representation), RECIPE)
        return Entries(strategy, self._representation, "")

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a result; `form` says what makes the evidence: "loop", "entries" or "turns"."""
        loop, entries = self._loop, self.entries
        prompts = controller_prompts(loop.tools) if loop else {}
        if self._representation and self._build_chat:
            prompts[self._representation] = episode_prompt(self._representation).hash
        return {
            "strategy": self.name,
            "form": self._form,
            "entries": None if entries is None else entries.kind,
            "recipe": None if entries is None else entries.recipe,
            "first": self._first,
            "steps": self._steps,
            "reasoning_tokens": loop.reasoning_tokens if loop else None,
            "model": loop.chat.name if loop else None,
            "build_model": self._build_chat.name if self._representation and self._build_chat else None,
            "prompts": prompts,
            **self._retriever.config,
        }

    @property
    def _form(self) -> Literal["loop", "entries", "turns"]:
        if self._loop is not None:
            return "loop"
        return "entries" if self._preset in ("no_raw", "no_rollout") else "turns"

    def build(self, history: History, ctx: Context, *, flush: bool = False) -> BuildReport:
        """One call a session that is new or changed; see `construction.sessions`."""
        entries = self.entries
        if entries is None or self._representation is None:
            return BuildReport(self.name)
        make = (
            extract_maker(self._representation, strategy=entries.strategy)
            if self._build_chat is None
            else model_maker(self._build_chat, self._representation, strategy=entries.strategy)
        )
        report = build_sessions(
            history, ctx, make, strategy=entries.strategy, ledger=entries.kind, recipe=entries.recipe, flush=flush
        )
        return replace(report, strategy=self.name)

    def maintain(self, history: History, ctx: Context) -> BuildReport:
        """Nothing: entries are never merged or linked across sessions."""
        return BuildReport(self.name)

    def recall(
        self, history: History, question: str, budget: int | None, ctx: Context, *, asked_at: datetime | None = None
    ) -> Recall:
        """The memory M_T as evidence, each line with the turns it could be tied to.

        Raises:
            ModelError: the configured model could not be asked.
        """
        started = time.monotonic()
        ranked = rank_episodes(history, self._retriever, question, self.entries)
        step = Step("retrieve", {"unit": "entry", "found": len(ranked.items)}, time.monotonic() - started)
        if ctx.on_step is not None:
            ctx.on_step(step)
        made = Trajectory()
        if self._loop is None:
            candidates, turns, degraded = self._without_loop(history, question, ranked)
            made.turns |= {turn.turn_id: turn for turn in turns}
            made.degraded += degraded
        else:
            if ranked.items:
                made = self._loop.run(
                    history,
                    question,
                    ranked.episodes,
                    on_step=ctx.on_step,
                    stopped=lambda: _over(ctx),
                    asked_at=asked_at,
                )
            candidates = as_evidence(made.lines)
            made.degraded += _shortcomings(candidates, made)
        fitted = fit(candidates, budget, ctx.counter, question)
        return recalled(
            self,
            history,
            question,
            fitted,
            ctx,
            asked_at=asked_at,
            ranked=ranked.items,
            considered=made.turns,
            steps=(step, *made.steps),
            usage=made.usage,
            degraded=(*ranked.degraded, *made.degraded),
        )

    def _without_loop(self, history: History, question: str, ranked: Ranked) -> Shown:
        """What is shown without a call: turns of all sessions, or the entries that a loop could have seen."""
        if self._form == "turns":
            return best_turns(history, self._retriever, question, ranked.episodes)
        most = self._first if self._preset == "no_rollout" else self._first + self._steps - 1
        seen = ranked.episodes[:most] if ranked.items else ()
        return entries_as_evidence(history, self._retriever, question, seen)


def _over(ctx: Context) -> bool:
    """Whether nothing new may be started."""
    cancelled = ctx.cancel is not None and ctx.cancel.is_set()
    return cancelled or (ctx.deadline is not None and time.monotonic() >= ctx.deadline)


def _representation(preset: Preset | None) -> Representation | None:
    if preset == "no_metadata":
        return None
    return preset if preset in ("summary", "graph") else "episode"


def _shortcomings(candidates: Sequence[Candidate], made: Trajectory) -> list[Degradation]:
    """What a memory lacks: lines that rest on nothing, or all lines."""
    unchecked = sum(not candidate.evidence.sources for candidate in candidates)
    found = []
    if unchecked:
        reason = "memory lines could not be tied to a turn; they are marked unchecked"
        found.append(Degradation("t2mem", reason, unchecked))
    if made.steps and not candidates:
        found.append(Degradation("t2mem", "the model found nothing to remember for this question"))
    return found


def _spec(preset: Preset | None, summary: str, *, builds: bool = True) -> StrategySpec:
    return StrategySpec(lambda parts: T2Mem.of(parts, preset), summary, builds=builds)


SPECS: Final[Mapping[str, StrategySpec]] = MappingProxyType(
    {
        "": _spec(None, "a loop over episode metadata and raw sessions"),
        "graph": _spec("graph", "entries are graphs"),
        "no_metadata": _spec("no_metadata", "raw sessions instead of entries", builds=False),
        "no_raw": _spec("no_raw", "never reads a raw session"),
        "no_rollout": _spec("no_rollout", "the first entries, without a loop"),
        "summary": _spec("summary", "entries are summaries"),
    }
)
"""By the name of the preset, "" for the design itself."""
