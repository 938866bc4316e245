"""The LlamaIndex retriever, in a query engine that LlamaIndex runs."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode

from backread import Memory
from backread.errors import InvalidInputError
from backread.integrations.llama_index import BackreadRetriever


def test_a_node_is_a_turn_with_where_it_is_from(talked: Memory) -> None:
    (found,) = BackreadRetriever(talked, user_id="ann", top_k=1).retrieve("copper kettle")
    turn = talked.get("m1", user_id="ann")
    assert (found.node.node_id, found.text) == (turn.turn_id, "I bought a copper kettle.")
    assert found.score == talked.search("copper kettle", user_id="ann", top_k=1)[0].score
    assert found.metadata == {
        "turn_id": turn.turn_id,
        "speaker": "Ann",
        "time": "2024-05-01T09:00:00+00:00",
        "session": "s1",
        "role": "user",
    }


def test_a_model_is_shown_who_and_when(talked: Memory) -> None:
    kettle, lamp = (
        BackreadRetriever(talked, user_id="ann", top_k=1).retrieve(query)[0] for query in ("kettle", "lamp")
    )
    assert kettle.node.get_content(MetadataMode.LLM) == (
        "speaker: Ann\ntime: 2024-05-01T09:00:00+00:00\n\nI bought a copper kettle."
    )
    assert lamp.node.get_content(MetadataMode.LLM) == "speaker: Bob\n\nMy lamp is green."


def test_its_options_reach_the_search(talked: Memory) -> None:
    def texts(query: str, user_id: str = "ann", session_id: str | None = None, top_k: int = 10) -> list[str]:
        retriever = BackreadRetriever(talked, user_id=user_id, session_id=session_id, top_k=top_k, mode="bm25")
        return [node.text for node in retriever.retrieve(query)]

    assert texts("kettle ferry lamp", top_k=2) == texts("kettle ferry lamp")[:2]
    assert texts("kettle lamp", session_id="s2") == ["My lamp is green."]
    assert texts("kettle", user_id="bob") == []
    with pytest.raises(InvalidInputError, match="blank"):
        texts(" ")


def test_in_a_query_engine_the_model_sees_the_words_of_the_record(talked: Memory) -> None:
    engine = RetrieverQueryEngine.from_args(BackreadRetriever(talked, user_id="ann", top_k=2), llm=MockLLM())
    answer = engine.query("Which kettle did I buy?")  # this model answers with its prompt
    assert "I bought a copper kettle." in str(answer)
    assert "turn_id" not in str(answer)
    assert answer.source_nodes[0].node.node_id == talked.get("m1", user_id="ann").turn_id
    later = asyncio.run(engine.aquery("When does the ferry leave?"))
    assert "The ferry leaves at seven." in str(later)
