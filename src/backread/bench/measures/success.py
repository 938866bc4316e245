"""Success@k: whether any gold item is among the first k.

    Success@k = 1 if a gold item is among the first k, else 0

Source: trec_eval `success_k`, ir_measures `Success@k`. Never falls when k grows.

The trap: often published as "recall@k" or "hit rate", and as recall_any in LongMemEval. It equals R@k only where a
question has one gold item. A question that needs two turns is not answered by one: see AllEvidence@k.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from backread.bench.measures._hits import hits

__all__ = ["success"]


def success(ranked: Sequence[str], gold: Collection[str], k: int) -> float | None:
    """Success@k, 0.0 or 1.0; None when `gold` is empty.

    Args:
        ranked: ids, best first, each once.
        gold: ids.
        k: how many of the first items count.

    Raises:
        InvalidInputError: an id is ranked twice, or `k` is below 1.

    Example:
        b is third: no success within two, one within three.

        >>> success(["x", "y", "b"], ["a", "b"], 2), success(["x", "y", "b"], ["a", "b"], 3)
        (0.0, 1.0)
    """
    found = hits(ranked, gold, k)
    return None if found is None else float(any(found))
