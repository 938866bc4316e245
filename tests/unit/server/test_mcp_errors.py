"""Calls of tools that fail: results that say so, with what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_samples import Mcp, connected
from mcp_types import INVALID_PARAMS, CallToolResult
from memory_samples import TALK, opened

from backread import Memory
from backread.errors import ModelRequestError, StoreError
from backread.settings import Settings
from backread.testing.fakes import FunctionChat
from backread.text.tokens import EstimateCounter


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path) as made:
        made.add(TALK, user_id="ann", session_id="s1")
        yield made


@pytest.fixture
def mcp(memory: Memory) -> Mcp:
    return Mcp(memory)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("search_memories", {}, "query: Field required"),
        ("search_memories", {"query": " "}, "query: must not be blank"),
        ("search_memories", {"query": "x", "top_k": "five"}, "top_k: Input should be a valid integer"),
        ("search_memories", {"query": "x" * 10_001}, "the query has 10,001 characters, and 10,000 are the most"),
        ("search_memories", {"query": "x", "top_k": True}, "top_k: Input should be a valid integer"),
        ("search_memories", {"query": "x", "top_k": 1.5}, "top_k: Input should be a valid integer"),
        ("search_memories", {"query": "x", "limit": 5}, "limit: Extra inputs are not permitted"),
        ("search_memories", {"query": "x", "mode": "best"}, "mode: must be one of hybrid, interpolation"),
        ("search_memories", {"query": "x", "roles": ["usr"]}, "roles.0: must be one of system, "),
        ("search_memories", {"query": "x", "after": "soon"}, "soon"),
        ("search_memories", {"query": "x", "user_id": "bo"}, "user_id: Extra inputs are not permitted"),
        ("recall", {"question": "x", "budget": -1}, "budget: Input should be greater than or equal to 0"),
        ("recall", {"question": "x", "strategy": "magic"}, "strategy: Extra inputs are not permitted"),
        ("add_memory", {"messages": []}, "messages: List should have at least 1 item"),
        ("add_memory", {"messages": [{"role": "usr", "content": "x"}]}, "messages.0.role: must be one of"),
        ("add_memory", {"messages": [{"role": "user", "content": "x", "meta": 1}]}, "messages.0.meta: Extra"),
        ("add_memory", {"messages": [{"role": "user", "content": " "}]}, "has no text and no attachment"),
        ("add_memory", {"messages": [{"role": "user", "content": "x", "timestamp": "soon"}]}, "soon"),
        ("get_turns", {"turn_ids": ["m1"], "session_id": "s1"}, "turn_ids names the turns already"),
        ("get_turns", {"turn_ids": ["nope"]}, "no turn 'nope'"),
        ("get_turns", {"session_id": "nope"}, "there is no session 'nope'"),
        ("get_turns", {"cursor": "zzz"}, "the cursor can't be read"),
        ("get_turns", {"limit": 0}, "limit: Input should be greater than or equal to 1"),
        ("delete_memory", {}, "give one of turn_id and session_id; nothing was erased"),
        ("delete_memory", {"turn_id": "m1", "session_id": "s1"}, "give one of turn_id and session_id"),
        ("delete_memory", {"turn_id": None}, "give one of turn_id and session_id"),
    ],
    ids=str,
)
def test_what_is_refused(mcp: Mcp, memory: Memory, name: str, arguments: dict[str, Any], said: str) -> None:
    told = mcp.error(name, **arguments)
    assert told.startswith("error: ")
    assert said in told
    assert "Traceback" not in told
    assert len(list(memory.turns(user_id="ann"))) == 4


def test_an_unknown_tool_is_an_error_of_the_protocol(memory: Memory) -> None:
    async def use(client: Client) -> CallToolResult:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("search", {"query": "x"})
        assert caught.value.error.code == INVALID_PARAMS
        assert "there is no tool 'search'; there are add_memory, " in caught.value.error.message
        return await client.call_tool("search_memories", {"query": "kettle"})

    assert not connected(memory, use).is_error


def test_a_model_that_is_missing_is_no_empty_result(mcp: Mcp) -> None:
    told = mcp.error("search_memories", query="kettle", mode="sparse")
    assert told.endswith("\nhint: set `sparse_encoder`")


def test_a_model_that_fails_has_its_hint(tmp_path: Path) -> None:
    def down(request: object) -> str:
        raise ModelRequestError("HTTP 401: no such key", hint="set OPENAI_API_KEY", status=401)

    settings = Settings(path=tmp_path / "chat.db", embedder="none")
    with Memory.open(model=FunctionChat(down), counter=EstimateCounter(), settings=settings) as memory:
        memory.add(TALK, user_id="ann", session_id="s1")
        assert Mcp(memory).error("ask", question="ferry?") == ("error: HTTP 401: no such key\nhint: set OPENAI_API_KEY")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StoreError("/home/ann/secret.db: disk I/O error"), "The record could not be read or written."),
        (RuntimeError("sk-123"), "one that was not expected, a bug of the server"),
    ],
    ids=["store", "bug"],
)
def test_files_and_bugs_are_logged_and_not_told(
    mcp: Mcp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception, said: str
) -> None:
    def broken(*args: object, **more: object) -> object:
        raise error

    monkeypatch.setattr(mcp.memory, "sessions", broken)
    assert mcp.error("list_sessions") == f"error: {said}\nhint: the log of the server says more"
    assert str(error) in caplog.text
