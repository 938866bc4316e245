"""Retrievers of the bench: one that knows the gold, and one that caps another (matched depth).

The reproduction study of LightMem, 2026, arXiv 2607.29104: the oracle reference gives all relevant units and nothing
else, a derived entry being relevant when it was built or updated from a gold turn; matched depth gives every design the
same number of units of the same retriever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from backread.errors import InvalidInputError
from backread.retrieval.base import Retriever, Scored, compares_vectors, ranking
from backread.store.corpus import Corpus
from backread.types import Ranking, Turn

__all__ = ["Capped", "OracleRetriever"]


class OracleRetriever:
    """Gives the units that hold a gold turn, in history order, whatever is asked, and no others.

    Relevant is a gold turn, a round or session with one in scope, and an entry with one among its sources. Every unit
    that is relevant has the score 1. Made for one question: a strategy that is handed it is handed the gold.

    Args:
        gold: the gold turns as they are in the record, see `datasets.evidence_turns`. Turns instead of ids: entries
            name turns by turn id, benchmarks by external id.
    """

    compares_vectors = False

    def __init__(self, gold: Sequence[Turn]) -> None:
        self._turns = tuple(dict.fromkeys(turn.turn_id for turn in gold))
        self._sessions = tuple(dict.fromkeys(turn.session_id for turn in gold))

    @property
    def name(self) -> str:
        """The name of its cells."""
        return "oracle"

    @property
    def config(self) -> Mapping[str, Any]:
        """Its name; nothing of the gold."""
        return {"retriever": self.name}

    def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
        """All relevant units in history order, at most `top_k`; the question makes no difference.

        Raises:
            InvalidInputError: `top_k` is less than 1.
        """
        scores = np.zeros(corpus.size, dtype=np.float32)
        scores[self._relevant(corpus)] = 1
        return ranking(corpus, Scored(scores), top_k)

    def _relevant(self, corpus: Corpus) -> list[int]:
        if corpus.unit == "session":
            found = corpus.find(self._sessions)
            members = corpus.turns_of(found)
            return [unit for unit, own in zip(found, members, strict=True) if self._gold(turn.turn_id for turn in own)]
        if corpus.unit == "entry":
            entries = corpus.entries(range(corpus.size))
            made = [entry.entry_id for entry in entries if self._gold(source.turn_id for source in entry.sources)]
            return corpus.find(made) if made else []
        return corpus.find(self._turns)  # of a round, any of its turns finds it

    def _gold(self, turn_ids: Iterable[str]) -> bool:
        return any(turn_id in self._turns for turn_id in turn_ids)


class Capped:
    """A retriever that gives at most `depth` units, however many are asked for.

    A search that only puts the turns of found rounds or sessions in order is capped as well: the turns after the first
    `depth` keep history order there.

    Args:
        inner: ranks the units.
        depth: units at most.

    Raises:
        InvalidInputError: `depth` is below 1.
    """

    def __init__(self, inner: Retriever, depth: int) -> None:
        if depth < 1:
            raise InvalidInputError(f"depth must be at least 1, not {depth}")
        self._inner, self._depth = inner, depth

    @property
    def name(self) -> str:
        """That of the capped retriever."""
        return self._inner.name

    @property
    def compares_vectors(self) -> bool:
        """As the capped retriever."""
        return compares_vectors(self._inner)

    @property
    def config(self) -> Mapping[str, Any]:
        """That of the capped retriever, and `capped_at`."""
        return {**self._inner.config, "capped_at": self._depth}

    def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
        """The best units, at most `depth` and at most `top_k`.

        Raises:
            InvalidInputError: `top_k` is less than 1.
        """
        return self._inner.search(corpus, question, min(top_k, self._depth))
