"""A session's share in the score of its turns: a turn counts more in a session that fits the question as a whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["session_prior"]


def session_prior(scores: NDArray[np.float32], session: NDArray[np.int32], best: int = 3) -> NDArray[np.float32]:
    """For each unit the mean of the `best` highest scores of its session (fewer where it is shorter), float32 (n,).

    Document evidence for passages as in Callan, "Passage-Level Evidence in Document Retrieval", SIGIR 1994, section 4;
    differs in that the document's score is made from its passages.
    """
    if not len(scores):
        return scores.astype(np.float32)
    order = np.lexsort((-scores, session))
    starts = np.flatnonzero(np.diff(session[order], prepend=session[order][0] - 1))
    place = np.arange(len(scores)) - np.repeat(starts, np.diff([*starts, len(scores)]))
    top = place < best
    group = np.repeat(np.arange(len(starts)), np.diff([*starts, len(scores)]))
    mean = np.bincount(group[top], scores[order][top]) / np.bincount(group[top])
    out = np.empty(len(scores), dtype=np.float32)
    out[order] = mean[group]
    return out
