"""LazyMem: retrieve broadly, restore the context of what was found, keep and compress what the question needs.

See `PAPER.md`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Self

from backread.construction.in_order import in_order
from backread.construction.keep_drop import (
    PROMPT_TOKENS,
    RESPONSE_TOKENS,
    WindowDecisions,
    keep_or_drop,
    merge,
    prompt_hash,
)
from backread.models.base import ChatModel
from backread.models.usage import total
from backread.rendering import Candidate, fit
from backread.retrieval.base import Retriever
from backread.retrieval.windows import LONGEST, RADIUS, STRIDE
from backread.store.history import History
from backread.strategies.base import Context, Parts
from backread.strategies.evidence import undated, verbatim
from backread.strategies.lazymem.retrieval import retrieval
from backread.strategies.lazymem.stretches import Stretch, best_first, stretches
from backread.types import BuildReport, Degradation, Evidence, Recall, Source, Step, Turn

__all__ = ["LazyMem"]

_Read = Sequence[WindowDecisions | None]
"""The decisions of each window; None for one that was not begun."""


class LazyMem:
    """Works when the question comes, and builds nothing.

    With a chat model the turns of each window are kept or dropped, and compressed. Without one they are shown as they
    were said, those of the best windows first.

    Args:
        retriever: finds turns.
        chat: keeps and drops; it may be another model, at another endpoint, than the one that answers.
        top_k: turns that are found.
        keep_hits_when_invalid: show what was found in a window that has no valid decisions, as it was said; otherwise
            nothing of such a window is shown.
        prompt_tokens: of the request for a window, at most.
        response_tokens: of the reply for a window, at most.
        missing: what `retriever` has to do without, said with every recall.
    """

    def __init__(
        self,
        retriever: Retriever,
        chat: ChatModel | None = None,
        *,
        top_k: int = 50,
        keep_hits_when_invalid: bool = False,
        prompt_tokens: int = PROMPT_TOKENS,
        response_tokens: int = RESPONSE_TOKENS,
        missing: tuple[Degradation, ...] = (),
    ) -> None:
        self._retriever, self._chat, self._top_k = retriever, chat, top_k
        self._keep_hits = keep_hits_when_invalid
        self._prompt_tokens, self._response_tokens = prompt_tokens, response_tokens
        self._missing = missing

    @classmethod
    def of(cls, parts: Parts, *, keep_hits_when_invalid: bool = False) -> Self:
        """With the published retrieval, as far as there are parts for it, or with the retriever that was chosen."""
        retriever, missing = retrieval(parts)
        return cls(retriever, parts.chat, keep_hits_when_invalid=keep_hits_when_invalid, missing=missing)

    @property
    def name(self) -> str:
        """The name users choose it by."""
        return "lazymem:keep_hits" if self._keep_hits else "lazymem"

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a result; "form" and "missing" say how far it is the published design."""
        own: dict[str, Any] = {
            "strategy": self.name,
            "form": "verbatim windows" if self._chat is None else "keep or drop",
            "missing": [item.part for item in self._missing],
            "top_k": self._top_k,
            "radius": RADIUS,
            "longest": LONGEST,
            "stride": STRIDE,
        }
        if self._chat is not None:
            own |= {"model": self._chat.name, "prompt": prompt_hash()}
            own |= {"prompt_tokens": self._prompt_tokens, "response_tokens": self._response_tokens}
        return {**self._retriever.config, **own}

    def build(self, history: History, ctx: Context, *, flush: bool = False) -> BuildReport:
        """Nothing: the record is the memory."""
        return BuildReport(self.name)

    def maintain(self, history: History, ctx: Context) -> BuildReport:
        """Nothing."""
        return BuildReport(self.name)

    def recall(
        self, history: History, question: str, budget: int | None, ctx: Context, *, asked_at: datetime | None = None
    ) -> Recall:
        """What is kept of the windows around the turns that were found; the best windows go first into the budget.

        Once `ctx.cancel` is set or the deadline has passed no further window is read; how many were not is said.

        Raises:
            ModelError: the chat model can't be asked.
        """
        trace = _Trace(ctx)
        corpus = history.corpus("turn")
        ranking = self._retriever.search(corpus, question, self._top_k)
        trace.tell("retrieve", {"found": len(ranking.items)})
        windows = stretches(corpus, ranking)
        places = {turn_id: place for place, turn_id in enumerate(_considered(windows))}
        trace.tell("windows", {"windows": len(windows), "turns": len(places)})
        read: _Read = ()
        if self._chat is not None and windows:
            read = list(self._decide(self._chat, history, windows, question, asked_at, trace))
        lines = self._lines(windows, read)
        fitted = fit(
            [Candidate(line, (places[line.sources[0].turn_id],)) for line in lines], budget, ctx.counter, question
        )
        done = [made for made in read if made is not None]
        return Recall(
            question=question,
            strategy=self.name,
            evidence=fitted.evidence,
            rendered=fitted.rendered,
            tokens=fitted.tokens,
            counter=ctx.counter.name,
            ranked=ranking.items,
            considered=tuple(places),
            decisions=tuple(decision for made in done for decision in made.decisions),
            overflow=fitted.overflow,
            steps=tuple(trace.steps),
            usage=tuple(usage for made in done for usage in made.usage),
            degraded=self._missing + ranking.degraded + self._notes(read) + undated(history),
            config=self.config,
            asked_at=asked_at,
        )

    def _decide(
        self,
        chat: ChatModel,
        history: History,
        windows: Sequence[Stretch],
        question: str,
        asked_at: datetime | None,
        trace: _Trace,
    ) -> Iterator[WindowDecisions | None]:
        """The decisions of each window, in order; each is told when it is there and those before it are."""
        sessions = {session.session_id: session for session in history.sessions()}

        def decide(number: int) -> WindowDecisions:
            turns = windows[number].turns
            return keep_or_drop(
                chat,
                question,
                asked_at,
                sessions.get(turns[0].session_id),
                turns,
                window=number,
                prompt_tokens=self._prompt_tokens,
                response_tokens=self._response_tokens,
            )

        ctx = trace.ctx
        order = range(len(windows))
        for made in in_order(decide, order, concurrency=ctx.concurrency, cancel=ctx.cancel, deadline=ctx.deadline):
            if made is not None:
                trace.tell("window", _detail(made, windows[made.window]), made.seconds)
            yield made

    def _lines(self, windows: Sequence[Stretch], read: _Read) -> list[Evidence]:
        """What may be shown, in the order in which a budget takes it."""
        turns = best_first(windows)
        if self._chat is None:
            return [verbatim(turn, rank) for rank, turn in enumerate(turns)]
        kept = {item.turn_id: item.text for item in merge(made.decisions for made in read if made is not None)}
        whole: set[str] = set()
        if self._keep_hits:
            undecided = [
                window for window, made in zip(windows, read, strict=True) if made is None or made.fault is not None
            ]
            whole = {turn_id for window in undecided for turn_id in window.places}
        shown = [turn for turn in turns if turn.turn_id in kept or turn.turn_id in whole]
        return [
            verbatim(turn, rank) if (text := kept.get(turn.turn_id)) is None else _rewritten(turn, text, rank)
            for rank, turn in enumerate(shown)
        ]

    def _notes(self, read: _Read) -> tuple[Degradation, ...]:
        """What of the windows could not be used."""
        invalid = sum(made is not None and made.fault is not None for made in read)
        instead = "what was found in them is shown as it was said" if self._keep_hits else "nothing of them is shown"
        counted = (
            ("windows", f"windows got no valid decisions at two tries: {instead}", invalid),
            (
                "windows",
                f"windows were not read, as the call was to end: {instead}",
                sum(made is None for made in read),
            ),
            ("prompt", "turns were read in part, as a window was too long", sum(made.cut for made in read if made)),
        )
        return tuple(Degradation(part, reason, count) for part, reason, count in counted if count)


class _Trace:
    """The steps of one recall, told while they happen."""

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


def _considered(windows: Sequence[Stretch]) -> list[str]:
    """The turns of all windows, each once, in the order of the history."""
    return list(dict.fromkeys(turn.turn_id for window in windows for turn in window.turns))


def _detail(made: WindowDecisions, window: Stretch) -> dict[str, Any]:
    """What a step says of a window; tokens are None where the endpoint reports none."""
    kept = sum(decision.kept for decision in made.decisions)
    spent = total(made.usage)
    return {
        "window": made.window,
        "session": window.turns[0].session_id,
        "turns": len(window.turns),
        "valid": made.fault is None,
        "kept": kept,
        "dropped": len(made.decisions) - kept,
        "calls": spent.calls,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
    }


def _rewritten(turn: Turn, text: str, rank: int) -> Evidence:
    """A model's words for a turn; the caption of its image is in them, where it matters."""
    return Evidence(
        text=text,
        kind="rewrite",
        sources=(Source(turn.turn_id, 0, len(turn.text)),),
        rank=rank,
        speaker=turn.name,
        time=turn.said_at,
        session_id=turn.session_id,
    )
