"""The strategy contract on T2Mem with a model, which the contract on registered strategies has not."""

from __future__ import annotations

import pytest
from t2mem_samples import copying_chat

from backread.retrieval.hybrid import HybridRetriever
from backread.strategies.base import Parts, Strategy
from backread.strategies.registry import STRATEGIES, create
from backread.testing.contracts_strategies import StrategyContract

NAMES = sorted(name for name in STRATEGIES if name.split(":")[0] == "t2mem")


@pytest.mark.parametrize("name", NAMES)
class TestWithAModel(StrategyContract):
    @pytest.fixture
    def strategy(self, name: str) -> Strategy:
        return create(name, Parts(HybridRetriever(None), chat=copying_chat(), build_chat=copying_chat()))


class TestWithAModelForQuestionsOnly(StrategyContract):
    @pytest.fixture
    def strategy(self) -> Strategy:
        return create("t2mem", Parts(HybridRetriever(None), chat=copying_chat()))
