"""The strategy contract on every strategy a user can choose."""

from __future__ import annotations

import pytest

from backread.errors import NotFoundError
from backread.retrieval.bm25 import Bm25Retriever
from backread.retrieval.hybrid import HybridRetriever
from backread.strategies.base import Parts, Strategy
from backread.strategies.registry import STRATEGIES, create
from backread.testing.contracts_strategies import StrategyContract


@pytest.mark.parametrize("name", sorted(STRATEGIES))
class TestRegistered(StrategyContract):
    @pytest.fixture
    def strategy(self, name: str) -> Strategy:
        return create(name, Parts(HybridRetriever(None)))

    def test_is_called_what_it_is_registered_as(self, strategy: Strategy, name: str) -> None:
        assert strategy.name == name


def test_a_strategy_searches_with_the_retriever_it_is_given() -> None:
    assert create("naive_rag", Parts(Bm25Retriever(k1=2.0))).config["k1"] == 2.0


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(NotFoundError) as caught:
        create("naive_rga", Parts(Bm25Retriever()))
    assert all(name in (caught.value.hint or "") for name in STRATEGIES)
