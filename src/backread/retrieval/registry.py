"""Retrievers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from backread.errors import InvalidInputError, ModelNotAvailableError
from backread.models.base import Embedder, Reranker
from backread.retrieval.base import Retriever
from backread.retrieval.bm25 import Bm25Retriever
from backread.retrieval.dense import DenseRetriever
from backread.retrieval.fused import FusedRetriever
from backread.retrieval.hybrid import HybridRetriever
from backread.retrieval.rerank import DEPTH, RerankedRetriever
from backread.retrieval.sparse import SparseIndex, SparseRetriever

__all__ = ["LEARNED", "RETRIEVERS", "create_retriever"]

_WITH_VECTORS: Mapping[str, Callable[[Embedder], Retriever]] = {
    "dense": DenseRetriever,
    "interpolation": lambda embedder: FusedRetriever(Bm25Retriever(), DenseRetriever(embedder), "interpolation"),
    "rrf": lambda embedder: FusedRetriever(Bm25Retriever(), DenseRetriever(embedder), "rrf"),
}
_WITHOUT: Mapping[str, Callable[[Embedder | None], Retriever]] = {
    "bm25": lambda embedder: Bm25Retriever(),
    "hybrid": HybridRetriever,
}

RETRIEVERS: Mapping[str, str] = MappingProxyType(
    {
        "hybrid": "text, vectors and conversational cues; the default",
        "interpolation": "BM25 and vectors, min-max normalised and averaged",
        "rrf": "BM25 and vectors by reciprocal rank fusion",
        "bm25": "words only",
        "dense": "vectors only",
    }
)
"""Every name a user can choose, with what it is."""

LEARNED: Mapping[str, str] = MappingProxyType({"sparse": "learned sparse vectors; needs a sparse encoder"})
"""Names for those who have a sparse encoder."""


def create_retriever(
    name: str,
    embedder: Embedder | None,
    *,
    sparse: SparseIndex | None = None,
    reranker: Reranker | None = None,
    depth: int = DEPTH,
    strict: bool = False,
) -> Retriever:
    """The retriever of that name.

    Args:
        name: of `RETRIEVERS` or `LEARNED`.
        embedder: makes the query's vector.
        sparse: what "sparse" searches.
        reranker: reads what the retriever finds and puts it in order; None leaves its order.
        depth: candidates the reranker reads, see `RerankedRetriever`.
        strict: raise when the reranker fails, instead of leaving the order and saying so.

    Raises:
        InvalidInputError: there is none; the hint lists the names.
        ModelNotAvailableError: it needs an embedder or a sparse encoder and there is none.
    """
    first = _first_stage(name, embedder, sparse)
    return first if reranker is None else RerankedRetriever(first, reranker, depth=depth, strict=strict)


def _first_stage(name: str, embedder: Embedder | None, sparse: SparseIndex | None) -> Retriever:
    if name in LEARNED:
        if sparse is None:
            raise ModelNotAvailableError(f"retriever {name!r} needs a sparse encoder", hint="set `sparse_encoder`")
        return SparseRetriever(sparse)
    if name in _WITHOUT:
        return _WITHOUT[name](embedder)
    if name not in _WITH_VECTORS:
        raise InvalidInputError(f"there is no retriever {name!r}", hint=f"retrievers: {', '.join(RETRIEVERS)}")
    if embedder is None:
        raise ModelNotAvailableError(f"retriever {name!r} needs an embedder", hint="run `backread models fetch minilm`")
    return _WITH_VECTORS[name](embedder)
