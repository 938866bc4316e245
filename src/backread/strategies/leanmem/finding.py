"""What a question finds: entries of each kind, scored as the plan says, and turns of what is not built.

LeanMem, section 3.4, equation 9: score(q, m) = w_c [Rel_c(q, m) + Match(C_q, m)].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from backread.construction.ledger import Ledger, standing
from backread.construction.sessions import together
from backread.models.base import Embedder
from backread.retrieval.base import Retriever
from backread.retrieval.dense import cosines
from backread.store.corpus import Corpus
from backread.store.history import History, Scope
from backread.store.indexing import indexed_text
from backread.strategies.leanmem.dating import Days, day_of, days_in
from backread.strategies.leanmem.design import Shelf
from backread.strategies.leanmem.events import Events, spans
from backread.strategies.leanmem.matching import match
from backread.strategies.leanmem.planning import Plan
from backread.types import Degradation, Entry, ScoredUnit, Turn

__all__ = ["Finder", "FoundEntry", "FoundTurn", "Memories", "Question", "memories", "memory_text"]

RAW_TURNS = 50
"""Turns of sessions without entries that are looked at."""

_LATEST = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Memories:
    """What a view of the record has to show.

    Attributes:
        entries: those that are up to date, by shelf and kind, then by id.
        unbuilt: sessions without, in history order.
    """

    entries: Mapping[tuple[Shelf, str], Mapping[str, Entry]]
    unbuilt: tuple[str, ...]

    @property
    def forms(self) -> list[str]:
        """Who wrote them: "model", "rules", both, or nobody."""
        return list(dict.fromkeys(shelf.form for shelf, _ in self.entries))


def memories(history: History, shelves: Sequence[Shelf], kinds: Sequence[str]) -> Memories:
    """The memories of a view. Of a session that is on several shelves, the first one counts.

    An evolved event is there while all sessions it rests on are up to date and in the view; else its parts are, those
    of which that holds.
    """
    found: dict[tuple[Shelf, str], Mapping[str, Entry]] = {}
    covered: set[str] = set()
    sessions: list[str] | None = None
    for shelf in shelves:
        _, state = history.strategy_state(shelf.strategy)
        if sessions is not None and not Ledger.read(state, shelf.form).built:
            continue
        now = standing(history, shelf.strategy, ledger=shelf.form, recipe=shelf.recipe)
        if sessions is None:
            known = {*now.built, *now.unbuilt}
            sessions = [item.session_id for item in history.sessions() if item.session_id in known]
        own = set(now.built) - covered
        covered |= own
        if own:
            found |= _on_shelf(history, shelf, kinds, own)
    return Memories(found, tuple(session_id for session_id in sessions or () if session_id not in covered))


def _on_shelf(
    history: History, shelf: Shelf, kinds: Sequence[str], sessions: set[str]
) -> dict[tuple[Shelf, str], Mapping[str, Entry]]:
    there = [entry for entry in history.entries(shelf.strategy) if sessions.issuperset(entry.data["sessions"])]
    found: dict[tuple[Shelf, str], Mapping[str, Entry]] = {}
    for kind in kinds:
        own = [entry for entry in there if entry.kind == shelf.kind(kind)]
        current = Events(own).current if kind == "event" else own
        if current:
            found[shelf, kind] = {entry.entry_id: entry for entry in current}
    return found


@dataclass(frozen=True, slots=True)
class FoundEntry:
    """An entry with its score; `kind` is the memory type."""

    entry: Entry
    kind: str
    score: float


@dataclass(frozen=True, slots=True)
class FoundTurn:
    """A turn of a session without entries, with its score."""

    turn: Turn
    score: float


class Question:
    """A question and its vector, which is made at its first use; None without an embedder."""

    def __init__(self, text: str, embedder: Embedder | None) -> None:
        self.text = text
        self._embedder = embedder

    @cached_property
    def vector(self) -> NDArray[np.float32] | None:
        """See the class.

        Raises:
            ModelError: the embedder can't be used.
        """
        return None if self._embedder is None else self._embedder.embed([self.text], kind="query")[0]


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds entries and turns.

    Attributes:
        retriever: ranks them.
        embedder: gives the cosines that are Rel. Without one, Rel is the share of the retriever's best score.
    """

    retriever: Retriever
    embedder: Embedder | None

    def question(self, text: str) -> Question:
        """A question as the other methods take it."""
        return Question(text, self.embedder)

    def entries(
        self, history: History, question: Question, there: Memories, plan: Plan
    ) -> tuple[list[FoundEntry], tuple[Degradation, ...]]:
        """The entries a plan asks for, best first; equal scores by time, then by id.

        Raises:
            ModelError: the embedder can't be used.
        """
        found: list[FoundEntry] = []
        degraded: list[Degradation] = []
        for kind, depth in plan.depths.items():
            scored: list[FoundEntry] = []
            for shelf in [shelf for shelf, own in there.entries if own == kind]:
                own = there.entries[shelf, kind]
                corpus = history.corpus((shelf.strategy, shelf.kind(kind)))
                ranking = self.retriever.search(corpus, question.text, max(1, corpus.size))
                degraded += ranking.degraded
                items = [item for item in ranking.items if item.unit_id in own][:depth]
                entries = [own[item.unit_id] for item in items]
                rel = self._relevance(corpus, question, items, [entry.index_text for entry in entries])
                for entry, near in zip(entries, rel, strict=True):
                    fits = match(plan.constraints, memory_text(entry, kind), _days(entry, kind))
                    scored.append(FoundEntry(entry, kind, plan.weights[kind] * (near + fits)))
            found += _distinct(sorted(scored, key=_best_first))[:depth]
        return sorted(found, key=_best_first), together(degraded)

    def turns(
        self, history: History, question: Question, there: Memories, plan: Plan
    ) -> tuple[list[FoundTurn], tuple[Degradation, ...]]:
        """The best turns of sessions without entries, best first.

        What no scheduler has read may be of any kind, so the greatest weight of the plan counts. The best turn has its
        own cosine as Rel, the others as much of it as their share of the retriever's best score: their order stays.

        Raises:
            ModelError: the embedder can't be used.
        """
        if not there.unbuilt:
            return [], ()
        corpus = history.corpus("turn", Scope(session_ids=there.unbuilt))
        ranking = self.retriever.search(corpus, question.text, RAW_TURNS)
        units = corpus.find([item.unit_id for item in ranking.items])
        turns = {turn.turn_id: turn for own in corpus.turns_of(units) for turn in own}
        items = [item for item in ranking.items if item.unit_id in turns]
        if not items:
            return [], ranking.degraded
        texts = [indexed_text(turn.speaker, turn.text, turn.caption) for turn in map(turns.get, _ids(items)) if turn]
        (near,) = self._relevance(corpus, question, items[:1], texts[:1])
        weight = max(plan.weights.values(), default=1.0)
        found = []
        for item, text in zip(items, texts, strict=True):
            turn = turns[item.unit_id]
            fits = match(plan.constraints, text, days_in(day_of(turn.time)))
            found.append(FoundTurn(turn, weight * (near * _share(item, items) + fits)))
        return sorted(found, key=lambda one: -one.score), ranking.degraded

    def _relevance(
        self, corpus: Corpus, question: Question, items: Sequence[ScoredUnit], texts: Sequence[str]
    ) -> list[float]:
        """Rel of each item, in [0, 1]; what has no vector yet is embedded for the question alone."""
        query = question.vector if items else None
        if query is None or self.embedder is None:
            return [_share(item, items) for item in items]
        units = corpus.find(_ids(items))
        known = np.full(len(items), np.nan, dtype=np.float32)
        if len(units) == len(items):
            known = cosines(corpus, self.embedder.fingerprint, query).scores[units]
        missing: list[int] = np.flatnonzero(np.isnan(known)).tolist()
        if missing:
            known[missing] = self.embedder.embed([texts[place] for place in missing]) @ query
        return [min(1.0, max(0.0, round(float(value), 4))) for value in known]


def _distinct(found: Sequence[FoundEntry]) -> list[FoundEntry]:
    """The entries without those that say the same as a better one, as a profile that is told again and again."""
    said: dict[str, FoundEntry] = {}
    for one in found:
        said.setdefault(one.entry.index_text.casefold(), one)
    return list(said.values())


def memory_text(entry: Entry, kind: str) -> str:
    """What of an entry can meet a constraint: attribute and value; topic, states and dates; gist and keywords."""
    data = entry.data
    if kind == "profile":
        return f"{data['who']} {data['attribute']} {data['value']}"
    if kind == "event":
        states = [f"{item['t']} {item['state']}" for item in data.get("timeline", ())]
        return " ".join([data["topic"], data["anchor"], data["state"], *states])
    return " ".join([data["gist"], *data["keywords"]]) if kind == "record" else str(data["summary"])


def _days(entry: Entry, kind: str) -> list[Days]:
    return spans(entry) if kind == "event" else days_in(day_of(entry.said_at))


def _ids(items: Sequence[ScoredUnit]) -> list[str]:
    return [item.unit_id for item in items]


def _share(item: ScoredUnit, items: Sequence[ScoredUnit]) -> float:
    """A score as a share of the best one; retrievers give scores above 0."""
    return item.score / max(one.score for one in items)


def _best_first(found: FoundEntry) -> tuple[float, datetime, str]:
    return -found.score, found.entry.said_at or _LATEST, found.entry.entry_id
