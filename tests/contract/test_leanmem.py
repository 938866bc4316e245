"""The strategy contract on LeanMem: by rules, with and without vectors, and with a scripted model in every preset."""

from __future__ import annotations

import json
import re

import pytest

from backread.retrieval.bm25 import Bm25Retriever
from backread.retrieval.hybrid import HybridRetriever
from backread.strategies.base import Strategy
from backread.strategies.leanmem.design import PRESETS
from backread.strategies.leanmem.strategy import LeanMem
from backread.testing.contracts_strategies import StrategyContract
from backread.testing.fakes import ChatRequest, FunctionChat, HashEmbedder

# Whatever the talk is about, what the model writes must hold its words.
ACTIONS = ("record", "event", "profile")


def lines(request: ChatRequest, label: str) -> list[str]:
    """The quoted lines of a request, without headings."""
    block = request.question.partition(f"<{label} id=")[2].partition(f"</{label} id=")[0]
    return [line.strip() for line in block.splitlines()[1:] if re.match(r"\[\w+\] ", line)]


def writes(request: ChatRequest) -> str:
    """Routes by the length of what is said, writes down all of it, and merges what is related."""
    if request.purpose == "recall":
        kinds = {"profile": 0.2, "event": 0.3, "record": 0.5}
        return json.dumps(
            {
                "constraints": {"entity": ["kettle"], "attribute": ["plumber"], "temporal": [], "relational": []},
                "evidence_demand": "the kettle",
                "detail": True,
                "memory_types": list(kinds),
                "weights": kinds,
                "depths": dict.fromkeys(kinds, 6),
            }
        )
    said = " ".join(line.partition("] ")[2] for line in lines(request, "segment"))
    if '"op"' in request.question:
        return json.dumps({"op": "add", "target_id": "E1", "topic": "", "temporal_anchor": "", "state": ""})
    if '"topic"' in request.question:
        return json.dumps({"topic": "talk", "temporal_anchor": "2024", "state": said})
    if '"gist"' in request.question:
        return json.dumps({"gist": said})
    if '"summary"' in request.question:
        return json.dumps({"summary": said})
    action = ACTIONS[len(said) % 3]
    held = [{"attribute": "said", "value": said}] if action == "profile" else []
    return json.dumps({"action": action, "source_indices": [], "attributes": held})


class TestByRules(StrategyContract):
    @pytest.fixture
    def strategy(self) -> Strategy:
        return LeanMem(HybridRetriever(HashEmbedder()), embedder=HashEmbedder())


@pytest.mark.parametrize("name", sorted(PRESETS))
class TestWithAModel(StrategyContract):
    @pytest.fixture
    def strategy(self, name: str) -> Strategy:
        chat = FunctionChat(writes)
        return LeanMem(HybridRetriever(None), chat, chat, name=name)


class TestWithVectorsAndAChosenRetriever(StrategyContract):
    @pytest.fixture
    def strategy(self) -> Strategy:
        chat = FunctionChat(writes)
        return LeanMem(Bm25Retriever(), chat, chat, HashEmbedder(), fixed_retriever=True)
