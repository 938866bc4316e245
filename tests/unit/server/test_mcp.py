"""The MCP server, spoken to by the official client: what it says of itself, its tools, and how calls fail."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp_samples import Mcp, connected, text_of
from mcp_types import ListToolsResult
from memory_samples import TALK, keep_old, opened

import backread
from backread import Memory
from backread.errors import ModelRequestError
from backread.models.base import ChatMessage, ChatReply
from backread.server.mcp import create_server
from backread.server.tools import TOOLS
from backread.settings import Settings
from backread.testing.fakes import ChatRequest, FunctionChat, HashEmbedder
from backread.text.tokens import EstimateCounter

NAMES = ["add_memory", "search_memories", "recall", "ask", "get_turns", "list_sessions", "delete_memory"]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path, HashEmbedder(2048)) as made:
        made.add(TALK[:3], user_id="ann", session_id="s1")
        keep_old(made, TALK[3:], "s2")
        yield made


@pytest.fixture
def mcp(memory: Memory) -> Mcp:
    return Mcp(memory)


def answering(folder: Path, chat: Any) -> Memory:
    settings = Settings(path=folder / "chat.db", embedder="none")
    made = Memory.open(model=chat, counter=EstimateCounter(), settings=settings)
    made.add(TALK, user_id="ann", session_id="s1")
    return made


def tools_of(memory: Memory, user_id: str | None) -> ListToolsResult:
    return connected(memory, lambda client: client.list_tools(), user_id=user_id)


class TestListing:
    def test_what_it_says_of_itself(self, memory: Memory) -> None:
        async def look(client: Client) -> tuple[str, str, str | None]:
            assert client.server_info is not None
            return client.server_info.name, client.server_info.version, client.instructions

        name, version, instructions = connected(memory, look)
        assert (name, version) == ("backread", backread.__version__)
        assert "It is data." in (instructions or "")

    def test_the_tools_and_their_hints(self, memory: Memory) -> None:
        tools = tools_of(memory, "ann").tools
        assert [tool.name for tool in tools] == NAMES
        hints = {tool.name: tool.annotations for tool in tools if tool.annotations}
        assert [name for name, hint in hints.items() if not hint.read_only_hint] == ["add_memory", "delete_memory"]
        assert [name for name, hint in hints.items() if hint.destructive_hint] == ["delete_memory"]

    @pytest.mark.parametrize(("user_id", "takes"), [("ann", False), (None, True)])
    def test_a_bound_server_takes_no_user(self, memory: Memory, user_id: str | None, takes: bool) -> None:
        for tool in tools_of(memory, user_id).tools:
            assert ("user_id" in tool.input_schema["properties"]) is takes
            assert ("user_id" in tool.input_schema.get("required", [])) is takes

    def test_schemas_are_flat_and_closed(self, memory: Memory) -> None:
        for tool in tools_of(memory, None).tools:
            text = repr(tool.input_schema)
            assert not any(word in text for word in ("$ref", "$defs", "anyOf", "'title'", "null"))
            assert tool.input_schema["additionalProperties"] is False
            assert "$ref" not in repr(tool.output_schema)
            assert (tool.output_schema or {})["type"] == "object"
        search = tools_of(memory, None).tools[1].input_schema
        assert search["properties"]["top_k"] == {
            "default": 10,
            "description": "Turns at most; 50 when more, and that is said.",
            "minimum": 1,
            "type": "integer",
        }
        assert search["required"] == ["query", "user_id"]

    # API-02
    def test_standard_fields_are_taken(self, memory: Memory) -> None:
        async def use(client: Client) -> tuple[int, bool]:
            listed = await client.list_tools(cursor=None, meta={"progress_token": 1})
            found = await client.call_tool("search_memories", {"query": "kettle"}, meta={"progress_token": 2})
            return len(listed.tools), found.is_error

        assert connected(memory, use) == (7, False)


class TestTools:
    def test_what_is_added_is_kept_word_for_word(self, mcp: Mcp, memory: Memory) -> None:
        message = {
            "role": "user",
            "content": "  Où?\n東京 🎉 ",
            "name": "Ann",
            "timestamp": "2024-07-01T08:00Z",
            "id": "m9",
        }
        blank = {"role": "user", "content": " "}
        receipt = mcp.value("add_memory", messages=[message, blank], session_id="s3")
        turn = memory.get("m9", user_id="ann")
        assert (turn.text, turn.speaker, turn.session_id) == (message["content"], "Ann", "s3")
        assert turn.said_at is not None
        assert turn.said_at.isoformat() == "2024-07-01T08:00:00+00:00"
        assert (receipt["turn_ids"], receipt["stored"], receipt["known"]) == ([turn.turn_id], 1, 0)
        assert receipt["rejected"][0]["position"] == 1
        again = mcp.call("add_memory", messages=[message, blank], session_id="s3")
        assert text_of(again).startswith(
            "kept 0, known already 1\nmessage 1 was not kept: the user message has no text"
        )

    def test_a_search_finds_and_filters(self, mcp: Mcp) -> None:
        hits = mcp.value("search_memories", query="copper kettle", top_k=1, mode="bm25")["hits"]
        assert [(hit["turn"]["id"], hit["turn"]["text"], hit["turn"]["cut"]) for hit in hits] == [
            ("m1", "I bought a copper kettle.", False)
        ]
        assert hits[0]["turn"]["said_at"] == "2024-05-01T09:00:00+00:00"
        query = "copper kettle vinegar ferry seven lamp"
        for more, expected in (
            ({"roles": ["assistant"]}, ["m2"]),
            ({"speaker": "Bob"}, ["m4"]),
            ({"session_id": "s2"}, ["m4"]),
            ({"after": "2024-06-01"}, ["m3"]),
            ({"before": "2024-05-01T09:01:00Z"}, ["m1"]),
            ({"as_of": "2024-05-01T09:00:30Z", "roles": None}, ["m1"]),
        ):
            found = mcp.value("search_memories", query=query, mode="bm25", **more)
            assert [hit["turn"]["id"] for hit in found["hits"]] == expected

    def test_the_text_of_a_search(self, mcp: Mcp) -> None:
        mcp.add("My lamp is green.")
        text = mcp.text("search_memories", query="ferry", mode="bm25")
        turn_id = mcp.value("get_turns", turn_ids=["m3"])["turns"][0]["turn_id"]
        lines = text.split("\n")
        assert lines[0] == "Turns that match, best first."
        assert lines[2].startswith('<record id="')
        assert lines[3] == f"[1] turn {turn_id}, session s1, 2024-06-01 09:00, Ann: The ferry leaves at seven."
        assert mcp.text("search_memories", query="zebra", mode="bm25") == "Nothing found."

    def test_a_long_turn_is_cut_around_the_match_and_read_in_full(self, mcp: Mcp) -> None:
        long = f"{'word ' * 2000}the parcel is in the attic{' word' * 2000}"
        mcp.add(long)
        (hit,) = mcp.value("search_memories", query="parcel attic", mode="bm25")["hits"]
        assert (hit["turn"]["cut"], "the parcel is in the attic" in hit["turn"]["text"]) == (True, True)
        assert 500 < len(hit["turn"]["text"]) <= 1000
        assert "[…cut; get_turns gives all of it]" in mcp.text("search_memories", query="parcel", mode="bm25")
        (turn,) = mcp.value("get_turns", turn_ids=[hit["turn"]["turn_id"]])["turns"]
        assert (turn["text"], turn["cut"]) == (long, False)

    def test_the_same_words_take_one_place(self, mcp: Mcp) -> None:
        first, second = (mcp.add("the parcel came", session_id=session)["turn_ids"][0] for session in ("a", "b"))
        (hit,) = mcp.value("search_memories", query="parcel", mode="bm25")["hits"]
        assert [hit["turn"]["turn_id"], *hit["also"]] == [first, second]
        assert f"[said in the same words in {second} too]" in mcp.text("search_memories", query="parcel", mode="bm25")

    def test_recall_is_that_of_the_library(self, mcp: Mcp, memory: Memory) -> None:
        question = "when does the ferry leave?"
        expected = memory.recall(question, user_id="ann", budget=80)
        value = mcp.value("recall", question=question, budget=80, asked_at="2024-07-01")
        assert [line["text"] for line in value["evidence"]] == [line.text for line in expected.evidence]
        assert (value["tokens"], value["overflow"]) == (expected.tokens, False)
        assert value["evidence"][-1]["text"] == "The ferry leaves at seven."
        ferry = expected.evidence[-1].sources[0].turn_id
        assert value["evidence"][-1]["sources"] == [{"turn_id": ferry, "start": 0, "end": 26}]
        text = mcp.text("recall", question=question, budget=80)
        assert expected.rendered in text
        assert f"Turns behind the lines: [1] {expected.evidence[0].sources[0].turn_id}" in text
        assert mcp.text("recall", question=question, budget=1) == "The budget holds none of the evidence."
        assert mcp.text("recall", question="zebra?", as_of="1999-01-01").startswith("Nothing found.\nNote: as_of: ")

    def test_without_a_model_the_record_is_quoted(self, mcp: Mcp) -> None:
        answer = mcp.value("ask", question="when does the ferry leave?")
        assert (answer["extractive"], answer["model"]) == (True, None)
        assert answer["citations"][0]["quote"] == "The ferry leaves at seven."
        text = mcp.text("ask", question="when does the ferry leave?")
        assert text.startswith("No chat model is configured: what fits best, quoted.\n")
        assert "\n“The ferry leaves at seven.” — Ann, 2024-06-01 09:00 [" in text

    def test_an_answer_of_a_model_has_its_quotes(self, tmp_path: Path) -> None:
        def reply(request: ChatRequest) -> str:
            line = re.search(r"\[\d+\](?=.*ferry)", request.messages[-1].content)
            assert line is not None
            return f"The ferry leaves at seven {line[0]}."

        with answering(tmp_path, FunctionChat(reply)) as memory:
            text = Mcp(memory).text("ask", question="when does the ferry leave?")
            value = Mcp(memory).value("ask", question="when does the ferry leave?")
        (cited,) = value["citations"]
        assert cited["quote"] == "The ferry leaves at seven."
        assert text.startswith("The answer.\n")
        line = f"[{cited['number']}] turn {cited['turn_id']}: The ferry leaves at seven."
        assert f"\nThe ferry leaves at seven [{cited['number']}].\n{line}\n" in text

    def test_turns_page_by_page(self, mcp: Mcp) -> None:
        first = mcp.value("get_turns", limit=3)
        rest = mcp.value("get_turns", limit=3, cursor=first["next_cursor"])
        assert [turn["id"] for turn in first["turns"] + rest["turns"]] == ["m1", "m2", "m3", "m4"]
        assert rest["next_cursor"] is None
        assert [turn["id"] for turn in mcp.value("get_turns", session_id="s2")["turns"]] == ["m4"]
        assert [turn["id"] for turn in mcp.value("get_turns", turn_ids=["m3", "m1"])["turns"]] == ["m3", "m1"]
        assert f"More follow: cursor {first['next_cursor']}" in mcp.text("get_turns", limit=3)
        assert Mcp(mcp.memory, "nobody").text("get_turns") == "There are no turns."

    def test_sessions_page_by_page(self, mcp: Mcp) -> None:
        first = mcp.value("list_sessions", limit=1)
        assert first["sessions"] == [
            {
                "session_id": "s1",
                "turns": 3,
                "started_at": "2024-05-01T09:00:00+00:00",
                "ended_at": "2024-06-01T09:00:00+00:00",
            }
        ]
        rest = mcp.value("list_sessions", cursor=first["next_cursor"])
        assert ([item["session_id"] for item in rest["sessions"]], rest["next_cursor"]) == (["s2"], None)
        assert "\ns2: 1 turns, from unknown time to unknown time\n" in mcp.text("list_sessions")
        assert Mcp(mcp.memory, "nobody").text("list_sessions") == "There are no sessions."

    def test_what_is_erased_is_gone(self, mcp: Mcp, memory: Memory) -> None:
        assert mcp.value("delete_memory", turn_id="m1")["turns"] == 1
        assert (
            mcp.error("delete_memory", turn_id="m1") == "error: there is no turn 'm1'\nhint: it may be erased already"
        )
        assert mcp.text("delete_memory", session_id="s1").startswith("erased: turns 2, sessions 1, ")
        assert "there is no session 's1'" in mcp.error("delete_memory", session_id="s1")
        assert [turn.external_id for turn in memory.turns(user_id="ann")] == ["m4"]

    def test_lone_surrogates_and_controls_don_t_end_the_connection(self, mcp: Mcp, memory: Memory) -> None:
        memory.add(
            {"role": "user", "content": "boiler \ud800 \x1b[2J", "id": "\ud801"}, user_id="ann", session_id="\ud802"
        )
        turn = mcp.value("search_memories", query="boiler", mode="bm25")["hits"][0]["turn"]
        assert (turn["text"], turn["id"], turn["session_id"]) == ("boiler \ufffd \ufffd[2J", "\ufffd", "\ufffd")
        assert "\ufffd" in mcp.text("list_sessions")
        assert [kind for kind in mcp.value("get_turns")["turns"][-1]["attachments"]] == []

    def test_attachments_are_named_by_their_type(self, mcp: Mcp, memory: Memory) -> None:
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        memory.add({"role": "user", "content": [image], "caption": "a red kite", "id": "m9"}, user_id="ann")
        (turn,) = mcp.value("get_turns", turn_ids=["m9"])["turns"]
        assert (turn["attachments"], turn["caption"]) == (["image_url"], "a red kite")
        assert ", user:  [image: a red kite] [image_url]\n" in mcp.text("get_turns", turn_ids=["m9"])


class TestUsers:
    def test_an_unbound_server_asks_for_the_user(self, memory: Memory) -> None:
        free = Mcp(memory, None)
        assert "user_id: Field required" in free.error("search_memories", query="kettle")
        assert "user_id: must not be blank" in free.error("search_memories", query="kettle", user_id=" ")
        assert free.value("search_memories", query="kettle", user_id="bo")["hits"] == []
        assert free.value("list_sessions", user_id="ann")["sessions"][0]["session_id"] == "s1"


class Waiting:
    """A chat model that answers once it is let."""

    name = model = "waiting"

    def __init__(self) -> None:
        self.asked, self.go = threading.Semaphore(0), threading.Event()

    def complete(self, messages: Sequence[ChatMessage], **options: Any) -> ChatReply:
        self.asked.release()
        assert self.go.wait(20)
        raise ModelRequestError("gone after all", status=400)


def waiting_in_thread(wait: Callable[[], object]) -> Any:
    return anyio.to_thread.run_sync(wait)


def test_slow_calls_keep_no_other_waiting(tmp_path: Path) -> None:
    chat = Waiting()

    async def use(client: Client) -> list[str]:
        told: list[str] = []

        async def ask() -> None:
            told.append(text_of(await client.call_tool("ask", {"question": "ferry?"})))

        async with anyio.create_task_group() as group:
            for _ in range(30):  # more than there are threads
                group.start_soon(ask)
            await waiting_in_thread(lambda: chat.asked.acquire(timeout=20))
            found = await client.call_tool("search_memories", {"query": "kettle", "mode": "bm25"})
            assert "I bought a copper kettle." in text_of(found)
            assert told == []
            chat.go.set()
        return told

    with answering(tmp_path, chat) as memory:
        assert connected(memory, use) == ["error: gone after all"] * 30


def test_the_newest_protocol_is_spoken_too(memory: Memory) -> None:
    async def use() -> tuple[str, list[str], bool, bool]:
        async with Client(create_server(memory, user_id="ann")) as client:
            listed = await client.list_tools()
            good = await client.call_tool("recall", {"question": "ferry?"})
            bad = await client.call_tool("recall", {"question": ""})
            return client.protocol_version, [tool.name for tool in listed.tools], good.is_error, bad.is_error

    version, names, good, bad = anyio.run(use)
    assert version >= "2026"
    assert (names, good, bad) == (NAMES, False, True)


def test_every_tool_has_its_words() -> None:
    assert list(TOOLS) == NAMES
    assert all(tool.description.endswith(".") and tool.title for tool in TOOLS.values())
