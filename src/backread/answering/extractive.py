"""Answering without a model: the sentences that fit the question best, quoted and cited."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from backread.arrays import np
from backread.models.base import Embedder
from backread.text.analysis import tokens
from backread.text.cues import ASKS, turn_cues
from backread.text.excerpts import sentences
from backread.text.fencing import safe
from backread.text.times import format_time
from backread.types import Answer, Citation, Evidence, Recall, Turn

__all__ = ["quote_answer"]

_LINES = 12  # best ranked lines whose sentences are compared
_RANK_DECAY = 0.03
_QUESTION_COST = 0.5  # a sentence that asks seldom answers
_COSINE_SHARE = 2.0
_WORTH = 0.6  # share of the best sentence's score a further one must reach


@dataclass(frozen=True, slots=True)
class _Span:
    number: int
    line: Evidence
    turn: Turn
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.turn.text[self.start : self.end]


def quote_answer(
    recall: Recall, turns: Mapping[str, Turn], embedder: Embedder | None = None, *, quotes: int = 3
) -> Answer:
    """The best sentences of the evidence, at most one a line and `quotes` in all, each cited; nothing is rephrased.

    Sentences are scored by the content words they share with the question, weighted by how rare a word is among
    them, by cosine with the question when an embedder is given, and by the rank of their line; sentences that ask
    count less. Those far behind the best one are left out.
    """
    spans = _spans(recall, turns)
    scores = _scores(recall.question, spans, embedder)
    best: dict[int, int] = {}
    for place in np.argsort(-scores, kind="stable").tolist():
        if not best or (len(best) < quotes and scores[place] >= _WORTH * scores.max()):
            best.setdefault(spans[place].number, place)
    chosen = [spans[place] for place in best.values()]
    lines = [
        f"“{_one_line(span.text)}” — {_one_line(span.turn.name)},"
        f" {format_time(span.line.time, received=span.line.received)} [{span.number}]"
        for span in chosen
    ]
    citations = [Citation(span.number, span.turn.turn_id, span.start, span.end, span.text) for span in chosen]
    return Answer(
        text="\n".join(lines) if lines else "The record has nothing on this.",
        citations=tuple(sorted(citations, key=lambda citation: citation.number)),
        recall=recall,
        extractive=True,
        usage=recall.usage,
        degraded=recall.degraded,
    )


def _one_line(text: str) -> str:
    return safe(" ".join(text.split()))


def _spans(recall: Recall, turns: Mapping[str, Turn]) -> list[_Span]:
    lines = sorted(enumerate(recall.evidence, 1), key=lambda item: (item[1].rank, item[0]))[:_LINES]
    spans: list[_Span] = []
    for number, line in lines:
        for source in line.sources:
            turn = turns.get(source.turn_id)
            if turn is None:
                continue
            end = len(turn.text) if source.end is None else source.end
            spans.extend(
                _Span(number, line, turn, source.start + first, source.start + last)
                for first, last in sentences(turn.text[source.start : end])
            )
    return spans


def _scores(question: str, spans: list[_Span], embedder: Embedder | None) -> np.ndarray:
    wanted = {token.stem for token in tokens(question) if not token.stop}
    found = [{token.stem for token in tokens(span.text)} & wanted for span in spans]
    frequency = Counter(stem for stems in found for stem in stems)
    # A word of the question that no sentence has still counts: the others together don't make up for it.
    rarity = {stem: math.log(1 + len(spans) / (frequency[stem] or 0.5)) for stem in wanted}
    most = sum(sorted(rarity.values())) or 1.0
    # In a fixed order: sums of floats must not depend on how a set happens to be laid out.
    scores = np.array([sum(rarity[stem] for stem in sorted(stems)) / most for stems in found], dtype=np.float64)
    if embedder is not None and spans:
        named = [f"{span.turn.speaker}: {span.text}" if span.turn.speaker else span.text for span in spans]
        vectors = embedder.embed(named)
        scores += _COSINE_SHARE * (vectors @ embedder.embed([question], kind="query")[0])
    asks = np.array([bool(turn_cues(span.text) & ASKS) for span in spans], dtype=np.float64)
    ranks = np.array([span.line.rank for span in spans], dtype=np.float64)
    return scores - _QUESTION_COST * asks - _RANK_DECAY * ranks
