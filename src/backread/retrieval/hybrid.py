"""The default retrieval: text, vectors and conversational cues in one linear score.

    score = z(text) + 1.4 z(dense) + 4.4 speaker + 3.6 time + 7.5 date - 1.7 asks

`text` is BM25 whose term counts are spread over neighbouring turns (`Corpus.text_scores`), `dense` the cosine, both of
the question without speakers' names (`speaker`) and standardised over the corpus (z-score; Bruch, Gai & Ingber, "An
Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023, compare it with min-max). `speaker` is 1 for turns of the
one speaker the question names, `time` for turns that tell a time when it asks for one, `date` how well a turn fits a
date it names (`temporal`), `asks` 1 for turns that are questions. Rounds and sessions have the date only, and in short
histories cues count less (`_share`). How the constants were fitted, on which data, and what each term is worth is in
`docs/retrieval.md`; they are the same for every question and every history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backread.models.base import Embedder
from backread.retrieval.base import Scored, ranking
from backread.retrieval.bm25 import Bm25Retriever
from backread.retrieval.dense import DenseRetriever
from backread.retrieval.speaker import named_speakers, without_names
from backread.retrieval.temporal import date_match, tells_time
from backread.store.corpus import Corpus
from backread.text.cues import ASKS, asks_when, named_date
from backread.types import Degradation, Ranking

__all__ = ["HybridRetriever", "HybridWeights"]

_LOWEST = 1e-3
_FULL_SIZE = 30
_LEAST_SPREAD = 0.05
"""Standard deviation of cosines below which they don't tell units apart: two turns always lie one deviation off."""

_ROLES = ("system", "developer", "user", "assistant", "tool", "function", "participant")


@dataclass(frozen=True, slots=True)
class HybridWeights:
    """Constants of the score; see the module."""

    dense: float = 1.4
    speaker: float = 4.4
    time: float = 3.6
    date: float = 7.5
    asks: float = -1.7
    kernel: Sequence[float] = (0.5, 0.3)


_TEXT = Bm25Retriever(k1=0.9, b=0.4, surface=0.0)


class HybridRetriever:
    """Ranks units by text, vectors and cues. Without an embedder, or for units whose vector is pending, by the rest.

    Args:
        embedder: makes the query's vector; None leaves the dense term out.
        weights: constants of the score.
        text: the BM25 behind the text term.
    """

    def __init__(
        self,
        embedder: Embedder | None,
        *,
        weights: HybridWeights | None = None,
        text: Bm25Retriever = _TEXT,
    ) -> None:
        self._embedder = embedder
        self._dense = None if embedder is None else DenseRetriever(embedder)
        self._weights = weights or HybridWeights()
        self._text = text

    @property
    def name(self) -> str:
        """The name users choose it by."""
        return "hybrid"

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a score."""
        fingerprint = None if self._embedder is None else self._embedder.fingerprint
        text = {f"text_{name}": value for name, value in asdict(self._text).items()}
        return {"retriever": self.name, "embedder": fingerprint, **asdict(self._weights), **text}

    def scores(self, corpus: Corpus, question: str, top_k: int) -> Scored:
        """Scores of all units, the lowest just above 0; 0 for units that neither text nor vectors say anything of."""
        named = [name for name in named_speakers(question, corpus.speakers) if name not in _ROLES]
        words = without_names(question, named)
        terms = self._text.weights(words)
        if not terms or not corpus.size:
            return Scored(np.zeros(corpus.size, dtype=np.float32))
        text = corpus.text_scores(terms, k1=self._text.k1, b=self._text.b, kernel=self._kernel(corpus))
        matched = text > 0
        total = _standardised(text)
        degraded: tuple[Degradation, ...] = ()
        if self._dense is not None:
            dense = self._dense.scores(corpus, words, top_k)
            matched |= dense.scores > 0
            total += self._weights.dense * _standardised(dense.scores, least=_LEAST_SPREAD)
            degraded = dense.degraded
        total += self._cues(corpus, question, named)
        if not matched.any():
            return Scored(np.zeros(corpus.size, dtype=np.float32), degraded)
        total += _LOWEST - total[matched].min()
        return Scored(np.where(matched, total, 0).astype(np.float32), degraded)

    def _kernel(self, corpus: Corpus) -> Sequence[float]:
        return self._weights.kernel if corpus.unit in ("turn", "user_turn") else ()

    def _cues(self, corpus: Corpus, question: str, named: Sequence[str]) -> NDArray[np.float32]:
        weights = self._weights
        total = np.zeros(corpus.size, dtype=np.float32)
        date = named_date(question)
        if date is not None:
            total += weights.date * date_match(corpus.said_us, date)
        if corpus.unit in ("turn", "user_turn"):  # of a round or session the corpus knows its first turn's cues only
            if len(named) == 1:
                total += weights.speaker * (corpus.speaker == corpus.speakers.index(named[0]))
            if asks_when(question):
                total += weights.time * tells_time(corpus.cues)
            total += weights.asks * ((corpus.cues & ASKS) != 0)
        return total * _share(corpus.size)

    def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
        """Units by score, best first; nothing for a question without a term."""
        return ranking(corpus, self.scores(corpus, question, top_k), top_k)


def _share(size: int) -> float:
    """What cues weigh in a corpus of `size` units: 1 from `_FULL_SIZE` on.

    A word that one unit of n has lifts it n / sqrt(n - 1) standard deviations above the others: 2 for two units, 5.6
    for thirty. The weights are right for long histories; in a short one they shrink with what a word can do.
    """
    n = min(max(size, 2), _FULL_SIZE)
    return (n / (n - 1) ** 0.5) / (_FULL_SIZE / (_FULL_SIZE - 1) ** 0.5)


def _standardised(scores: NDArray[np.float32], least: float = 0.0) -> NDArray[np.float32]:
    """Z-scores over the units that have a score, by a deviation of at least `least`; NaN becomes the lowest of them."""
    known = ~np.isnan(scores)
    if not known.any():
        return np.zeros_like(scores)
    deviation = max(float(scores[known].std()), least)
    if deviation == 0:
        return np.zeros_like(scores)
    out = (scores - float(scores[known].mean())) / deviation
    return np.where(known, out, np.nanmin(out)).astype(np.float32)
