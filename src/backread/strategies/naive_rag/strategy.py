"""Naive RAG: rank units of the record, show the best that fit in the order they were said. See `PAPER.md`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from backread.rendering import Candidate, fit
from backread.retrieval.base import Retriever
from backread.store.history import History, Scope
from backread.strategies.base import Context, StrategySpec
from backread.strategies.evidence import verbatim
from backread.strategies.recall import recalled
from backread.types import BuildReport, Recall, Step, Turn, Unit

__all__ = ["SPECS", "NaiveRag"]


class NaiveRag:
    """Ranks turns, user turns, rounds or sessions.

    Args:
        retriever: ranks the units.
        unit: what is ranked; rounds and sessions are shown turn by turn.
        top_k: units at most, before the budget.
    """

    def __init__(self, retriever: Retriever, *, unit: Unit = "turn", top_k: int = 50) -> None:
        self._retriever = retriever
        self._unit: Unit = unit
        self._top_k = top_k

    @property
    def name(self) -> str:
        """The name users choose it by."""
        return "naive_rag" if self._unit == "turn" else f"naive_rag:{self._unit}"

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a result."""
        return {"strategy": self.name, "unit": self._unit, "top_k": self._top_k, **self._retriever.config}

    def _best_first(self, units: list[list[Turn]], history: History, question: str) -> list[list[Turn]]:
        """The turns of rounds or sessions as a budget should take them: what fits the question before the rest."""
        if self._unit not in ("round", "session"):
            return units
        scope = Scope(session_ids={turn.session_id for turns in units for turn in turns})
        corpus = history.corpus("turn", scope)
        ranking = self._retriever.search(corpus, question, max(1, corpus.size))
        place = {item.unit_id: number for number, item in enumerate(ranking.items)}
        return [sorted(turns, key=lambda turn: place.get(turn.turn_id, len(place))) for turns in units]

    def build(self, history: History, ctx: Context, *, flush: bool = False) -> BuildReport:
        """Nothing: the record is the memory."""
        return BuildReport(self.name)

    def maintain(self, history: History, ctx: Context) -> BuildReport:
        """Nothing."""
        return BuildReport(self.name)

    def recall(
        self, history: History, question: str, budget: int | None, ctx: Context, *, asked_at: datetime | None = None
    ) -> Recall:
        """The best units whose turns fit the budget."""
        started = time.monotonic()
        corpus = history.corpus(self._unit)
        ranking = self._retriever.search(corpus, question, self._top_k)
        units = corpus.find([item.unit_id for item in ranking.items])
        members = self._best_first(corpus.turns_of(units), history, question)
        turns: list[tuple[int, int, Turn]] = [
            (rank, unit, turn) for rank, (unit, own) in enumerate(zip(units, members, strict=True)) for turn in own
        ]
        candidates = [Candidate(verbatim(turn, rank), (unit, turn.position)) for rank, unit, turn in turns]
        fitted = fit(candidates, budget, ctx.counter, question)
        step = Step("retrieve", {"unit": self._unit, "found": len(units)}, time.monotonic() - started)
        if ctx.on_step is not None:
            ctx.on_step(step)
        return recalled(
            self,
            history,
            question,
            fitted,
            ctx,
            asked_at=asked_at,
            ranked=ranking.items,
            considered=(turn.turn_id for _, _, turn in turns),
            steps=(step,),
            degraded=ranking.degraded,
        )


def _spec(unit: Unit) -> StrategySpec:
    what = unit.replace("_", " ")
    return StrategySpec(lambda parts: NaiveRag(parts.retriever, unit=unit), f"the best {what}s, as said", unit=unit)


SPECS: Final[Mapping[str, StrategySpec]] = MappingProxyType(
    {"": _spec("turn"), "round": _spec("round"), "session": _spec("session"), "user_turn": _spec("user_turn")}
)
"""By the name of the preset, "" for the design itself."""
