"""The default retrieval: text, vectors and conversational cues in one linear score.

    score = text + 2.5 dense + 2.5 session + 1.2 speaker + 1.0 time + 2.0 date - 0.4 asks

- `text`: BM25 whose term counts are spread over neighbouring turns (`Corpus.spread`), divided by ln(1 + n), so that it
  has one scale for short and long histories;
- `dense`: cosine, and `session`: the best cosine of the unit's session (`prior`);
- `speaker`: 1 for turns of the one speaker the question names; text and vectors see the question without speakers'
  names (`speaker`). Where nothing is found so, what the speakers said is;
- `time`: 1 for turns that tell a time, when the question asks for one; `date`: how well a turn fits a date the question
  names (`temporal`); `asks`: 1 for turns that are questions. Without any vector these cues count half: the rest of the
  score is then smaller by as much.

Of a large history only units near the question have a cosine (`store.ann`); the sessions of the best by text are
compared too, and the ten best are then, but for one in a hundred, those of comparing all (`benchmarks/large_user.py`).

The scores have fixed scales, so nothing is normalised by query; Bruch, Gai & Ingber, "An Analysis of Fusion Functions
for Hybrid Retrieval", TOIS 2023, find a linear combination little touched by that. How the constants were fitted, on
which data, and what each term is worth is in `docs/retrieval.md`; they are the same for every question and history.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from backread.arrays import NDArray, np
from backread.models.base import Embedder
from backread.retrieval.base import Scored, best, ranking
from backread.retrieval.bm25 import Bm25Retriever
from backread.retrieval.dense import DenseRetriever
from backread.retrieval.prior import session_prior
from backread.retrieval.speaker import named_speakers, without_names
from backread.retrieval.temporal import said_around, tells_time
from backread.store.corpus import Corpus
from backread.text.cues import ASKS, asks_when, named_dates
from backread.types import Ranking

__all__ = ["HybridRetriever", "HybridWeights"]

_LOWEST = 1e-3
_ALSO = 50  # best by text whose cosines, and those of their sessions, count whether or not they are near the question


@dataclass(frozen=True, slots=True)
class HybridWeights:
    """Constants of the score; see the module.

    `alone` is the factor on the cues without vectors; `kernel` has the shares of `Corpus.spread`.
    """

    dense: float = 2.5
    session: float = 2.5
    speaker: float = 1.2
    time: float = 1.0
    date: float = 2.0
    asks: float = -0.4
    alone: float = 0.5
    kernel: Sequence[float] = (0.6, 0.3)


_TEXT = Bm25Retriever(surface=0.0)


def _sessions_of(corpus: Corpus, units: NDArray[np.int64]) -> NDArray[np.int64]:
    """All units of the sessions of these units."""
    return np.flatnonzero(np.isin(corpus.session, corpus.session[units]))


class HybridRetriever:
    """Ranks units by text, vectors and cues. Without an embedder, or for units whose vector is pending, by the rest.

    Args:
        embedder: makes the query's vector; None leaves the dense and session terms out.
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
        """Scores of all units, the lowest just above 0; 0 for units that neither text, vectors nor a name speak for."""
        nothing = np.zeros(corpus.size, dtype=np.float32)
        named = named_speakers(question, corpus.speakers)
        words = without_names(question, named)
        terms = self._text.weights(words)
        if not corpus.size or not (terms or named):
            return Scored(nothing)
        text = self._text_scores(corpus, terms)
        matched = text > 0
        dense = Scored(np.full_like(nothing, np.nan))
        if self._dense is not None and terms:
            dense = self._dense.scores(corpus, words, top_k, lambda: _sessions_of(corpus, best(text, _ALSO)))
        cues = self._cues(corpus, question, named)
        if np.isnan(dense.scores).all():
            total = text + np.float32(self._weights.alone) * cues
        else:
            matched |= dense.scores > 0
            total = text + cues + self._weights.dense * np.nan_to_num(dense.scores)
            total += self._weights.session * np.nan_to_num(session_prior(dense.scores, corpus.session))
        if named and not matched.any():
            matched = self._named(corpus, question, named)
        if not matched.any():
            return Scored(nothing, dense.degraded)
        total += np.float32(_LOWEST) - total[matched].min()
        return Scored(np.where(matched, total, nothing).astype(np.float32), dense.degraded)

    def _named(self, corpus: Corpus, question: str, named: Sequence[str]) -> NDArray[np.bool_]:
        """Units of the named speakers, and those with a word of the question where their names count too."""
        speaking = np.isin(corpus.speaker, [corpus.speakers.index(name) for name in named])
        return speaking | (corpus.text_scores(self._text.weights(question)) > 0)

    def _text_scores(self, corpus: Corpus, terms: Mapping[str, float]) -> NDArray[np.float32]:
        # A round or session is already the sum of its turns.
        spread = corpus.unit in ("turn", "user_turn")
        scores = corpus.text_scores(
            terms,
            k1=self._text.k1,
            b=self._text.b,
            kernel=self._weights.kernel if spread else (),
        )
        return scores / np.float32(math.log1p(corpus.size))

    def _cues(self, corpus: Corpus, question: str, named: Sequence[str]) -> NDArray[np.float32]:
        weights = self._weights
        total = weights.date * said_around(corpus, named_dates(question))
        if corpus.unit in ("turn", "user_turn"):  # of a round or session the corpus knows its first turn's cues only
            if len(named) == 1:
                total += weights.speaker * (corpus.speaker == corpus.speakers.index(named[0]))
            if asks_when(question):
                total += weights.time * tells_time(corpus.cues)
            total += weights.asks * ((corpus.cues & ASKS) != 0)
        return total

    def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
        """Units by score, best first; nothing for a question without a term."""
        return ranking(corpus, self.scores(corpus, question, top_k), top_k)
