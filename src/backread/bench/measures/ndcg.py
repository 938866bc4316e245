"""nDCG@k: gold items among the first k, each worth less the later it comes, against the best possible order.

    DCG@k  = sum over ranks i of 1 to k of gold(i) / log2(i + 1)
    nDCG@k = DCG@k / the DCG@k of a ranking that begins with all gold items

Source: Järvelin & Kekäläinen, TOIS 2002, with the discount in use since, that of trec_eval's `ndcg_cut_k`. Items are
gold or not: there are no grades. Range 0 to 1, higher is better.

The trap: several discounts go by one name. The first one, log2(i) from rank 2 on, leaves ranks 1 and 2 both in full;
LongMemEval has it, so that a single hit at rank 2 is worth 1.0 there and 0.631 here: see nDCG_LME@k (`longmemeval.py`).
Unlike R@k it may fall when k grows, because the best possible order gains too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from backread.bench.measures._hits import hits

__all__ = ["ndcg"]


def ndcg(ranked: Sequence[str], gold: Collection[str], k: int) -> float | None:
    """nDCG@k; None when `gold` is empty.

    Args:
        ranked: ids, best first, each once.
        gold: ids; one given twice counts once.
        k: how many of the first items count.

    Raises:
        InvalidInputError: an id is ranked twice, or `k` is below 1.

    Example:
        Gold at rank 2 alone, of one: (1 / log2 3) / (1 / log2 2) = 0.6309.

        >>> round(ndcg(["x", "a"], ["a"], 5), 4)
        0.6309
    """
    found = hits(ranked, gold, k)
    if found is None:
        return None
    ideal = [True] * min(k, len(frozenset(gold)))
    return _dcg(found) / _dcg(ideal)


def _dcg(found: Sequence[bool]) -> float:
    return math.fsum(1 / math.log2(rank + 1) for rank, hit in enumerate(found, 1) if hit)
