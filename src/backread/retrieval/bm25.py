"""BM25 over stems and surface forms.

Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, section 3. Differs from the paper
in the idf (see `text.bm25`), in that the exact form of a word and the joined form of an identifier are terms of their
own with a weight, and in that stop words weigh less instead of being dropped: a question of stop words still finds
the turn that says just that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from backread.retrieval.base import Scored, ranking
from backread.store.corpus import Corpus
from backread.text.analysis import query_terms
from backread.types import Ranking

__all__ = ["Bm25Retriever"]

_EXACT_UNTIL = 20_000
"""Units up to which every posting is read. Above, MaxScore finds the best ones and the rest is left out."""


@dataclass(frozen=True, slots=True)
class Bm25Retriever:
    """Ranks units by weighted BM25.

    Attributes:
        k1, b: saturation of term frequency, and how much length counts.
        surface: weight of a word's exact form beside its stem.
        compound: weight of an identifier's joined form beside its parts.
        stop: factor on the weight of stop words.
    """

    k1: float = 1.2
    b: float = 0.75
    surface: float = 0.3
    compound: float = 1.0
    stop: float = 0.1

    compares_vectors: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name users choose it by."""
        return "bm25"

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a score."""
        return {"retriever": self.name, **asdict(self)}

    def weights(self, question: str) -> dict[str, float]:
        """Terms of a question with their weights, in order of appearance; empty when it has no term."""
        kinds = {"stem": 1.0, "surface": self.surface, "compound": self.compound}
        return {term.term: kinds[term.kind] * (self.stop if term.stop else 1.0) for term in query_terms(question)}

    def scores(self, corpus: Corpus, question: str, top_k: int) -> Scored:
        """BM25 of every unit; 0 where no term occurs."""
        weights = self.weights(question)
        if corpus.size <= _EXACT_UNTIL:
            return Scored(corpus.text_scores(weights, k1=self.k1, b=self.b))
        return Scored(corpus.top_text(weights, top_k, k1=self.k1, b=self.b))

    def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
        """Units that hold at least one term of the question, best first."""
        return ranking(corpus, self.scores(corpus, question, max(1, top_k)), top_k)
