"""LongMemEval's own retrieval metrics, under names of their own: for comparing with its published figures only.

Wu et al. 2024, arXiv 2410.10813, and its public code.

    recall_any_LME@k = 1 if any gold item is among the first k, else 0
    recall_all_LME@k = 1 if all gold items are among the first k, else 0
    DCG_LME@k        = gold(1) + sum over ranks i of 2 to k of gold(i) / log2(i)
    nDCG_LME@k       = DCG_LME@k / the DCG_LME@k of the whole corpus sorted with gold first

The traps: neither "recall" is R@k. Ranks 1 and 2 both count in full (the discount of Järvelin & Kekäläinen 2002), so
that a hit at rank 2 costs nothing; the discount in use since is in `ndcg.py`. The figures at session level are made
from a ranking of turns whose k is raised until k different sessions are reached (`turn_to_session`): there "@5" may
look at twenty turns. In that variant every turn of a gold session is a gold item of nDCG, also one that says nothing.

Which questions: the official figures are means over 419 of the 500. The 30 abstention questions are left out, and 51
whose labelled turns are all the assistant's, because the official corpus holds user turns only. For the same figures
rank and label user turns only. A gold session is then one with a labelled user turn.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from backread.bench.measures._hits import check_ranking, hits
from backread.errors import InvalidInputError

__all__ = ["LmeScores", "ndcg_lme", "recall_all_lme", "recall_any_lme", "turn_to_session"]


class LmeScores(NamedTuple):
    """The three official metrics of one question at one k."""

    recall_any: float
    recall_all: float
    ndcg: float


def recall_any_lme(ranked: Sequence[str], gold: Collection[str], k: int) -> float | None:
    """recall_any_LME@k, 0.0 or 1.0: what others call Success@k; None when `gold` is empty.

    Raises:
        InvalidInputError: an id is ranked twice, or `k` is below 1.

    Example:
        One of two gold items is found, which is enough.

        >>> recall_any_lme(["a", "x"], ["a", "b"], 2)
        1.0
    """
    found = hits(ranked, gold, k)
    return None if found is None else float(any(found))


def recall_all_lme(ranked: Sequence[str], gold: Collection[str], k: int) -> float | None:
    """recall_all_LME@k, 0.0 or 1.0: AllEvidence@k; None when `gold` is empty, where the official code may count 1.

    Raises:
        InvalidInputError: an id is ranked twice, or `k` is below 1.

    Example:
        One of two gold items is missing.

        >>> recall_all_lme(["a", "x"], ["a", "b"], 2)
        0.0
    """
    found = hits(ranked, gold, k)
    return None if found is None else float(sum(found) == len(frozenset(gold)))


def ndcg_lme(ranked: Sequence[str], gold: Collection[str], k: int) -> float | None:
    """nDCG_LME@k, 0 to 1; None when `gold` is empty, where the official code counts 0.

    Args:
        ranked: ids, best first, each once.
        gold: ids, all of them in the corpus.
        k: how many of the first items count.

    Raises:
        InvalidInputError: an id is ranked twice, or `k` is below 1.

    Example:
        A single hit at rank 2 isn't discounted: log2 2 = 1. At rank 3 it is worth 1 / log2 3 = 0.6309.

        >>> ndcg_lme(["x", "a"], ["a"], 5), round(ndcg_lme(["x", "y", "a"], ["a"], 5), 4)
        (1.0, 0.6309)
    """
    found = hits(ranked, gold, k)
    if found is None:
        return None
    return _dcg(found) / _dcg([True] * min(k, len(frozenset(gold))))


def turn_to_session(
    ranked: Sequence[str], gold: Collection[str], k: int, session_of: Mapping[str, str]
) -> LmeScores | None:
    """The three metrics of sessions from a ranking of turns; None when `gold` is empty.

    The ranking is read until k different sessions are reached, at least k turns. Gold sessions are those of the gold
    turns; for nDCG every turn of a gold session counts, in the ranking and in the ideal.

    Args:
        ranked: turn ids, best first, each once. The official code ranks the whole corpus; a shorter ranking counts as
            it is, and may end before k sessions.
        gold: turn ids.
        k: how many different sessions.
        session_of: the session of every turn of the corpus; its keys are the corpus.

    Raises:
        InvalidInputError: a turn is ranked twice or isn't in the corpus, or `k` is below 1.

    Example:
        For k = 2 the turns s1:1, s1:2 and s2:1 are read, the last of them of the gold session s2. recall_any and
        recall_all are 1. s2 has two turns, one of them read, at rank 3: DCG = 1 / log2 3 = 0.6309, ideal 1 + 1 = 2.

        >>> session_of = {"s1:1": "s1", "s1:2": "s1", "s2:1": "s2", "s2:2": "s2"}
        >>> scores = turn_to_session(["s1:1", "s1:2", "s2:1", "s2:2"], ["s2:2"], 2, session_of)
        >>> scores.recall_any, scores.recall_all, round(scores.ndcg, 4)
        (1.0, 1.0, 0.3155)
    """
    check_ranking(ranked, k)
    if unknown := [turn_id for turn_id in (*ranked, *gold) if turn_id not in session_of]:
        raise InvalidInputError(f"turn {unknown[0]!r} has no session", hint="give the session of every turn")
    wanted = {session_of[turn_id] for turn_id in gold}
    if not wanted:
        return None
    sessions = [session_of[turn_id] for turn_id in ranked]
    depth = _depth(sessions, k, len(session_of))
    found = [session in wanted for session in sessions[:depth]]
    reached = wanted.intersection(sessions[:depth])
    in_gold_sessions = sum(session in wanted for session in session_of.values())
    ideal = [True] * min(depth, in_gold_sessions)
    return LmeScores(float(bool(reached)), float(reached == wanted), _dcg(found) / _dcg(ideal))


def _depth(sessions: Sequence[str], k: int, corpus: int) -> int:
    """How many turns are read until `k` different sessions are reached; the whole corpus when they never are."""
    seen: set[str] = set()
    for rank, session in enumerate(sessions, 1):
        seen.add(session)
        if len(seen) == k:
            return rank
    return max(k, corpus)


def _dcg(found: Sequence[bool]) -> float:
    return math.fsum(1 / math.log2(max(rank, 2)) for rank, hit in enumerate(found, 1) if hit)
