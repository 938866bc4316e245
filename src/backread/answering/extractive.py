"""Answering without a model: the sentences that fit the question best, quoted and cited."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from backread.models.base import Embedder
from backread.text.analysis import tokens
from backread.text.excerpts import sentences
from backread.text.times import format_time
from backread.types import Answer, Citation, Evidence, Recall, Turn

__all__ = ["quote_answer"]

_LINES = 12  # best ranked lines whose sentences are compared
_RANK_DECAY = 0.05


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
    them, by cosine with the question when an embedder is given, and by the rank of their line.
    """
    spans = _spans(recall, turns)
    scores = _scores(recall.question, spans, embedder)
    best: dict[int, int] = {}
    for place in np.argsort(-scores, kind="stable").tolist():
        if len(best) < quotes:
            best.setdefault(spans[place].number, place)
    chosen = [spans[place] for place in best.values()]
    lines = [
        f"“{' '.join(span.text.split())}” — {span.turn.name}, {format_time(span.line.time)} [{span.number}]"
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


def _spans(recall: Recall, turns: Mapping[str, Turn]) -> list[_Span]:
    lines = sorted(enumerate(recall.evidence, 1), key=lambda item: (item[1].rank, item[0]))[:_LINES]
    spans = []
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
    rarity = {stem: math.log(1 + len(spans) / frequency[stem]) for stem in frequency}
    most = sum(rarity.values()) or 1.0
    scores = np.array([sum(rarity[stem] for stem in stems) / most for stems in found], dtype=np.float64)
    if embedder is not None and spans:
        named = [f"{span.turn.speaker}: {span.text}" if span.turn.speaker else span.text for span in spans]
        vectors = embedder.embed(named)
        scores += 2 * (vectors @ embedder.embed([question], kind="query")[0])
    return scores - _RANK_DECAY * np.array([span.line.rank for span in spans], dtype=np.float64)
