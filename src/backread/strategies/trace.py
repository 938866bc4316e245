"""The steps of one recall, told while they happen."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from backread.strategies.base import Context
from backread.types import Step

__all__ = ["Trace"]


class Trace:
    """Keeps the steps of a recall, and tells `Context.on_step` of each; used from the calling thread only."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.steps: list[Step] = []
        self._last = time.monotonic()

    def tell(self, name: str, detail: Mapping[str, Any], seconds: float | None = None) -> None:
        """Note a step that took `seconds`, or the time since the last one."""
        now = time.monotonic()
        step = Step(name, detail, now - self._last if seconds is None else seconds)
        self._last = now
        self.steps.append(step)
        if self.ctx.on_step is not None:
            self.ctx.on_step(step)

    @property
    def over(self) -> bool:
        """Whether no new work may be begun: the call was cancelled, or its deadline has passed."""
        cancelled = self.ctx.cancel is not None and self.ctx.cancel.is_set()
        return cancelled or (self.ctx.deadline is not None and time.monotonic() >= self.ctx.deadline)
