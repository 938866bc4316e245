"""The session of the OpenAI Agents SDK, under its own runner with a model that makes up nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    Session,
    SessionSettings,
    Usage,
    function_tool,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from backread import Memory
from backread.errors import InvalidInputError
from backread.integrations.openai_agents import BackreadSession

USER = {"role": "user", "content": "Which pot hides the key?"}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"pot": "blue"}', "id": "f1"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "A brass key."}
REASONING = {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "Look below."}]}
REPLY = {
    "type": "message",
    "id": "m1",
    "role": "assistant",
    "status": "completed",
    "content": [
        {"type": "output_text", "text": "The blue one.", "annotations": []},
        {"type": "refusal", "refusal": "No more."},
    ],
}
PICTURE = {
    "role": "user",
    "content": [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_image", "image_url": "data:,x", "detail": "auto"},
        {"type": "input_text", "text": "a pot"},
    ],
}
ITEMS: list[Any] = [USER, REASONING, CALL, OUTPUT, REPLY, PICTURE]


class Scripted(Model):
    """Gives its outputs one after the other, and keeps what it was given."""

    def __init__(self, *outputs: Any) -> None:
        self.outputs = iter(outputs)
        self.inputs: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        self.inputs.append(input)
        return ModelResponse(output=[next(self.outputs)], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def said(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[content])


@pytest.fixture
def session(memory: Memory) -> BackreadSession:
    return BackreadSession(memory, user_id="ann", session_id="chat")


def kept(session: BackreadSession, items: Sequence[Any] = ITEMS) -> list[Any]:
    asyncio.run(session.add_items(list(items)))
    return list(asyncio.run(session.get_items()))


def test_it_is_a_session_of_the_sdk(session: BackreadSession) -> None:
    assert isinstance(session, Session)


def test_items_come_back_as_they_went_in(session: BackreadSession) -> None:
    assert kept(session, ITEMS[:2]) == ITEMS[:2]
    assert kept(session, ITEMS[2:]) == ITEMS
    assert kept(session, []) == ITEMS


def test_what_was_said_is_in_the_record_and_is_found(memory: Memory, session: BackreadSession) -> None:
    kept(session)
    turns = list(memory.turns(user_id="ann", session_id="chat"))
    assert [(turn.role, turn.text) for turn in turns] == [
        ("user", "Which pot hides the key?"),
        ("assistant", ""),
        ("assistant", ""),
        ("tool", "A brass key."),
        ("assistant", "The blue one."),
        ("user", "Look:\na pot"),
    ]
    assert {turn.said_at for turn in turns} == {None}
    assert [hit.turn.text for hit in memory.search("brass", user_id="ann", mode="bm25")] == ["A brass key."]


def test_a_limit_takes_the_latest(memory: Memory, session: BackreadSession) -> None:
    kept(session)
    for limit, expected in ((2, ITEMS[-2:]), (0, []), (99, ITEMS), (None, ITEMS)):
        assert asyncio.run(session.get_items(limit)) == expected
    with pytest.raises(InvalidInputError, match="-1"):
        asyncio.run(session.get_items(-1))
    short = BackreadSession(memory, user_id="ann", session_id="chat", session_settings=SessionSettings(limit=1))
    assert asyncio.run(short.get_items()) == ITEMS[-1:]
    assert asyncio.run(short.get_items(3)) == ITEMS[-3:]


def test_pop_takes_the_latest_out_of_the_record(memory: Memory, session: BackreadSession) -> None:
    kept(session, [USER, OUTPUT])
    assert asyncio.run(session.pop_item()) == OUTPUT
    assert [turn.text for turn in memory.turns(user_id="ann")] == ["Which pot hides the key?"]
    assert asyncio.run(session.pop_item()) == USER
    assert asyncio.run(session.pop_item()) is None
    assert memory.users() == []
    assert kept(session, [OUTPUT]) == [OUTPUT]


def test_two_that_pop_at_once_get_different_items(session: BackreadSession) -> None:
    kept(session, [USER, OUTPUT])

    async def popped() -> list[Any]:
        return list(await asyncio.gather(*(session.pop_item() for _ in range(4))))

    taken = asyncio.run(popped())
    assert sorted(item["content"] for item in taken if item and "content" in item) == [USER["content"]]
    assert sorted(item["output"] for item in taken if item and "output" in item) == [OUTPUT["output"]]
    assert taken.count(None) == 2


def test_clear_erases_this_conversation_only(memory: Memory, session: BackreadSession) -> None:
    other = BackreadSession(memory, user_id="ann", session_id="other")
    namesake = BackreadSession(memory, user_id="bob", session_id="chat")
    for each in (session, other, namesake):
        kept(each, [USER])
    asyncio.run(session.clear_session())
    assert [len(asyncio.run(each.get_items())) for each in (session, other, namesake)] == [0, 1, 1]
    asyncio.run(session.clear_session())


def test_turns_that_came_another_way_are_messages(memory: Memory, session: BackreadSession) -> None:
    memory.add(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "participant", "name": "Eve", "content": "Hi.", "id": "e1"},
            {"role": "participant", "name": "Eve", "content": "Hello.", "supersedes": "e1"},
        ],
        user_id="ann",
        session_id="chat",
    )
    assert kept(session, [USER]) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello."},
        USER,
    ]


@pytest.mark.parametrize(
    "wrong", [{"role": "user", "content": "x", "at": object()}, {"role": "boss", "content": "x"}], ids=["json", "role"]
)
def test_an_item_that_can_t_be_kept_keeps_out_the_others(session: BackreadSession, wrong: Any) -> None:
    with pytest.raises(InvalidInputError):
        asyncio.run(session.add_items([USER, wrong]))  # type: ignore[list-item]
    assert asyncio.run(session.get_items()) == []


def test_one_that_only_the_store_refuses_is_named(session: BackreadSession) -> None:
    large = {"role": "user", "content": "x" * (8 * 1024 * 1024 + 1)}
    with pytest.raises(InvalidInputError, match=r"message 1 was refused: a message of 8,388,609 bytes") as caught:
        asyncio.run(session.add_items([USER, large]))  # type: ignore[list-item]
    assert caught.value.hint == "1 of 2 are stored: don't send those again"


@pytest.mark.parametrize("wrong", [{"user_id": " ", "session_id": "s"}, {"user_id": "u", "session_id": ""}])
def test_ids_are_not_blank(memory: Memory, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="_id must be"):
        BackreadSession(memory, **wrong)


def test_under_the_sdk_s_runner_a_conversation_goes_on(memory: Memory, session: BackreadSession) -> None:
    @function_tool
    def look(pot: str) -> str:
        """What is under a pot."""
        return f"Under the {pot} one: a key."

    call = ResponseFunctionToolCall(type="function_call", call_id="c1", name="look", arguments='{"pot": "blue"}')
    model = Scripted(call, said("It is under the blue pot."), said("You are welcome."))
    agent = Agent(name="finder", model=model, tools=[look])
    quiet = RunConfig(tracing_disabled=True)

    async def talk() -> list[str]:
        first = await Runner.run(agent, "Where is the spare key?", session=session, run_config=quiet)
        again = BackreadSession(memory, user_id="ann", session_id="chat")  # as a later process would open it
        second = await Runner.run(agent, "Thank you.", session=again, run_config=quiet)
        return [first.final_output, second.final_output]

    assert asyncio.run(talk()) == ["It is under the blue pot.", "You are welcome."]
    assert [item.get("content") or item["type"] for item in model.inputs[2][:2]] == [
        "Where is the spare key?",
        "function_call",
    ]
    assert model.inputs[2][2]["output"] == "Under the blue one: a key."
    assert model.inputs[2][-1] == {"role": "user", "content": "Thank you."}
    assert [(turn.role, turn.text) for turn in memory.turns(user_id="ann", session_id="chat")] == [
        ("user", "Where is the spare key?"),
        ("assistant", ""),
        ("tool", "Under the blue one: a key."),
        ("assistant", "It is under the blue pot."),
        ("user", "Thank you."),
        ("assistant", "You are welcome."),
    ]
