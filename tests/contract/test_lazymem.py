"""The strategy contract on LazyMem with a chat model that keeps what shares a word with the question."""

from __future__ import annotations

import pytest
from window_samples import by_words

from backread.retrieval.hybrid import HybridRetriever
from backread.strategies.base import Parts, Strategy
from backread.strategies.registry import create
from backread.testing.contracts_strategies import StrategyContract
from backread.testing.fakes import FunctionChat


@pytest.mark.parametrize("name", ["lazymem", "lazymem:keep_hits"])
class TestWithAChatModel(StrategyContract):
    @pytest.fixture
    def strategy(self, name: str) -> Strategy:
        return create(name, Parts(HybridRetriever(None), FunctionChat(by_words)))


class TestWithTheChosenRetriever(StrategyContract):
    @pytest.fixture
    def strategy(self) -> Strategy:
        return create("lazymem", Parts(HybridRetriever(None), FunctionChat(by_words), fixed_retriever=True))


class TestWithInvalidReplies(StrategyContract):
    """What was found is shown as it was said."""

    @pytest.fixture
    def strategy(self) -> Strategy:
        return create("lazymem:keep_hits", Parts(HybridRetriever(None), FunctionChat(lambda request: "I can't.")))
