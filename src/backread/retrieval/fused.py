"""Two scorers merged into one retriever, by rank or by score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from backread.arrays import np
from backread.retrieval.base import Scored, Scorer, ranking
from backread.retrieval.fusion import interpolation, reciprocal_rank_fusion
from backread.store.corpus import Corpus
from backread.types import Ranking

__all__ = ["FusedRetriever"]


_LOWEST = 1e-9


class FusedRetriever:
    """Ranks units by the fused scores of two scorers.

    Args:
        first, second: what to merge, usually text and vectors.
        method: "rrf" for reciprocal rank fusion, "interpolation" for the mean of min-max normalised scores.
        alpha: share of `first` in the interpolation.
        k: constant of reciprocal rank fusion.
        depth: ranks of each list that count in it, or `top_k` where that is more.
    """

    def __init__(
        self,
        first: Scorer,
        second: Scorer,
        method: Literal["rrf", "interpolation"],
        *,
        alpha: float = 0.5,
        k: int = 60,
        depth: int = 100,
    ) -> None:
        self._first, self._second = first, second
        self._method = method
        self._alpha, self._k, self._depth = alpha, k, depth

    @property
    def name(self) -> str:
        """The name users choose it by."""
        return self._method

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a score."""
        own = {"alpha": self._alpha} if self._method == "interpolation" else {"k": self._k, "depth": self._depth}
        return {**self._first.config, **self._second.config, "retriever": self.name, **own}

    def scores(self, corpus: Corpus, question: str, top_k: int) -> Scored:
        """Fused scores of all units; 0 for units no scorer matched."""
        wanted = max(top_k, self._depth)
        first = self._first.scores(corpus, question, wanted)
        # Min and max are those of all units only when all are scored.
        second = self._second.scores(corpus, question, corpus.size if self._method == "interpolation" else wanted)
        if self._method == "interpolation":
            fused = interpolation(first.scores, second.scores, self._alpha)
        else:
            fused = reciprocal_rank_fusion([first.scores, second.scores], k=self._k, depth=wanted)
        matched = (first.scores > 0) | (second.scores > 0)
        # The lowest of both lists has 0 when normalised, and still is a match.
        scores = np.where(matched, np.maximum(fused, np.float32(_LOWEST)), np.float32(0))
        return Scored(scores, first.degraded + second.degraded)

    def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
        """Units by fused score, best first."""
        return ranking(corpus, self.scores(corpus, question, top_k), top_k)
