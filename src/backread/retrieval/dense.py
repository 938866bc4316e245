"""Dense retrieval: cosine of the question with each unit's best passage.

Bi-encoder as in Reimers & Gurevych, "Sentence-BERT", EMNLP 2019; units longer than the model reads are cut into
passages and scored by the best one (MaxP, Dai & Callan, SIGIR 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from backread.arrays import NDArray, np
from backread.models.base import Embedder
from backread.retrieval.base import Scored, ranking
from backread.store.corpus import Corpus
from backread.text.analysis import query_terms
from backread.types import Degradation, Ranking

__all__ = ["DenseRetriever", "cosines"]

_PLACES = 4


def cosines(
    corpus: Corpus,
    fingerprint: str,
    query: NDArray[np.float32],
    top_k: int | None = None,
    also: Callable[[], NDArray[np.int64]] | None = None,
) -> Scored:
    """Cosine of every unit, NaN for units without a vector; says how many those are.

    With `top_k`, of a large corpus only units that may be among the best, and those `also` gives, have one; it says so.

    Rounded to four places: the same text may differ in the seventh by the batch it was embedded in and the row it is
    read from, and turns that say the same must tie.
    """
    scores, missing, notes = corpus.vector_scores(fingerprint, query, top_k, also)
    pending = Degradation("dense", "turns without a vector yet were ranked by text only", missing)
    return Scored(scores.round(_PLACES), ((pending,) if missing else ()) + notes)


class DenseRetriever:
    """Ranks units by cosine. Units without a vector are left out, and said to be."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def name(self) -> str:
        """The name users choose it by."""
        return "dense"

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a score."""
        return {"retriever": self.name, "embedder": self._embedder.fingerprint}

    def scores(
        self, corpus: Corpus, question: str, top_k: int, also: Callable[[], NDArray[np.int64]] | None = None
    ) -> Scored:
        """See `cosines`; a question without a term matches nothing."""
        if not corpus.size or not query_terms(question):
            return Scored(np.zeros(corpus.size, dtype=np.float32))
        query = self._embedder.embed([question], kind="query")[0]
        return cosines(corpus, self._embedder.fingerprint, query, top_k, also)

    def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
        """Units by cosine, best first; those at a right angle or beyond don't match."""
        return ranking(corpus, self.scores(corpus, question, top_k), top_k)
