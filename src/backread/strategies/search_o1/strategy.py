"""Search-o1: a reasoning chain that searches the record when it lacks something. See `PAPER.md`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from backread.construction.prompt_files import Prompt, read_prompt
from backread.errors import ContextWindowError
from backread.models.base import ChatMessage, ChatModel, ChatReply
from backread.models.context_window import with_smaller_prompts
from backread.rendering import Candidate, fit
from backread.retrieval.base import Retriever
from backread.store.corpus import Corpus
from backread.store.history import History
from backread.strategies.base import Context, StrategySpec
from backread.strategies.evidence import verbatim
from backread.strategies.recall import recalled
from backread.strategies.search_o1 import chain
from backread.strategies.search_o1.documents import Document, found_documents
from backread.strategies.search_o1.reading import Finding, findings, request
from backread.text.fencing import quote
from backread.text.times import format_time
from backread.types import BuildReport, Degradation, Evidence, Recall, ScoredUnit, Step, Unit, Usage

__all__ = ["SPECS", "SearchO1"]

_GO_ON = "Go on."
_UNCHECKED = " [unchecked]"


@dataclass(frozen=True, slots=True)
class _Limits:
    """Settings of a chain; see `SearchO1`."""

    top_k: int
    max_searches: int
    max_turns: int
    max_tokens: int
    characters: int


class SearchO1:
    """Evidence is what the chain's document reader found useful, line by line, each with the turns it rests on.

    Without a chat model it is one search with the question itself, and evidence is what that finds, verbatim.

    Args:
        retriever: ranks the units.
        chat: reasons and reads; None for the form without a model.
        unit: what a document is.
        top_k: documents of a search.
        max_searches: searches of a question; further ones are answered with a notice.
        max_turns: calls of the chain, those of the document reader not counted.
        max_tokens: limit of each reply.
        characters: of a document that the reader is shown.
    """

    def __init__(
        self,
        retriever: Retriever,
        chat: ChatModel | None = None,
        *,
        unit: Unit = "round",
        top_k: int = 10,
        max_searches: int = 5,
        max_turns: int = 15,
        max_tokens: int = 1024,
        characters: int = 3000,
    ) -> None:
        self._retriever, self._chat = retriever, chat
        self._unit: Unit = unit
        self._limits = _Limits(top_k, max_searches, max_turns, max_tokens, characters)

    @property
    def name(self) -> str:
        """The name users choose it by."""
        return "search_o1"

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a result."""
        made = {"strategy": self.name, "unit": self._unit, "top_k": self._limits.top_k}
        if self._chat is None:
            return {**made, "form": "one search", **self._retriever.config}
        return {
            **made,
            "form": "reasoning",
            "model": self._chat.name,
            "max_searches": self._limits.max_searches,
            "max_turns": self._limits.max_turns,
            "max_tokens": self._limits.max_tokens,
            "characters": self._limits.characters,
            "prompts": {name: _prompt(name).hash for name in ("reason", "read")},
            **self._retriever.config,
        }

    def build(self, history: History, ctx: Context, *, flush: bool = False) -> BuildReport:
        """Nothing: the record is the memory."""
        return BuildReport(self.name)

    def maintain(self, history: History, ctx: Context) -> BuildReport:
        """Nothing."""
        return BuildReport(self.name)

    def recall(
        self, history: History, question: str, budget: int | None, ctx: Context, *, asked_at: datetime | None = None
    ) -> Recall:
        """What the chain found useful, in the order of the history, as far as it fits the budget.

        `ranked` are the documents of the first search that found any; those of all are in `considered`. What the chain
        itself answers is in the last step, and is no evidence. When the time is up or the call is cancelled, what was
        found until then is returned and `degraded` says so.

        Raises:
            ModelError: the model could not reason or read; a failed call is never taken for "nothing useful".
        """
        run = _Run(history.corpus(self._unit), self._retriever, self._limits, ctx)
        if self._chat is None:
            candidates = run.once(question)
        else:
            candidates = run.reason(self._chat, question, asked_at) if run.corpus.size else []
        fitted = fit(candidates, budget, ctx.counter, question)
        return recalled(
            self,
            history,
            question,
            fitted,
            ctx,
            asked_at=asked_at,
            ranked=run.ranked,
            considered=run.considered,
            steps=run.steps,
            usage=run.usage,
            degraded=run.degraded,
        )


class _Run:
    """The work on one question, and what it leaves behind."""

    def __init__(self, corpus: Corpus, retriever: Retriever, limits: _Limits, ctx: Context) -> None:
        self.corpus, self._retriever, self._limits, self._ctx = corpus, retriever, limits, ctx
        self.ranked: tuple[ScoredUnit, ...] = ()
        self.considered: dict[str, None] = {}
        self.steps: list[Step] = []
        self.usage: list[Usage] = []
        self.degraded: list[Degradation] = []
        self._messages: list[ChatMessage] = []
        self._reasoning: list[str] = []
        self._queries: list[str] = []
        self._found: dict[str, Finding] = {}
        self._unread = 0
        self._unknown = 0

    def once(self, question: str) -> list[Candidate]:
        """The turns of one search with the question itself, best documents first."""
        documents = self._search(question)
        return [
            Candidate(verbatim(part.turn, rank), part.place)
            for rank, document in enumerate(documents)
            for part in document.parts
        ]

    def reason(self, chat: ChatModel, question: str, asked_at: datetime | None) -> list[Candidate]:
        """The lines found useful on the way to an answer, in the order they were found."""
        started = time.monotonic()
        prompt = _prompt("reason")
        rules = prompt.rules.replace("{max_searches}", str(self._limits.max_searches))
        now = f"Now: {format_time(asked_at)}\n" if asked_at is not None else ""
        asked = f"{now}Question: {quote(question)}\n\n{prompt.form}"
        self._messages = [ChatMessage("system", rules), ChatMessage("user", asked)]
        answer = self._chain(chat)
        if answer is not None and not self._queries:
            self._note("search_o1", "the model did not search, so there is no evidence")
        if self._unread:
            self._note("search_o1", "results were left unread: the reader's reply has no marker", self._unread)
        if self._unknown:
            self._note("search_o1", "the reader named documents that were not there", self._unknown)
        unchecked = sum(not item.sources for item in self._found.values())
        if unchecked:
            self._note("sources", "lines could not be tied to a turn and are marked unchecked", unchecked)
        detail = {"searches": len(self._queries), "lines": len(self._found), "native_answer": answer}
        self._tell("search_o1", detail, started)
        return [self._candidate(item, rank) for rank, item in enumerate(self._found.values())]

    def _chain(self, chat: ChatModel) -> str | None:
        """Think and search by turns; the answer the chain ends with, None when it doesn't come to one."""
        went_on = False
        for _ in range(self._limits.max_turns):
            if self._stopped():
                return None
            started = time.monotonic()
            reply = self._think(chat)
            if reply is None:
                return None
            step = chain.said(reply.text)
            self._reasoning.append(step.text)
            self._tell("reason", {"text": step.text, "query": step.query}, started)
            if step.query is None and (went_on or not reply.cut):
                if reply.cut:
                    self._note("search_o1", "the reasoning broke off")
                return chain.native_answer(step.text)
            went_on = step.query is None
            told = _GO_ON if step.query is None else self._look_up(chat, step.query)
            if told is None:
                return None
            if step.query is not None:
                self._reasoning.append(told)
            # Two messages of one role in a row are refused by some servers, and so are empty ones.
            self._messages += [ChatMessage("assistant", step.text or "…"), ChatMessage("user", told)]
        self._note("search_o1", "the reasoning came to no answer within its turns", self._limits.max_turns)
        return None

    def _think(self, chat: ChatModel) -> ChatReply | None:
        """The next piece of the chain; None when it has outgrown the model's window after something was found."""
        try:
            reply = chat.complete(self._messages, purpose="recall", max_tokens=self._limits.max_tokens)
        except ContextWindowError:
            if not self._queries:
                raise
            self._note("window", "the reasoning outgrew the model's context window and was ended")
            return None
        self.usage.append(reply.usage)
        return reply

    def _look_up(self, chat: ChatModel, query: str) -> str | None:
        """What goes back into the chain for a query: what helps, or a notice; None when the call was stopped."""
        key = query.casefold()
        if not key:
            return chain.result([chain.EMPTY])
        if key in self._queries:
            return chain.result([chain.REPEATED])
        if len(self._queries) >= self._limits.max_searches:
            return chain.result([chain.EXCEEDED])
        self._queries.append(key)
        documents = self._search(query)
        if not documents:
            return chain.result([chain.NOTHING])
        if self._stopped():
            return None
        lines = self._read(chat, query, documents)
        for item in lines:
            self._unknown += item.unknown
            self._found.setdefault(item.text.casefold(), item)
        return chain.result([item.text for item in lines] or [chain.NOTHING])

    def _search(self, query: str) -> list[Document]:
        started = time.monotonic()
        ranking = self._retriever.search(self.corpus, query, self._limits.top_k)
        documents = found_documents(self.corpus, ranking, query, self._limits.characters)
        self.ranked = self.ranked or ranking.items
        self.considered |= dict.fromkeys(part.turn.turn_id for document in documents for part in document.parts)
        self.degraded += ranking.degraded
        self._tell("search", {"query": query, "unit": self.corpus.unit, "found": len(documents)}, started)
        return documents

    def _read(self, chat: ChatModel, query: str, documents: list[Document]) -> list[Finding]:
        """Reason-in-Documents; when the documents don't fit the window, half of them are read, and that is noted."""
        started = time.monotonic()
        prompt, reasoning = _prompt("read"), chain.elided("\n\n".join(self._reasoning))

        def send(share: float) -> tuple[ChatReply, list[Document]]:
            shown = documents[: max(1, int(len(documents) * share))]
            messages = request(prompt, reasoning, query, shown)
            return chat.complete(messages, purpose="recall", max_tokens=self._limits.max_tokens), shown

        reply, shown = with_smaller_prompts(send)
        self.usage.append(reply.usage)
        if len(shown) < len(documents):
            self._note("window", "the model's context window holds only part of the documents of a search")
        lines = findings(reply.text, shown, cut=reply.cut)
        self._unread += lines is None
        self._tell("read", {"documents": len(shown), "lines": len(lines or ()), "marker": lines is not None}, started)
        return lines or []

    def _candidate(self, item: Finding, rank: int) -> Candidate:
        if item.first is None:
            return Candidate(Evidence(f"{item.text}{_UNCHECKED}", "rewrite", (), rank), (self.corpus.size, rank))
        turn = item.first.turn
        line = Evidence(
            item.text, "rewrite", item.sources, rank, time=turn.time, session_id=turn.session_id, received=turn.received
        )
        return Candidate(line, item.first.place)

    def _stopped(self) -> bool:
        """Whether no new work may be started; says so once."""
        cancelled = self._ctx.cancel is not None and self._ctx.cancel.is_set()
        late = self._ctx.deadline is not None and time.monotonic() >= self._ctx.deadline
        if cancelled or late:
            self._note("search_o1", "cancelled before its end" if cancelled else "out of time before its end")
        return cancelled or late

    def _note(self, part: str, reason: str, count: int | None = None) -> None:
        self.degraded.append(Degradation(part, reason, count))

    def _tell(self, name: str, detail: Mapping[str, Any], started: float) -> None:
        step = Step(name, detail, time.monotonic() - started)
        self.steps.append(step)
        if self._ctx.on_step is not None:
            self._ctx.on_step(step)


def _prompt(name: str) -> Prompt:
    return read_prompt("backread.strategies.search_o1", name)


SPECS: Final[Mapping[str, StrategySpec]] = MappingProxyType(
    {"": StrategySpec(lambda parts: SearchO1(parts.retriever, parts.chat), "reasoning that searches", unit="turn")}
)
"""By the name of the preset, "" for the design itself."""
