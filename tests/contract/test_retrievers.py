"""The retriever contract on every retriever a user can choose."""

from __future__ import annotations

import pytest

from backread.errors import InvalidInputError, ModelNotAvailableError
from backread.models.base import Embedder
from backread.retrieval.base import Retriever
from backread.retrieval.hybrid import HybridRetriever
from backread.retrieval.registry import RETRIEVERS, create_retriever
from backread.testing.contracts_retrievers import RetrieverContract
from backread.testing.fakes import HashEmbedder


@pytest.mark.parametrize("name", sorted(set(RETRIEVERS) - {"sparse"}))
class TestRegistered(RetrieverContract):
    @pytest.fixture
    def retriever(self, embedder: Embedder, name: str) -> Retriever:
        return create_retriever(name, embedder)


class TestHybridWithoutVectors(RetrieverContract):
    @pytest.fixture
    def retriever(self, embedder: Embedder) -> Retriever:
        return HybridRetriever(None)


def test_names_are_those_of_the_registry() -> None:
    assert all(create_retriever(name, HashEmbedder()).name == name for name in set(RETRIEVERS) - {"sparse"})


@pytest.mark.parametrize("name", sorted(set(RETRIEVERS) - {"sparse"}))
def test_what_needs_vectors_says_so(name: str) -> None:
    if name in ("bm25", "hybrid"):
        assert create_retriever(name, None).config.get("embedder") is None
        return
    with pytest.raises(ModelNotAvailableError, match=name) as caught:
        create_retriever(name, None)
    assert "models fetch" in (caught.value.hint or "")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInputError) as caught:
        create_retriever("bm52", None)
    assert all(name in (caught.value.hint or "") for name in RETRIEVERS)
