"""LazyMem's retrieval as published, or as much of it as there are parts for."""

from __future__ import annotations

from typing import NamedTuple

from backread.retrieval.base import Retriever
from backread.retrieval.bm25 import Bm25Retriever
from backread.retrieval.dense import DenseRetriever
from backread.retrieval.fused import FusedRetriever
from backread.retrieval.rerank import RerankedRetriever
from backread.strategies.base import Parts
from backread.types import Degradation

__all__ = ["DEPTH", "Retrieval", "retrieval"]

DEPTH = 100
"""Ranks of each list that are fused, and fused units that the cross-encoder reads."""


class Retrieval(NamedTuple):
    """What to search with, and what it has to do without."""

    retriever: Retriever
    missing: tuple[Degradation, ...]


def retrieval(parts: Parts) -> Retrieval:
    """The caller's retriever where one was chosen, else the published one: vectors and BM25, fused, then reranked.

    BM25 has k1 = 1.5 and b = 0.75, fusion is by reciprocal rank with k = 60 over the 100 best of each list, and the
    cross-encoder reads 100. Without an embedder BM25 stands alone; without a cross-encoder the order before it stays.
    """
    if parts.fixed_retriever:
        return Retrieval(parts.retriever, ())
    missing: list[Degradation] = []
    words = Bm25Retriever(k1=1.5, b=0.75)
    found: Retriever = words
    if parts.embedder is not None:
        found = FusedRetriever(DenseRetriever(parts.embedder), words, "rrf", k=60, depth=DEPTH)
    else:
        missing.append(Degradation("dense", "there is no embedder: ranked by words only"))
    if parts.reranker is not None:
        found = RerankedRetriever(found, parts.reranker, depth=DEPTH, pool=1)
    else:
        missing.append(Degradation("rerank", "there is no cross-encoder: the order before it stays"))
    return Retrieval(found, tuple(missing))
