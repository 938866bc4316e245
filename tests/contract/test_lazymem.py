"""The strategy contract on LazyMem with a chat model that keeps what shares a word with the question."""

from __future__ import annotations

import json
import re

import pytest

from backread.retrieval.hybrid import HybridRetriever
from backread.strategies.base import Parts, Strategy
from backread.strategies.registry import create
from backread.testing.contracts_strategies import StrategyContract
from backread.testing.fakes import ChatRequest, FunctionChat
from backread.text.analysis import tokens


def words(text: str) -> set[str]:
    return {word.stem for word in tokens(text) if not word.stop}


def by_words(request: ChatRequest) -> str:
    """Keeps each message that shares a word with the question, in its own words."""
    prompt = request.question
    question = prompt.split("\nQuestion: ")[-1].split("\n\n")[0]
    inside = re.split(r'</?messages id="\w+">', prompt)[1]
    messages = re.split(r"^\[(\d+)\] \([^)]*\) ", inside, flags=re.MULTILINE)[1:]
    decisions = []
    for number, text in zip(messages[::2], messages[1::2], strict=True):
        said = text.split(": ", 1)[1].strip()
        keep = bool(words(question) & words(said))
        decisions.append(
            {"index": int(number), "action": "KEEP" if keep else "DROP", "compressed": said if keep else ""}
        )
    return json.dumps({"decisions": decisions})


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
