"""A session's share in the score of its turns: a turn counts more in a session that fits the question."""

from __future__ import annotations

from backread.arrays import NDArray, np

__all__ = ["session_prior"]


def session_prior(scores: NDArray[np.float32], session: NDArray[np.int32]) -> NDArray[np.float32]:
    """For each unit the best score of its session, float32 (n,); NaN where no unit of the session has a score.

    A document's evidence for its passages, as in Callan, "Passage-Level Evidence in Document Retrieval", SIGIR 1994,
    section 4; differs in that the document's score is that of its best passage. `session` is ascending.
    """
    if not len(scores):
        return scores.astype(np.float32)
    best = np.full(int(session.max()) + 1, -np.inf, dtype=np.float32)
    np.fmax.at(best, session, scores)
    best[np.isneginf(best)] = np.nan
    return best[session]
