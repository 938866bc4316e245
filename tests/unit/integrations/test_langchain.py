"""The LangChain retriever, in a chain that LangChain runs."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.prompt_values import PromptValue
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from memory_samples import opened
from pydantic import ValidationError

from backread import Memory
from backread.errors import InvalidInputError, ModelNotAvailableError
from backread.integrations.langchain import BackreadRetriever
from backread.settings import Settings


def test_a_document_is_a_turn_with_where_it_is_from(talked: Memory) -> None:
    (found,) = BackreadRetriever(memory=talked, user_id="ann", top_k=1).invoke("copper kettle")
    turn = talked.get("m1", user_id="ann")
    assert (found.page_content, found.id) == ("I bought a copper kettle.", turn.turn_id)
    assert found.metadata.pop("score") > 0
    assert found.metadata == {
        "turn_id": turn.turn_id,
        "speaker": "Ann",
        "time": "2024-05-01T09:00:00+00:00",
        "session": "s1",
        "role": "user",
        "caption": None,
        "received": None,
    }


def test_what_is_unknown_is_none(talked: Memory) -> None:
    (found,) = BackreadRetriever(memory=talked, user_id="ann", top_k=1).invoke("green lamp")
    assert (found.metadata["speaker"], found.metadata["time"], found.metadata["session"]) == ("Bob", None, "s2")


def test_its_options_reach_the_search(talked: Memory) -> None:
    def texts(query: str, **options: object) -> list[str]:
        retriever = BackreadRetriever.model_validate({"memory": talked, "user_id": "ann", "mode": "bm25", **options})
        return [document.page_content for document in retriever.invoke(query)]

    assert texts("kettle ferry lamp", top_k=2) == texts("kettle ferry lamp")[:2]
    assert texts("kettle lamp", session_id="s2") == ["My lamp is green."]
    assert texts("kettle lamp", user_id="bob") == []
    with pytest.raises(ModelNotAvailableError):
        texts("kettle", mode="sparse")
    with pytest.raises(InvalidInputError, match="blank"):
        texts(" ")


@pytest.mark.parametrize("wrong", [{"user_id": ""}, {"top_k": 0}, {"mode": "best"}, {"memory": None}])
def test_a_retriever_that_could_never_work_is_not_made(talked: Memory, wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        BackreadRetriever.model_validate({"memory": talked, "user_id": "ann", **wrong})


def test_in_a_chain_the_model_sees_the_words_of_the_record(talked: Memory) -> None:
    prompts: list[str] = []

    def shown(documents: list[Document]) -> str:
        return "\n".join(f"{document.metadata['speaker']}: {document.page_content}" for document in documents)

    def seen(prompt: PromptValue) -> PromptValue:
        prompts.append(str(prompt))
        return prompt

    chain = (
        {
            "evidence": BackreadRetriever(memory=talked, user_id="ann", top_k=2) | RunnableLambda(shown),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template("{evidence}\n\n{question}")
        | RunnableLambda(seen)
        | FakeListChatModel(responses=["Copper.", "At seven."])
    )
    assert chain.invoke("Which kettle did I buy?").content == "Copper."
    assert "Ann: I bought a copper kettle." in prompts[0]
    assert asyncio.run(chain.ainvoke("When does the ferry leave?")).content == "At seven."
    assert "Ann: The ferry leaves at seven." in prompts[1]


def test_a_search_that_fell_short_says_so_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Memory.open(settings=Settings(path=tmp_path / "m.db", models_dir=tmp_path)) as memory:
        memory.add({"role": "user", "content": "A copper kettle."}, user_id="ann")
        with caplog.at_level(logging.WARNING, "backread"):
            (found,) = BackreadRetriever(memory=memory, user_id="ann").invoke("kettle")
    assert found.page_content == "A copper kettle."
    assert "search fell short (dense)" in caplog.text
    caplog.clear()
    with opened(tmp_path / "home") as memory, caplog.at_level(logging.WARNING, "backread"):
        assert BackreadRetriever(memory=memory, user_id="ann").invoke("kettle") == []
    assert caplog.text == ""
