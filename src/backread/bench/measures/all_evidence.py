"""AllEvidence@k: whether all gold items are among the first k.

    AllEvidence@k = 1 if every gold item is among the first k, else 0

Source: recall_all of LongMemEval (Wu et al. 2024, arXiv 2410.10813), under a name that says what it is. Never falls
when k grows.

The trap: over a question without gold "all" is vacuously true; here it is None. With more gold items than k it is 0
for every ranking, a perfect one included.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from backread.bench.measures._hits import hits

__all__ = ["all_evidence"]


def all_evidence(ranked: Sequence[str], gold: Collection[str], k: int) -> float | None:
    """AllEvidence@k, 0.0 or 1.0; None when `gold` is empty.

    Args:
        ranked: ids, best first, each once.
        gold: ids; one given twice counts once.
        k: how many of the first items count.

    Raises:
        InvalidInputError: an id is ranked twice, or `k` is below 1.

    Example:
        Of a and b only a is among the first two, both among the first three.

        >>> all_evidence(["a", "x", "b"], ["a", "b"], 2), all_evidence(["a", "x", "b"], ["a", "b"], 3)
        (0.0, 1.0)
    """
    found = hits(ranked, gold, k)
    return None if found is None else float(sum(found) == len(frozenset(gold)))
