"""Full context: every turn in order. Over the budget the oldest turns are left out, and counted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from backread.rendering import Candidate, fit
from backread.store.history import History, Scope
from backread.strategies.base import Context, StrategySpec
from backread.strategies.evidence import verbatim
from backread.strategies.recall import recalled
from backread.types import BuildReport, Degradation, Recall

__all__ = ["SPECS", "FullContext"]


class FullContext:
    """Shows everything: the reference that retrieval is measured against."""

    @property
    def name(self) -> str:
        """The name users choose it by."""
        return "full_context"

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a result: none."""
        return {"strategy": self.name}

    def build(self, history: History, ctx: Context, *, flush: bool = False) -> BuildReport:
        """Nothing: the record is the memory."""
        return BuildReport(self.name)

    def maintain(self, history: History, ctx: Context) -> BuildReport:
        """Nothing."""
        return BuildReport(self.name)

    def recall(
        self, history: History, question: str, budget: int | None, ctx: Context, *, asked_at: datetime | None = None
    ) -> Recall:
        """All turns, newest kept first when the budget is short."""
        turns = list(history.turns(Scope()))
        newest = list(enumerate(turns))[::-1]
        candidates = [Candidate(verbatim(turn, rank), (place,)) for rank, (place, turn) in enumerate(newest)]
        fitted = fit(candidates, budget, ctx.counter, question, gaps=False)
        left_out = len(turns) - len(fitted.evidence)
        reason = "the history is longer than the budget: the oldest turns are left out"
        return recalled(
            self,
            history,
            question,
            fitted,
            ctx,
            asked_at=asked_at,
            considered=(turn.turn_id for turn in turns),
            degraded=(Degradation("budget", reason, left_out),) if left_out else (),
        )


SPECS: Final[Mapping[str, StrategySpec]] = MappingProxyType(
    {"": StrategySpec(lambda parts: FullContext(), "everything that fits", unit="turn", needs=frozenset())}
)
"""By the name of the preset, "" for the design itself."""
