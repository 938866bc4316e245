"""Topic segments of a session: cut where neighbouring utterances are least alike.

LeanMem, section 3.2, "Topic Segmentation", equations 1 and 2, in the line of TextTiling (Hearst 1997). With s_i the
cosine of utterances i and i+1, the depth of the valley at i is

    d_i = mean(s_{i-w} … s_{i-1}) + mean(s_{i+1} … s_{i+w}) - 2 s_i

where both windows are complete, and there is a boundary after utterance i when d_i is a local maximum and at least
mean(D) + 0.05 std(D). The paper says neither what w is nor how ties, ends and the deviation are meant: see
`boundaries`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from backread.models.base import Embedder
from backread.store.indexing import passage_text
from backread.text.analysis import tokens
from backread.types import Turn

__all__ = ["Segment", "boundaries", "similarities", "split", "valley_depths", "word_cosine"]

DEVIATIONS = 0.05
"""How many standard deviations above the mean a valley must be."""

_PLACES = 9  # depths that differ less are a plateau: sums of floats depend on their order
_COSINE_PLACES = 4  # as in retrieval: a vector differs a little with the batch it was made in
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a session about one topic.

    Attributes:
        utterances: those that were compared, at least one.
        turns: all turns from the first utterance to the one before the next segment's first.
    """

    utterances: tuple[Turn, ...]
    turns: tuple[Turn, ...]


def valley_depths(similarities: Sequence[float], w: int) -> dict[int, float]:
    """D: the depth at each similarity, by its 0-based number, whose windows of `w` are complete on both sides.

    Raises:
        ValueError: `w` is below 1.
    """
    if w < 1:
        raise ValueError(f"w is a number of similarities from 1 on, not {w}")
    return {
        i: round(
            math.fsum(similarities[i - w : i]) / w
            + math.fsum(similarities[i + 1 : i + 1 + w]) / w
            - 2 * similarities[i],
            _PLACES,
        )
        for i in range(w, len(similarities) - w)
    }


def boundaries(similarities: Sequence[float], w: int) -> list[int]:
    """The 0-based numbers of the utterances after which a new segment begins, ascending.

    A local maximum is a value, or a run of equal ones, above what stands beside it; of a run the leftmost counts, and
    at the ends of D there is one neighbour only. A single depth has none: it is a boundary when it is above 0. The
    deviation is that of a population (ddof 0). The first and the last segment have at least w + 1 utterances; fewer
    than 2w + 2 utterances are one segment.

    Args:
        similarities: of neighbours: one fewer than there are utterances.
        w: similarities on each side that a valley is measured against, from 1 on.
    """
    depths = valley_depths(similarities, w)
    if len(depths) < 2:
        return [i for i, depth in depths.items() if depth > 0]
    values = np.array(list(depths.values()))
    threshold = float(values.mean() + DEVIATIONS * values.std())
    return [i for i in _local_maxima(depths) if depths[i] >= threshold - _TOLERANCE]


def _local_maxima(depths: Mapping[int, float]) -> list[int]:
    runs = [list(run) for _, run in groupby(depths.items(), key=lambda item: item[1])]
    levels = [-math.inf, *(run[0][1] for run in runs), -math.inf]
    if len(runs) == 1:
        return []  # everything is equally deep
    return [run[0][0] for place, run in enumerate(runs, 1) if levels[place] > max(levels[place - 1], levels[place + 1])]


def similarities(texts: Sequence[str], embedder: Embedder | None) -> list[float]:
    """The cosine of each text with the next one; of their words where there is no embedder.

    Raises:
        ModelError: the embedder can't be used.
    """
    if len(texts) < 2:
        return []
    if embedder is None:
        counts = [_counts(text) for text in texts]
        return [_cosine(one, other) for one, other in pairwise(counts)]
    vectors = embedder.embed(texts)
    return [round(float(value), _COSINE_PLACES) for value in np.sum(vectors[:-1] * vectors[1:], axis=1)]


def word_cosine(one: str, other: str) -> float:
    """The cosine of two texts as counts of stems, function words left out; 0 where one has none."""
    return _cosine(_counts(one), _counts(other))


def _counts(text: str) -> Counter[str]:
    return Counter(token.stem for token in tokens(text) if not token.stop)


def _cosine(one: Counter[str], other: Counter[str]) -> float:
    length = math.sqrt(sum(count**2 for count in one.values()) * sum(count**2 for count in other.values()))
    shared = sum(count * other[stem] for stem, count in one.items())
    return round(shared / length, _COSINE_PLACES) if length else 0.0


def split(turns: Sequence[Turn], utterances: Sequence[Turn], embedder: Embedder | None, w: int) -> list[Segment]:
    """The segments of a session, in order; none without an utterance.

    Args:
        turns: all visible turns of the session, in order.
        utterances: those that are compared, in the same order.
        embedder: makes their vectors; what is longer than it reads is compared by its beginning.
        w: see `boundaries`.

    Raises:
        ModelError: the embedder can't be used.
    """
    if not utterances:
        return []
    texts = [passage_text(turn.text, turn.caption) for turn in utterances]
    cuts = [0, *(i + 1 for i in boundaries(similarities(texts, embedder), w)), len(utterances)]
    place = {turn.turn_id: number for number, turn in enumerate(turns)}
    starts = [*(place[utterances[cut].turn_id] for cut in cuts[:-1]), len(turns)]
    return [
        Segment(tuple(utterances[first:end]), tuple(turns[start:stop]))
        for (first, end), (start, stop) in zip(pairwise(cuts), pairwise(starts), strict=True)
    ]
