"""The strategy contract on Search-o1 with a model that searches and copies what it reads."""

from __future__ import annotations

import re

import pytest

from backread.retrieval.hybrid import HybridRetriever
from backread.strategies.base import Strategy
from backread.strategies.search_o1.chain import BEGIN_QUERY, BEGIN_RESULT, END_QUERY
from backread.strategies.search_o1.strategy import SearchO1
from backread.testing.contracts_strategies import StrategyContract
from backread.testing.fakes import ChatRequest, FunctionChat
from backread.types import Unit


def reasons_and_copies(request: ChatRequest) -> str:
    """Searches for the question itself, copies every line of every document, then answers."""
    if "<documents" in request.question:
        return "Useful information:\n" + "\n".join(_copied(request.question))
    if BEGIN_RESULT in request.question:
        return "That is all.\n\nAnswer: it was said."
    asked = request.question.partition("Question: ")[2].partition("\n\nThink")[0]
    return (
        f"I look it up.\n\n{BEGIN_QUERY}{asked}{END_QUERY}\n<|begin_search_result|>a gold kettle<|end_search_result|>"
    )


def _copied(block: str) -> list[str]:
    lines: list[str] = []
    number = ""
    for line in block.partition("</documents")[0].splitlines()[1:]:
        if found := re.match(r"\[(\d+)\] ", line):
            number = found[1]
        else:
            lines.append(f"- {line.strip()} [{number}]")
    return lines


@pytest.mark.parametrize("unit", ["round", "turn", "session"])
class TestReasoning(StrategyContract):
    @pytest.fixture
    def strategy(self, unit: Unit) -> Strategy:
        return SearchO1(HybridRetriever(None), FunctionChat(reasons_and_copies), unit=unit)


@pytest.mark.parametrize("unit", ["round", "turn"])
class TestOneSearch(StrategyContract):
    @pytest.fixture
    def strategy(self, unit: Unit) -> Strategy:
        return SearchO1(HybridRetriever(None), unit=unit)
