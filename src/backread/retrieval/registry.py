"""Retrievers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, cast

from backread.errors import InvalidInputError, ModelNotAvailableError
from backread.models.base import Embedder, Reranker
from backread.registry import Kind
from backread.retrieval.base import Retriever
from backread.retrieval.bm25 import Bm25Retriever
from backread.retrieval.dense import DenseRetriever
from backread.retrieval.fused import FusedRetriever
from backread.retrieval.hybrid import HybridRetriever
from backread.retrieval.rerank import DEPTH, RerankedRetriever
from backread.retrieval.sparse import SparseIndex, SparseRetriever

__all__ = ["RETRIEVERS", "RetrieverParts", "RetrieverSpec", "create_retriever", "retriever_spec"]

Needed = Literal["no", "if there", "yes"]


@dataclass(frozen=True, slots=True)
class RetrieverParts:
    """What a retriever is made from.

    Attributes:
        embedder: makes the question's vector; None where there is none.
        sparse: the index of a learned sparse encoder; None where none is configured.
    """

    embedder: Embedder | None = None
    sparse: SparseIndex | None = None


@dataclass(frozen=True, slots=True)
class RetrieverSpec:
    """A retriever as users choose it by name: how it is made, and what may be known of it before that.

    Attributes:
        make: makes it from the parts there are; it gets those it needs, or isn't called.
        summary: what it ranks by, for people.
        vectors: whether it compares vectors: never ("no"), where there is an embedder, or always ("yes").
        sparse: it searches a learned sparse index.
    """

    make: Callable[[RetrieverParts], Retriever]
    summary: str = ""
    vectors: Needed = "if there"
    sparse: bool = False


def _dense(parts: RetrieverParts) -> DenseRetriever:
    return DenseRetriever(cast(Embedder, parts.embedder))


def _sparse(parts: RetrieverParts) -> SparseRetriever:
    return SparseRetriever(cast(SparseIndex, parts.sparse))


SPECS: Final[Mapping[str, RetrieverSpec]] = MappingProxyType(
    {
        "hybrid": RetrieverSpec(
            lambda parts: HybridRetriever(parts.embedder), "text, vectors and conversational cues; the default"
        ),
        "interpolation": RetrieverSpec(
            lambda parts: FusedRetriever(Bm25Retriever(), _dense(parts), "interpolation"),
            "BM25 and vectors, min-max normalised and averaged",
            vectors="yes",
        ),
        "rrf": RetrieverSpec(
            lambda parts: FusedRetriever(Bm25Retriever(), _dense(parts), "rrf"),
            "BM25 and vectors by reciprocal rank fusion",
            vectors="yes",
        ),
        "bm25": RetrieverSpec(lambda parts: Bm25Retriever(), "words only", vectors="no"),
        "dense": RetrieverSpec(_dense, "vectors only", vectors="yes"),
        "sparse": RetrieverSpec(_sparse, "learned sparse vectors; needs a sparse encoder", vectors="no", sparse=True),
    }
)

RETRIEVERS: Final = Kind(
    "retriever",
    "retrievers",
    MappingProxyType(dict.fromkeys(SPECS, "backread.retrieval.registry:SPECS")),
    unknown=InvalidInputError,
)
"""Every name a user can choose. A package adds a `RetrieverSpec`, or what is called with `RetrieverParts`."""


def retriever_spec(name: str) -> RetrieverSpec:
    """What is known of a retriever before it is made.

    A class or function that stands for a retriever may say so itself, by attributes named as those of `RetrieverSpec`.

    Raises:
        InvalidInputError: there is none of that name (the hint lists the names), or it is of something else.
    """
    if name in SPECS:
        return SPECS[name]
    found = RETRIEVERS.find(name)
    if isinstance(found, RetrieverSpec):
        return found
    said: dict[str, Any] = RETRIEVERS.said(name, found, ("summary", "vectors", "sparse"))
    return RetrieverSpec(cast("Callable[[RetrieverParts], Retriever]", found), **said)


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
        name: of `RETRIEVERS`, or "module:Class".
        embedder: makes the query's vector.
        sparse: what "sparse" searches.
        reranker: reads what the retriever finds and puts it in order; None leaves its order.
        depth: candidates the reranker reads, see `RerankedRetriever`.
        strict: raise when the reranker fails, instead of leaving the order and saying so.

    Raises:
        InvalidInputError: there is none (the hint lists the names), or what has the name makes no retriever.
        ModelNotAvailableError: it needs an embedder or a sparse encoder and there is none.
    """
    spec = retriever_spec(name)
    if spec.sparse and sparse is None:
        raise ModelNotAvailableError(f"retriever {name!r} needs a sparse encoder", hint="set `sparse_encoder`")
    if spec.vectors == "yes" and embedder is None:
        raise ModelNotAvailableError(f"retriever {name!r} needs an embedder", hint="run `backread models fetch minilm`")
    first = spec.make(RetrieverParts(embedder, sparse))
    if not isinstance(first, Retriever):
        raise InvalidInputError(
            f"{name!r} makes no retriever but {type(first).__name__}",
            hint="`backread.retrieval.base.Retriever` says what a retriever must have",
        )
    return first if reranker is None else RerankedRetriever(first, reranker, depth=depth, strict=strict)
