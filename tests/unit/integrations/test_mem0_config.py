"""mem0's ways in: its configuration, its asynchronous memory, and the client that there is none of."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

import backread
from backread.errors import InvalidInputError
from backread.integrations.mem0 import AsyncMemory, AsyncMemoryClient, Memory, MemoryClient
from backread.integrations.mem0_config import settings_of
from backread.secret import Address, Secret
from backread.settings import Settings


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "BACKREAD_EMBEDDER_API_KEY", "BACKREAD_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BACKREAD_PATH", str(tmp_path / "mine.db"))
    monkeypatch.setenv("BACKREAD_EMBEDDER", "none")


def test_a_configuration_names_store_and_models(tmp_path: Path) -> None:
    settings = settings_of(
        {
            "vector_store": {"provider": "qdrant", "config": {"path": str(tmp_path / "q"), "collection_name": "notes"}},
            "llm": {"provider": "openai", "config": {"model": "m", "api_key": "k", "temperature": 0.1}},
            "embedder": {"provider": "ollama", "config": {"model": "e", "ollama_base_url": "http://localhost:11434"}},
            "history_db_path": "history.db",
            "version": "v1.1",
        }
    )
    assert settings.path == tmp_path / "q" / "notes.db"
    assert (settings.model, settings.base_url, settings.api_key) == ("m", None, Secret("k"))
    assert (settings.embedder, settings.embedder_base_url) == ("openai:e", Address("http://localhost:11434/v1"))
    assert settings.embedder_api_key is None


def test_a_server_s_key_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    own = {"provider": "openai", "config": {"model": "m"}}
    server = {"provider": "openai", "config": {"model": "m", "openai_base_url": "http://localhost:1/v1"}}
    assert settings_of({"llm": own}).api_key == Secret("mine")
    assert settings_of({"llm": server}).api_key is None
    assert settings_of({"embedder": own}).embedder_api_key == Secret("mine")
    assert settings_of({"embedder": server}).embedder_api_key is None
    assert settings_of({"embedder": own, "llm": server}).embedder_api_key is None


def test_empty_sections_are_absent(tmp_path: Path) -> None:
    assert settings_of({"llm": {}, "embedder": None}) == settings_of({})
    assert settings_of({"vector_store": {"provider": "faiss"}}).path == tmp_path / "mem0.db"
    huggingface = {"provider": "huggingface", "config": {"model": "org/name"}}
    assert settings_of({"embedder": huggingface}).embedder == "st:org/name"
    sized = {"config": {"model": "m", "embedding_dims": 256}}
    assert settings_of({"embedder": sized}).embedder == "openai:m@256"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"graph_store": {"provider": "neo4j"}}, "'graph_store' of the configuration"),
        ({"custom_fact_extraction_prompt": "x"}, "'custom_fact_extraction_prompt'"),
        ({"llm": "gpt"}, "llm is a dictionary"),
        ({"llm": {"provider": "openai"}}, "config of llm names no model"),
        ({"llm": {"provider": "openai", "config": "m"}}, "config of llm is a dictionary"),
        ({"llm": {"provider": "gemini", "config": {"model": "m"}}}, "provider 'gemini' of llm"),
        ({"llm": {"config": {"model": "m", "http_client_proxies": "x"}}}, "'http_client_proxies' of the llm 'openai'"),
        ({"llm": {"provider": "vllm", "config": {"model": "m"}}}, "has no vllm_base_url"),
        (
            {"vector_store": {"provider": "qdrant", "config": {"host": "h", "port": 1}}},
            "'host', 'port' of the vector_store",
        ),
        ({"vector_store": {"config": {"collection_name": "../x"}}}, "can't name a file"),
        ({"embedder": {"provider": "huggingface", "config": {"model": "m", "model_kwargs": {}}}}, "'model_kwargs'"),
        ({"llm": {"provider": "openai", "settings": {}}}, "'settings' of llm"),
        (["llm"], "is a dictionary, not a list"),
    ],
)
def test_the_rest_is_refused_by_name(config: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Memory.from_config(config)


def test_a_configuration_is_no_record() -> None:
    with pytest.raises(InvalidInputError, match="not of a dict") as refused:
        Memory({"llm": {}})  # type: ignore[arg-type]
    assert refused.value.hint == "Memory.from_config takes mem0's configuration"


def test_a_memory_from_a_configuration_keeps_and_finds(tmp_path: Path) -> None:
    with Memory.from_config({"vector_store": {"config": {"path": str(tmp_path), "collection_name": "one"}}}) as mem0:
        mem0.add("I am allergic to walnuts.", user_id="ann")
    assert (tmp_path / "one.db").exists()
    with backread.Memory.open(settings=Settings(path=tmp_path / "one.db", embedder="none")) as memory:
        assert [turn.text for turn in memory.turns(user_id="ann")] == ["I am allergic to walnuts."]


def test_the_asynchronous_one_has_the_same_calls(memory: backread.Memory, tmp_path: Path) -> None:
    async def run() -> None:
        mem0 = AsyncMemory(memory)
        (added,) = (await mem0.add("I am allergic to walnuts.", user_id="ann"))["results"]
        (found,) = (await mem0.search("walnuts", user_id="ann"))["results"]
        assert found["id"] == added["id"]
        await mem0.update(added["id"], "I am allergic to hazelnuts.")
        assert [item["memory"] for item in (await mem0.get_all(user_id="ann"))["results"]] == [
            "I am allergic to hazelnuts."
        ]
        assert [item["event"] for item in await mem0.history(added["id"])] == ["ADD", "UPDATE"]
        await mem0.delete(added["id"])
        assert await mem0.get(added["id"]) is None
        calls = {name for name in vars(Memory) if not name.startswith("_")} - {"from_config"}
        assert calls <= vars(AsyncMemory).keys()
        assert all(
            inspect.signature(getattr(AsyncMemory, name)) == inspect.signature(getattr(Memory, name)) for name in calls
        )
        async with await AsyncMemory.from_config({"vector_store": {"config": {"path": str(tmp_path)}}}) as other:
            assert await other.get_all(user_id="ann") == {"results": []}

    asyncio.run(run())


@pytest.mark.parametrize("client", [MemoryClient, AsyncMemoryClient])
def test_there_is_no_hosted_service(client: type[MemoryClient]) -> None:
    with pytest.raises(InvalidInputError, match=client.__name__) as refused:
        client(api_key="x")
    assert "use Memory" in (refused.value.hint or "")
