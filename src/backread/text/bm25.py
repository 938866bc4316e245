"""The BM25 formula on arrays (Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009).

The score of a document is the sum over query terms t of `idf(df_t, n) * term_scores(tf_td, dl_d, avgdl)` (their section
3.4.3, equation 3.15, without the factor for repeated query terms).

Differs from the paper in the idf: theirs (Okapi's), ln((n - df + .5) / (df + .5)), is zero for a term in half of the
documents and negative beyond, so in a store of two turns the word that only one of them has would weigh nothing. Ours
has +1 inside the logarithm, as Lucene does, and is positive for every term.
"""

from __future__ import annotations

from backread.arrays import ArrayLike, NDArray, np

__all__ = ["idf", "term_scores"]


def idf(df: ArrayLike, n: int) -> NDArray[np.float64]:
    """Inverse document frequency, ln(1 + (n - df + .5) / (df + .5)); same shape as `df`, float64, always positive.

    Args:
        df: in how many documents each term occurs, 0 <= df <= n.
        n: documents in the collection.

    Raises:
        ValueError: when a `df` is negative or above `n`: the counts then come from different collections.
    """
    counts = np.asarray(df, dtype=np.float64)
    if counts.size and (counts.min() < 0 or counts.max() > n):
        raise ValueError(f"document frequencies must be between 0 and {n}")
    weights: NDArray[np.float64] = np.log1p((n - counts + 0.5) / (counts + 0.5))
    return weights


def term_scores(tf: ArrayLike, dl: ArrayLike, avgdl: float, k1: float = 1.2, b: float = 0.75) -> NDArray[np.float64]:
    """What one term adds per document before its idf: tf (k1 + 1) / (tf + k1 (1 - b + b dl / avgdl)).

    Float64 in the broadcast shape of `tf` and `dl`; 0 where tf is 0, below k1 + 1 everywhere, finite for every input.
    Higher is better.

    Args:
        tf: how often the term occurs in each document, shape (documents,).
        dl: length of each document in tokens, same shape.
        avgdl: mean length; 0 or less (a collection of empty documents) switches length normalisation off.
        k1: how slowly repetition saturates, > 0.
        b: how much length matters, 0 to 1.

    Raises:
        ValueError: when `k1` or `b` is out of its range.
    """
    if not k1 > 0 or not 0 <= b <= 1:
        raise ValueError(f"k1 must be positive and b between 0 and 1, not k1={k1}, b={b}")
    frequency = np.asarray(tf, dtype=np.float64)
    length = np.asarray(dl, dtype=np.float64) / avgdl if avgdl > 0 else np.ones_like(np.asarray(dl, dtype=np.float64))
    saturation = frequency + k1 * (1.0 - b + b * length)
    # An empty document has saturation 0 when b is 1; it scores 0, not NaN.
    scores: NDArray[np.float64] = np.divide(
        frequency * (k1 + 1.0), saturation, out=np.zeros_like(saturation), where=saturation > 0
    )
    return scores
