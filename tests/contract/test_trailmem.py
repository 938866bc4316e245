"""The strategy contract on TrailMem with models, which the contract on registered strategies has not."""

from __future__ import annotations

import pytest
from t2mem_samples import scripted
from window_samples import by_words

from backread.retrieval.hybrid import HybridRetriever
from backread.strategies.base import Parts, Strategy
from backread.strategies.registry import STRATEGIES, create
from backread.testing.contracts_strategies import StrategyContract
from backread.testing.fakes import FunctionChat

NAMES = sorted(name for name in STRATEGIES if name.split(":")[0] == "trailmem")


@pytest.mark.parametrize("name", NAMES)
class TestWithModels(StrategyContract):
    @pytest.fixture
    def strategy(self, name: str) -> Strategy:
        return create(name, Parts(HybridRetriever(None), chat=scripted(by_words), build_chat=scripted(by_words)))


class TestWithAModelForQuestionsOnly(StrategyContract):
    @pytest.fixture
    def strategy(self) -> Strategy:
        return create("trailmem", Parts(HybridRetriever(None), chat=FunctionChat(by_words)))


class TestWithAModelForEntriesOnly(StrategyContract):
    @pytest.fixture
    def strategy(self) -> Strategy:
        return create("trailmem", Parts(HybridRetriever(None), build_chat=scripted(by_words)))


class TestWithInvalidReplies(StrategyContract):
    """What was found is shown as it was said."""

    @pytest.fixture
    def strategy(self) -> Strategy:
        return create("trailmem", Parts(HybridRetriever(None), chat=FunctionChat(lambda request: "I can't.")))
