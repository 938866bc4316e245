"""The strategy contract on LightMem with a chat model that completes each message and writes it down as a fact."""

from __future__ import annotations

import json
import re

import pytest

from backread.retrieval.hybrid import HybridRetriever
from backread.strategies.base import Parts, Strategy
from backread.strategies.registry import create
from backread.testing.contracts_strategies import TALK, StrategyContract
from backread.testing.fakes import ChatRequest, FunctionChat, HashEmbedder

SAID = (*(text for *_, text in TALK), "No: the plumber recommended a steel kettle.")
PRESETS = ["lightmem", "lightmem:r6", "lightmem:r4", "lightmem:user_only", "lightmem:faithful"]


def completed(text: str) -> str:
    """What was said, as far as it can be told from the words that compression left of it."""
    words = text.split()
    for said in SAID:
        left = iter(said.split())
        if all(word in left for word in words):
            return said
    return text


def whole_messages(request: ChatRequest) -> str:
    """Each message as one fact, or, where notes are compared, that nothing changes."""
    if "<notes" in request.question:
        return json.dumps({"action": "ignore", "new_memory": ""})
    inside = re.split(r'</?messages id="\w+">', request.question)[1]
    lines = re.sub(r"^#.*\n", "", inside, flags=re.MULTILINE)
    messages = re.split(r"^\[(\d+)\] ", lines, flags=re.MULTILINE)[1:]
    told = [
        {"source": int(number), "facts": [completed(text.split(": ", 1)[1].strip())]}
        for number, text in zip(messages[::2], messages[1::2], strict=True)
    ]
    return json.dumps({"messages": told})


@pytest.mark.parametrize("name", PRESETS)
class TestWithAChatModel(StrategyContract):
    @pytest.fixture
    def strategy(self, name: str) -> Strategy:
        return create(name, Parts(HybridRetriever(None), build_chat=FunctionChat(whole_messages)))


class TestWithAnEmbedder(StrategyContract):
    @pytest.fixture
    def strategy(self) -> Strategy:
        parts = Parts(HybridRetriever(None), build_chat=FunctionChat(whole_messages), embedder=HashEmbedder())
        return create("lightmem", parts)
