"""Two stages: a retriever finds candidates, a reranker reads each of them with the question and puts them in order.

Nogueira & Cho, "Passage Re-ranking with BERT", 2019, arXiv 1901.04085. The number of candidates is a setting of its
own, never `top_k`: a reranker that sees only what would be returned anyway can reorder it, but bring nothing in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from backread.arrays import NDArray, np
from backread.errors import InvalidInputError, ModelError, ModelOutputError
from backread.models.base import Reranker
from backread.retrieval.base import Retriever, compares_vectors
from backread.store.corpus import Corpus
from backread.store.indexing import indexed_text
from backread.types import Degradation, Ranking, ScoredUnit

__all__ = ["DEPTH", "RerankedRetriever", "shown_texts"]

DEPTH = 50
POOL = 3
"""Candidates for each unit that is returned, where that is more than the depth."""

_LOWEST = 700.0

Scores: TypeAlias = "NDArray[np.float32]"


class RerankedRetriever:
    """Ranks the best units of a first stage by what a reranker says of them.

    The reranker is shown the text of a unit as it is indexed ("speaker: text [image: caption]", the turns of a round or
    session one a line), each different text once. Units it scored come first, by its score; then those it couldn't
    score, in the order of the first stage; equal scores keep that order too. Nothing is dropped but what is beyond
    `top_k`.

    A score of the ranking is 1 + 1 / (1 + exp(-s)) for the reranker's score s, and s / (1 + s) for the first stage's of
    what was not reranked, so that every unit keeps its place when ranked by score alone.

    Args:
        first: finds the candidates.
        reranker: scores them.
        depth: candidates that are read, or `pool` times `top_k` where that is more.
        strict: raise when the reranker fails or scores fewer than half of the candidates; otherwise the first stage's
            ranking is returned, and `degraded` says so.
        pool: candidates for each unit that is returned.

    Raises:
        InvalidInputError: `depth` or `pool` is below 1.
    """

    def __init__(
        self, first: Retriever, reranker: Reranker, *, depth: int = DEPTH, strict: bool = False, pool: int = POOL
    ) -> None:
        if min(depth, pool) < 1:
            raise InvalidInputError(f"depth and pool must be at least 1, not {depth} and {pool}")
        self._first, self._reranker = first, reranker
        self._depth, self._strict, self._pool = depth, strict, pool

    @property
    def name(self) -> str:
        """The first stage's name and "+rerank"."""
        return f"{self._first.name}+rerank"

    @property
    def compares_vectors(self) -> bool:
        """As the first stage."""
        return compares_vectors(self._first)

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a score."""
        own = {"retriever": self.name, "reranker": self._reranker.fingerprint, "depth": self._depth, "pool": self._pool}
        return {**self._first.config, **own}

    def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
        """The best units, at most `top_k`, by (reranker, first stage).

        Raises:
            InvalidInputError: `top_k` is less than 1.
            ModelError: the first stage's model can't be used; the reranker's only when `strict`.
        """
        if top_k < 1:
            raise InvalidInputError(f"top_k must be at least 1, not {top_k}")
        found = self._first.search(corpus, question, max(self._depth, self._pool * top_k))
        if not found.items:
            return found
        items, units = _present(corpus, found.items)
        texts = shown_texts(corpus, units)
        try:
            scores = self._scores(question, texts)
        except ModelError as error:
            if self._strict:
                raise
            note = Degradation("rerank", f"reranking was skipped: {error}", len(texts))
            return Ranking(items[:top_k], (*found.degraded, note))
        notes = found.degraded
        if unscored := int(np.isnan(scores).sum()):
            reason = "candidates the reranker gave no usable score stand below the others"
            notes = (*notes, Degradation("rerank", reason, unscored))
        return Ranking(_merged(items, scores)[:top_k], notes)

    def _scores(self, question: str, texts: Sequence[str]) -> Scores:
        """Scores of all texts, NaN where there is none; of at least half of them there is one."""
        distinct = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        scores = np.asarray(self._reranker.rerank(question, list(distinct)), np.float32)
        if scores.shape != (len(distinct),) or np.isinf(scores).any():
            raise ModelOutputError(
                f"reranker {self._reranker.name!r} gave scores of shape {scores.shape} for {len(distinct)} texts,"
                " or infinite ones"
            )
        scores = scores[[distinct[text] for text in texts]]
        scored = int((~np.isnan(scores)).sum())
        if 2 * scored < len(texts):
            raise ModelOutputError(f"reranker {self._reranker.name!r} scored {scored} of {len(texts)} candidates")
        return scores


def shown_texts(corpus: Corpus, units: Sequence[int]) -> list[str]:
    """The text of each unit as it is indexed; the turns of a group one a line."""
    if corpus.unit == "entry":
        return ["\n".join(entry.index_text for entry in corpus.entries([unit])) for unit in units]
    return [
        "\n".join(indexed_text(turn.speaker, turn.text, turn.caption) for turn in corpus.turns(unit)) for unit in units
    ]


def _present(corpus: Corpus, items: Sequence[ScoredUnit]) -> tuple[tuple[ScoredUnit, ...], list[int]]:
    """The items whose unit is still in the record, and those units."""
    units = corpus.find([item.unit_id for item in items])
    if len(units) == len(items):
        return tuple(items), units
    pairs = [(item, unit) for item in items for unit in corpus.find([item.unit_id])]
    return tuple(item for item, _ in pairs), [unit for _, unit in pairs]


def _merged(items: Sequence[ScoredUnit], scores: Scores) -> tuple[ScoredUnit, ...]:
    """Units by (scored, score, place in the first stage), with scores that fall in that order."""
    known = np.flatnonzero(~np.isnan(scores))
    order = [*known[np.argsort(-scores[known], kind="stable")].tolist(), *np.flatnonzero(np.isnan(scores)).tolist()]
    merged: list[ScoredUnit] = []
    ceiling = math.inf
    for place in order:
        item, score = items[place], float(scores[place])
        own = item.score / (1 + item.score) if math.isnan(score) else 1 + 1 / (1 + math.exp(-max(score, -_LOWEST)))
        ceiling = min(own, math.nextafter(ceiling, 0))
        merged.append(ScoredUnit(item.unit_id, ceiling))
    return tuple(merged)
