"""LeanMem: each topic segment is kept as profile, event or record, only events evolve, and a plan says what is read.

See `PAPER.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Self

from backread.construction.sessions import build_sessions, together
from backread.construction.tagging import RuleTagger
from backread.errors import InvalidInputError
from backread.models.base import ChatModel, Embedder, Tagger
from backread.models.usage import total
from backread.models.wrappers import MeteredChat
from backread.rendering import fit
from backread.retrieval.base import Retriever
from backread.store.history import History
from backread.strategies.base import Context, Parts, StrategySpec
from backread.strategies.leanmem.asking import prompt
from backread.strategies.leanmem.composing import compose
from backread.strategies.leanmem.design import PRESETS, SUMMARY, Shelf
from backread.strategies.leanmem.evolution import CAPACITY, LEAST, RELATED, Evolution
from backread.strategies.leanmem.finding import Finder, FoundEntry, FoundTurn, Memories, memories
from backread.strategies.leanmem.planning import DEPTH, MOST, Plan, make_plan, uniform_plan
from backread.strategies.leanmem.writing import Known, Writing, known_entries
from backread.strategies.recall import recalled
from backread.strategies.trace import Trace
from backread.types import BuildReport, Degradation, Recall, ScoredUnit, Usage

__all__ = ["CONTEXT", "SPECS", "LeanMem"]

CONTEXT = 2500
"""Tokens of evidence at most, also where the budget allows more."""


class LeanMem:
    """Writes profile, event and record entries when turns arrive, and plans what to read of them for a question.

    Without a chat model for building, segments are routed and written by rule and events don't evolve; without one for
    recall, every kind of entry counts the same. Entries by rule and by a model are kept apart. A session that has both
    is read as this object would write it, and what is not built is searched as it was said.

    Args:
        retriever: finds entries and turns.
        chat: plans.
        build_chat: schedules, writes and consolidates.
        embedder: compares utterances, events, and entries with the question; None compares their words.
        name: of the design, one of `design.PRESETS`.
        tagger: finds keywords and names for records.
        window: w of the topic segmentation; None is 2 for conversations between people, else 1.
        fixed_retriever: take relevance from the retriever's scores, also where there is an embedder.

    Raises:
        InvalidInputError: no design has that name, or `window` is below 1.
    """

    def __init__(
        self,
        retriever: Retriever,
        chat: ChatModel | None = None,
        build_chat: ChatModel | None = None,
        embedder: Embedder | None = None,
        *,
        name: str = "leanmem",
        tagger: Tagger | None = None,
        window: int | None = None,
        fixed_retriever: bool = False,
    ) -> None:
        if name not in PRESETS or (window is not None and window < 1):
            raise InvalidInputError(
                f"there is no design {name!r} with the window {window}",
                hint=f"designs: {', '.join(sorted(PRESETS))}; a window is a number from 1 on",
            )
        self._retriever, self._chat, self._build_chat, self._embedder = retriever, chat, build_chat, embedder
        self._name, self._design = name, PRESETS[name]
        self._window = window
        self._finder = Finder(retriever, None if fixed_retriever else embedder)
        forms = ("rules", "model") if build_chat is None else ("model", "rules")
        self._shelves = tuple(Shelf.of(name, form, window) for form in forms)
        self._writing = Writing(self._design, self._shelves[0], build_chat, embedder, tagger or RuleTagger())

    @classmethod
    def of(cls, parts: Parts, *, name: str = "leanmem") -> Self:
        """A design with the parts there are."""
        return cls(
            parts.retriever,
            parts.chat,
            parts.build_chat,
            parts.embedder,
            name=name,
            fixed_retriever=parts.fixed_retriever,
        )

    @property
    def name(self) -> str:
        """The name users choose it by."""
        return self._name

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a result; "form", "plan" and "relevance" say how far it is as published."""
        design, chat = self._design, self._build_chat
        planned = design.planned and self._chat is not None
        asked = [*(["schedule", "event", "gist"] if design.scheduled else ["summary"])] if chat is not None else []
        asked += ["evolve"] if self._evolves else []
        asked += ["plan"] if planned else []
        own = {
            "strategy": self.name,
            "form": self._shelves[0].form,
            "filtered": design.filtered,
            "segmented": design.segmented,
            "scheduled": design.scheduled,
            "evolving": self._evolves,
            "plan": "model" if planned else "uniform" if design.planned else "none",
            "relevance": "cosine" if self._finder.embedder is not None else "share of the best score",
            "compares": "words" if self._embedder is None else self._embedder.fingerprint,
            "window": self._window,
            "tagger": self._writing.tagger.name,
            "buffer": CAPACITY,
            "related": RELATED,
            "least": LEAST,
            "context": CONTEXT,
            "build_model": None if chat is None else chat.name,
            "model": self._chat.name if planned and self._chat is not None else None,
            "prompts": {name: prompt(name).hash for name in asked},
        }
        return {**self._retriever.config, **own}

    @property
    def _evolves(self) -> bool:
        return self._design.evolving and self._design.scheduled and self._build_chat is not None

    def build(self, history: History, ctx: Context, *, flush: bool = False) -> BuildReport:
        """Write the sessions that are new or changed, then consolidate events once enough of them wait for it.

        See `construction.sessions` for what happens when it is stopped, or turns arrive or go meanwhile. With `flush`
        the latest session is written too, and the events that wait are consolidated, however few they are.
        """
        shelf = self._shelves[0]

        @cache
        def known() -> Known:
            return known_entries(history.now().entries(shelf.strategy), shelf)

        written = build_sessions(
            history,
            ctx,
            self._writing.maker(known),
            strategy=shelf.strategy,
            ledger=shelf.form,
            recipe=shelf.recipe,
            flush=flush,
        )
        return self._report(written, self._evolved(history, ctx, flush=flush))

    def maintain(self, history: History, ctx: Context) -> BuildReport:
        """Consolidate the events that wait for it, however few they are."""
        return self._report(self._evolved(history, ctx, flush=True))

    def _evolved(self, history: History, ctx: Context, *, flush: bool) -> BuildReport:
        shelf = self._shelves[0]
        version, _ = history.strategy_state(shelf.strategy)
        if not self._evolves or self._build_chat is None or not version:
            return BuildReport(self.name)
        return Evolution(history, shelf, self._build_chat, self._embedder, ctx).run(flush=flush)

    def _report(self, *reports: BuildReport) -> BuildReport:
        return BuildReport(
            self.name,
            put=sum(report.put for report in reports),
            dropped=sum(report.dropped for report in reports),
            failed=tuple(failure for report in reports for failure in report.failed),
            usage=tuple(usage for report in reports for usage in report.usage),
            degraded=together([item for report in reports for item in report.degraded]),
        )

    def recall(
        self, history: History, question: str, budget: int | None, ctx: Context, *, asked_at: datetime | None = None
    ) -> Recall:
        """The memories a plan asks for, within the budget and 2,500 tokens.

        No plan is made where nothing is built: then the turns are searched as they were said.

        Raises:
            ModelError: the chat model or the embedder can't be used.
        """
        trace = _Trace(ctx)
        there = memories(history, self._shelves, self._design.kinds)
        plan = self._plan(question, asked_at, there, trace)
        asked = self._finder.question(question)
        entries, degraded = self._finder.entries(history, asked, there, plan)
        if not self._design.planned:
            entries = entries[: plan.depths[self._design.kinds[0]]]
        raw, raw_degraded = self._finder.turns(history, asked, there, plan)
        made = compose(history, self._retriever, question, plan, entries, raw)
        limit = CONTEXT if budget is None else min(budget, CONTEXT)
        fitted = fit(made.candidates, limit, ctx.counter, question)
        detail = {kind: sum(found.kind == kind for found in entries) for kind in self._design.kinds}
        detail |= {"expanded": made.expanded, "raw": len(raw)}
        trace.tell("retrieve", {"written_by": there.forms, "unbuilt": len(there.unbuilt), **detail})
        return recalled(
            self,
            history,
            question,
            fitted,
            ctx,
            asked_at=asked_at,
            ranked=_ranked(entries, raw),
            considered=made.turns,
            steps=trace.steps,
            usage=trace.usage,
            degraded=(*trace.degraded, *degraded, *raw_degraded),
        )

    def _plan(self, question: str, asked_at: datetime | None, there: Memories, trace: _Trace) -> Plan:
        kinds = self._design.kinds
        if not self._design.planned:  # the best of all kinds in one list
            return Plan(dict.fromkeys(kinds, 1.0), dict.fromkeys(kinds, DEPTH * len(kinds)))
        made = None
        if self._chat is not None and there.forms and not trace.stopped():
            made = make_plan(MeteredChat(self._chat, trace.usage), question, asked_at)
            if made is None:
                trace.note("plan", "the planner gave no valid plan: every kind of entry counts the same")
            trace.tell("plan", _told(made, trace.usage))
        if made is None:
            return uniform_plan(kinds, DEPTH if self._design.scheduled else 3 * DEPTH)
        if not self._design.scheduled:
            depth = min(MOST, sum(made.depths.values()))
            return replace(made, weights={SUMMARY: 1.0}, depths={SUMMARY: depth})
        return made


class _Trace(Trace):
    """What one recall leaves: steps, told while they happen, usage and what fell short."""

    def __init__(self, ctx: Context) -> None:
        super().__init__(ctx)
        self.usage: list[Usage] = []
        self.degraded: list[Degradation] = []

    def note(self, part: str, reason: str) -> None:
        self.degraded.append(Degradation(part, reason, 1))

    def stopped(self) -> bool:
        """Whether no new work may be started; says so."""
        if self.over:
            self.note("plan", "there was no time for a plan: every kind of entry counts the same")
        return self.over


def _told(plan: Plan | None, usage: list[Usage]) -> dict[str, Any]:
    """What a step says of a plan; tokens are None where the endpoint reports none."""
    spent = total(usage)
    tokens = {"calls": spent.calls, "input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens}
    if plan is None:
        return {"valid": False, **tokens}
    return {
        "valid": True,
        "constraints": list(plan.constraints.all),
        "demand": plan.demand,
        "detail": plan.detail,
        "weights": dict(plan.weights),
        "depths": dict(plan.depths),
        **tokens,
    }


def _ranked(entries: list[FoundEntry], raw: list[FoundTurn]) -> tuple[ScoredUnit, ...]:
    """Ids of entries and turns with their scores, best first."""
    units = [ScoredUnit(found.entry.entry_id, found.score) for found in entries]
    units += [ScoredUnit(found.turn.turn_id, found.score) for found in raw]
    return tuple(sorted(units, key=lambda unit: -unit.score))


def _spec(preset: str, summary: str) -> StrategySpec:
    name = f"leanmem:{preset}" if preset else "leanmem"
    return StrategySpec(lambda parts: LeanMem.of(parts, name=name), summary, builds=True)


_SUMMARIES: Final = {
    "": "profile, event and record memories, and a plan of what to read",
    "no_evolution": "events stay as they were written",
    "no_filter": "all turns are segmented",
    "no_plan": "the nearest entries, without a plan",
    "no_schedule": "each segment is summarised",
    "no_segments": "a session is one unit",
}
SPECS: Final[Mapping[str, StrategySpec]] = MappingProxyType(
    {preset: _spec(preset, summary) for preset, summary in _SUMMARIES.items()}
)
"""By the name of the preset, "" for the design itself."""
