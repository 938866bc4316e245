"""LazyMem: retrieve broadly, restore the context of what was found, keep and compress what the question needs.

See `PAPER.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Self

from backread.construction.keep_drop import PROMPT_TOKENS, RESPONSE_TOKENS, WindowDecisions, prompt_hash
from backread.construction.stretches import Stretch, best_first, stretches
from backread.construction.window_reading import Read, kept_turns, read_windows, shortcomings, window_detail
from backread.models.base import ChatModel
from backread.rendering import Candidate, fit
from backread.retrieval.base import Retriever
from backread.retrieval.windows import LONGEST, RADIUS, STRIDE
from backread.store.history import History
from backread.strategies.base import Context, Parts, StrategySpec
from backread.strategies.evidence import rewritten, verbatim
from backread.strategies.lazymem.retrieval import retrieval
from backread.strategies.recall import recalled
from backread.strategies.trace import Trace
from backread.types import BuildReport, Degradation, Evidence, Recall

__all__ = ["SPECS", "LazyMem"]


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
        trace = Trace(ctx)
        corpus = history.corpus("turn")
        ranking = self._retriever.search(corpus, question, self._top_k)
        trace.tell("retrieve", {"found": len(ranking.items)})
        windows = stretches(corpus, ranking)
        places = {turn_id: place for place, turn_id in enumerate(_considered(windows))}
        trace.tell("windows", {"windows": len(windows), "turns": len(places)})
        read: Read = ()
        if self._chat is not None and windows:
            read = list(self._decide(self._chat, history, windows, question, asked_at, trace))
        lines = self._lines(windows, read)
        fitted = fit(
            [Candidate(line, (places[line.sources[0].turn_id],)) for line in lines], budget, ctx.counter, question
        )
        done = [made for made in read if made is not None]
        short = shortcomings(read, keep_hits=self._keep_hits)
        return recalled(
            self,
            history,
            question,
            fitted,
            ctx,
            asked_at=asked_at,
            ranked=ranking.items,
            considered=places,
            decisions=(decision for made in done for decision in made.decisions),
            steps=trace.steps,
            usage=(usage for made in done for usage in made.usage),
            degraded=(*self._missing, *ranking.degraded, *short),
        )

    def _decide(
        self,
        chat: ChatModel,
        history: History,
        windows: Sequence[Stretch],
        question: str,
        asked_at: datetime | None,
        trace: Trace,
    ) -> Iterator[WindowDecisions | None]:
        """The decisions of each window, in order; each is told when it is there and those before it are."""
        reading = read_windows(
            chat,
            question,
            asked_at,
            {session.session_id: session for session in history.sessions()},
            list(enumerate(windows)),
            trace.ctx,
            prompt_tokens=self._prompt_tokens,
            response_tokens=self._response_tokens,
        )
        for made in reading:
            if made is not None:
                trace.tell("window", window_detail(made, windows[made.window]), made.seconds)
            yield made

    def _lines(self, windows: Sequence[Stretch], read: Read) -> list[Evidence]:
        """What may be shown, in the order in which a budget takes it."""
        if self._chat is None:
            return [verbatim(turn, rank) for rank, turn in enumerate(best_first(windows))]
        return [
            verbatim(turn, rank) if text is None else rewritten(turn, text, rank)
            for rank, (turn, text) in enumerate(kept_turns(windows, read, keep_hits=self._keep_hits))
        ]


def _considered(windows: Sequence[Stretch]) -> list[str]:
    """The turns of all windows, each once, in the order of the history."""
    return list(dict.fromkeys(turn.turn_id for window in windows for turn in window.turns))


SPECS: Final[Mapping[str, StrategySpec]] = MappingProxyType(
    {
        "": StrategySpec(LazyMem.of, "broad retrieval, kept or dropped in windows"),
        "keep_hits": StrategySpec(
            lambda parts: LazyMem.of(parts, keep_hits_when_invalid=True), "shows the hits of windows without a decision"
        ),
    }
)
"""By the name of the preset, "" for the design itself."""
