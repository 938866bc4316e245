"""RR: one over the rank of the first gold item.

    RR = 1 / (rank of the first gold item), 0 when none is ranked

Source: Voorhees, TREC-8 1999; trec_eval `recip_rank`, ir_measures `RR`. Range 0 to 1, higher is better. Its mean over
questions is MRR.

The trap: it stops at the first gold item, so a question that needs three turns looks served by one. And it depends on
how long the ranking is: "RR" without a cut-off means the ranking as given, which records keep to 50 items.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from backread.bench.measures._hits import hits

__all__ = ["reciprocal_rank"]


def reciprocal_rank(ranked: Sequence[str], gold: Collection[str], k: int | None = None) -> float | None:
    """RR, or RR@k; None when `gold` is empty.

    Args:
        ranked: ids, best first, each once.
        gold: ids.
        k: how many of the first items count; None is all.

    Raises:
        InvalidInputError: an id is ranked twice, or `k` is below 1.

    Example:
        The first gold item has rank 3: 1/3; within two there is none.

        >>> round(reciprocal_rank(["x", "y", "b", "a"], ["a", "b"]), 4), reciprocal_rank(["x", "y", "b"], ["b"], 2)
        (0.3333, 0.0)
    """
    found = hits(ranked, gold, k)
    if found is None:
        return None
    return 1 / (found.index(True) + 1) if True in found else 0.0
