"""What a memory design must do, and what it is given to work with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable

from backread.models.base import ChatModel, Compressor, Embedder, Reranker
from backread.retrieval.base import Retriever
from backread.store.history import History
from backread.text.tokens import TokenCounter, default_counter
from backread.types import BuildReport, Recall, Step, Usage

__all__ = ["Context", "Need", "Parts", "Strategy", "StrategySpec", "StrategyUnit"]

Need = Literal["vectors", "compressor"]
"""What takes time to make ready: vectors of pending turns, a compressor."""

StrategyUnit = Literal["turn", "user_turn", "round", "session", "entry"]
"""What `Recall.ranked` names; "entry" also stands for several of them together."""


@dataclass(frozen=True)
class Context:
    """What one call may use and must honour.

    Attributes:
        counter: counts the budget.
        on_step: told of every step while it happens; called from the calling thread.
        deadline: `time.monotonic()` after which no new work is started.
        cancel: set by the caller to stop; checked between steps.
        concurrency: model calls in flight at most.
        meter: usage of model calls is appended here as they end, also when the call as a whole fails.
    """

    counter: TokenCounter = field(default_factory=default_counter)
    on_step: Callable[[Step], None] | None = None
    deadline: float | None = None
    cancel: threading.Event | None = None
    concurrency: int = 4
    meter: list[Usage] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a strategy is made from. A design takes what it needs, and has a form for what is not there.

    Attributes:
        retriever: what it searches with.
        chat: the model that works when a question comes; None where none is configured.
        build_chat: the model that writes memory when turns arrive.
        embedder: makes vectors; None where there is none.
        reranker: a cross-encoder, for designs that have one in them.
        compressor: leaves out words before a model reads them; None where designs do that by rule.
        fixed_retriever: True when the caller chose `retriever` for every design; else a design with a retriever of its
            own, as published, makes that from `embedder` and `reranker`.
    """

    retriever: Retriever
    chat: ChatModel | None = None
    build_chat: ChatModel | None = None
    embedder: Embedder | None = None
    reranker: Reranker | None = None
    compressor: Compressor | None = None
    fixed_retriever: bool = False


@runtime_checkable
class Strategy(Protocol):
    """A memory design: what it does when turns arrive, and when a question comes.

    It sees one user's history and nothing else. Stored text is data: it is fenced wherever it enters a prompt.
    """

    @property
    def name(self) -> str:
        """The name users choose it by, preset included ("naive_rag:session")."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a result, prompt hashes included, for records."""
        ...

    def build(self, history: History, ctx: Context, *, flush: bool = False) -> BuildReport:
        """Write-time work on what is new since the last build; resumes after an interruption.

        Only sealed work is done unless `flush`. Designs that work when the question comes do nothing.
        """
        ...

    def maintain(self, history: History, ctx: Context) -> BuildReport:
        """Offline passes over what was built; nothing for designs that have none."""
        ...

    def recall(
        self, history: History, question: str, budget: int | None, ctx: Context, *, asked_at: datetime | None = None
    ) -> Recall:
        """Evidence for a question.

        `Recall.rendered` has at most `budget` tokens by `ctx.counter` (None: no limit); every source is a turn of
        `history`; the same call on the same record gives the same evidence. An empty history, or a question that
        matches nothing, gives no evidence, no error. `asked_at` says when it is now and filters nothing; the record
        as it once stood is a `History` with `as_of`.
        """
        ...


@dataclass(frozen=True, slots=True)
class StrategySpec:
    """A strategy as users choose it by name: how it is made, and what may be known of it before that.

    Attributes:
        make: makes it from the parts there are.
        summary: what it does, for people, in a few words.
        builds: has write-time work; the others do nothing in `build`.
        unit: what its rankings name.
        needs: what has to be made ready for it. Without "vectors" it never waits for pending ones.
    """

    make: Callable[[Parts], Strategy]
    summary: str = ""
    builds: bool = False
    unit: StrategyUnit = "entry"
    needs: frozenset[Need] = frozenset({"vectors"})
