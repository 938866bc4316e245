"""What a retriever must do, and what scorers share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from backread.arrays import NDArray, np
from backread.errors import InvalidInputError
from backread.store.corpus import Corpus
from backread.types import Degradation, Ranking, ScoredUnit

__all__ = ["Retriever", "Scored", "Scorer", "best", "compares_vectors", "ranking"]


@runtime_checkable
class Retriever(Protocol):
    """Ranks the units of a corpus for a question."""

    @property
    def name(self) -> str:
        """What users call it ("bm25", "hybrid")."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a score, for records."""
        ...

    def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
        """The best units, at most `top_k`, by (score desc, time asc, position asc).

        A unit that matches in no way is not returned, so the ranking may be shorter than `top_k`, or empty: for an
        empty corpus, or a question without a term. What could not be used (a model that is down, vectors that are
        pending) is in `degraded`.

        Raises:
            InvalidInputError: `top_k` is less than 1.
        """
        ...


def compares_vectors(retriever: Retriever) -> bool:
    """False when a retriever says, by `compares_vectors = False`, that pending vectors make no difference to it."""
    return bool(getattr(retriever, "compares_vectors", True))


@dataclass(frozen=True, slots=True)
class Scored:
    """A score for every unit of a corpus: float32 (size,), NaN where the scorer can't say, 0 for no match."""

    scores: NDArray[np.float32]
    degraded: tuple[Degradation, ...] = ()


class Scorer(Protocol):
    """Scores every unit; what fusion and context work on."""

    @property
    def name(self) -> str:
        """As `Retriever.name`."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """As `Retriever.config`."""
        ...

    def scores(self, corpus: Corpus, question: str, top_k: int) -> Scored:
        """Scores of all units; those of the `top_k` best are exact, others may be lower than they would be."""
        ...


def best(scores: NDArray[np.float32], top_k: int) -> NDArray[np.int64]:
    """Units with a score above 0, best first, at most `top_k`; ties keep history order. NaN is no score.

    Raises:
        InvalidInputError: `top_k` is less than 1.
    """
    if top_k < 1:
        raise InvalidInputError(f"top_k must be at least 1, not {top_k}")
    matching = np.flatnonzero(scores > 0)
    if len(matching) > top_k:
        floor = np.partition(scores[matching], -top_k)[-top_k]
        matching = matching[scores[matching] >= floor]
    return matching[np.argsort(-scores[matching], kind="stable")][:top_k]


def ranking(corpus: Corpus, scored: Scored, top_k: int) -> Ranking:
    """The ranking a scored corpus gives; units that were deleted since the corpus was read are left out."""
    units: list[int] = best(scored.scores, top_k).tolist()
    ids = corpus.unit_ids(units)
    if len(ids) == len(units):
        named = list(zip(ids, units, strict=True))
    else:
        named = [(unit_id, unit) for unit in units for unit_id in corpus.unit_ids([unit])]
    items = tuple(ScoredUnit(unit_id, float(scored.scores[unit])) for unit_id, unit in named)
    return Ranking(items, scored.degraded)
