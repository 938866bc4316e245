"""R@k: the share of the gold items that are among the first k.

    R@k = |gold and among the first k| / |gold|

Source: trec_eval `recall_k`, ir_measures `R@k`. Range 0 to 1, higher is better; never falls when k grows.

The trap: "recall@k" often means that *any* gold item is among the first k. That is Success@k (`success.py`), and "all
of them" is AllEvidence@k (`all_evidence.py`). k counts items of the level that is measured: R@5 of turns and R@5 of
sessions don't compare.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from backread.bench.measures._hits import hits

__all__ = ["recall"]


def recall(ranked: Sequence[str], gold: Collection[str], k: int) -> float | None:
    """R@k; None when `gold` is empty.

    Args:
        ranked: ids, best first, each once.
        gold: ids; one given twice counts once.
        k: how many of the first items count.

    Raises:
        InvalidInputError: an id is ranked twice, or `k` is below 1.

    Example:
        Of the gold a, b, c and d, only a is among the first two: 1/4.

        >>> recall(["a", "x", "b"], ["a", "b", "c", "d"], 2)
        0.25
    """
    found = hits(ranked, gold, k)
    return None if found is None else sum(found) / len(frozenset(gold))
