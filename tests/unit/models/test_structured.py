"""Replies as values: what is accepted, what is asked again, what is reported."""

from __future__ import annotations

import logging
from typing import Any, Literal

import httpx2
import pydantic
import pytest
from chat_wires import answering, completion, in_turn

from backread.errors import ContextWindowError, ModelOutputError, ModelRequestError
from backread.models.base import ChatMessage, ChatModel, ChatReply
from backread.models.structured import Structured, complete_as, complete_with_room, known_ids, reply_schema
from backread.testing.fakes import ChatRequest, FunctionChat
from backread.types import Usage

ASKED = [ChatMessage("system", "Extract facts."), ChatMessage("user", "Noor plays oboe.")]


class Facts(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    facts: list[str]


class Verdict(pydantic.BaseModel):
    """The doc."""

    model_config = pydantic.ConfigDict(extra="forbid")

    label: Literal["yes", "no"]
    title: str = "none"
    parts: list[Facts] = []


def scripted(*replies: str | ChatReply | ModelOutputError) -> FunctionChat:
    left = list(replies)

    def answer(request: ChatRequest) -> str | ChatReply:
        given = left.pop(0)
        if isinstance(given, ModelOutputError):
            raise given
        return given

    return FunctionChat(answer)


def ask(chat: ChatModel, **options: Any) -> Structured[Facts]:
    arguments: dict[str, Any] = {"purpose": "build", "max_tokens": 200} | options
    return complete_as(chat, ASKED, Facts, **arguments)


def cut(text: str, used: int | None = None) -> ChatReply:
    return ChatReply(text, "length", Usage("build", "function", output_tokens=used))


def test_schema_and_instructions_are_sent() -> None:
    chat = scripted('{"facts": ["a"]}')
    found = ask(chat, temperature=0.3)
    assert (found.value.facts, found.repaired, found.attempts, len(found.usage)) == (["a"], False, 1, 1)
    (request,) = chat.requests
    assert (request.purpose, request.max_tokens, request.temperature) == ("build", 200, 0.3)
    assert request.schema == reply_schema(Facts)
    assert request.messages[1] == ASKED[1]
    assert request.messages[0].content.startswith("Extract facts.\n\nReply with JSON only")
    assert '"facts"' in request.messages[0].content


def test_without_a_system_message_the_instructions_end_the_last_one() -> None:
    chat = scripted('{"facts": []}', '{"facts": []}')
    complete_as(chat, ASKED[1:], Facts, purpose="build", max_tokens=9)
    assert chat.requests[0].messages[0].content.startswith("Noor plays oboe.\n\nReply with JSON only")
    complete_as(chat, ASKED, Facts, purpose="build", max_tokens=9, instruct=False)
    assert list(chat.requests[1].messages) == ASKED


def test_the_schema_is_strict() -> None:
    schema = reply_schema(Verdict)
    assert schema["required"] == ["label", "title", "parts"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["title"] == {"type": "string"}  # a field called title, without its default
    assert schema["$defs"]["Facts"]["required"] == ["facts"]
    assert schema["properties"]["label"]["enum"] == ["yes", "no"]


# LLM-01, LLM-02
@pytest.mark.parametrize(
    ("content", "facts", "repaired"),
    [
        (
            '<think>maybe {"facts": ["WRONG"]} or {broken</think>\n{"facts": ["Noor plays oboe"]}',
            ["Noor plays oboe"],
            False,
        ),
        ('</think>{"facts": ["Noor plays oboe"]}', ["Noor plays oboe"], False),
        ('<analysis>x</analysis>\n```json\n{"facts": ["Noor plays oboe"]}\n```', ["Noor plays oboe"], False),
        ('{"facts": ["the tag <think> was discussed"]}', ["the tag <think> was discussed"], False),
        ("[]\n\nNo stable facts were found.", [], True),
        ('["Ivo has twins"]', ["Ivo has twins"], True),
        ('{"facts": ["Ivo has twins"],}', ["Ivo has twins"], True),
        ('I follow {"facts": []} as a format, so: {"facts": ["x"]}', ["x"], False),
        ('{"facts": ["x"]}\n\nNote [1]: as said.', ["x"], False),
    ],
)
def test_what_is_accepted(content: str, facts: list[str], repaired: bool) -> None:
    found = ask(answering(completion(content)).chat)
    assert (found.value.facts, found.repaired, found.attempts) == (facts, repaired, 1)


# LLM-01, LLM-02, LLM-04, LLM-06
@pytest.mark.parametrize(
    "message",
    [
        {"content": '<think>cut off before closing {"facts": ["WRONG"]}'},
        {"content": "```json\n```"},
        {"content": '"just a string"'},
        {"content": '{"facts": "Ivo has twins"}'},
        {"content": '{"facts": [{"fact": "Ivo has twins"}, null, 7]}'},
        {"content": '{"facts": ["a"], "more": 1}'},
        {"content": '{"error": "no"}'},
        {"content": "Facts: [1] and [2]"},
        {"content": "Sure! status is ok"},
        {"content": "", "reasoning_content": 'Let me think.\n{"facts": ["Kei moved to Lyon"]}'},
        {"content": None, "reasoning": '... {"facts": ["Kei moved to Lyon"]}'},
        {"content": None, "tool_calls": [{"function": {"name": "save", "arguments": '{"facts": ["x"]}'}}]},
        {"content": None},
    ],
)
def test_what_is_asked_again_once_and_then_reported(message: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    wire = answering(completion(choices=[{"message": message, "finish_reason": "stop"}]))
    with pytest.raises(ModelOutputError):
        ask(wire.chat)
    assert len(wire.requests) == 2
    text = message["content"]
    assert not text or text not in caplog.text


# LLM-04
def test_the_final_object_wins_over_the_draft_in_the_reasoning() -> None:
    message = {"content": '{"facts": ["final"]}', "reasoning_content": '{"facts": ["draft"]}'}
    assert ask(answering(completion(choices=[{"message": message}])).chat).value.facts == ["final"]


def test_the_correction_shows_reply_and_error_but_no_values() -> None:
    chat = scripted('{"facts": [7]}', '{"facts": ["seven"]}')
    found = ask(chat)
    assert (found.value.facts, found.attempts, len(found.usage)) == (["seven"], 2, 2)
    *before, shown, told = chat.requests[1].messages
    assert before == list(chat.requests[0].messages)
    assert shown == ChatMessage("assistant", '{"facts": [7]}')
    assert told.role == "user"
    assert "facts.0: Input should be a valid string" in told.content


def test_a_reply_without_text_is_asked_again_without_two_messages_of_one_role() -> None:
    chat = scripted(ModelOutputError("the answer has no text"), '{"facts": ["a"]}')
    assert ask(chat).value.facts == ["a"]
    roles = [message.role for message in chat.requests[1].messages]
    assert roles == ["system", "user"]
    assert "the answer has no text" in chat.requests[1].messages[-1].content


def test_a_failure_carries_the_text_and_is_logged_without_it(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(ModelOutputError, match="function: the reply is no Facts") as caught,
    ):
        ask(scripted("the secret word", "another secret"))
    assert (caught.value.raw, caught.value.cut) == ("another secret", False)
    assert "secret" not in caplog.text + str(caught.value)
    assert len(caplog.records) == 2


def test_other_errors_are_not_asked_again() -> None:
    def fail(request: ChatRequest) -> str:
        raise ModelRequestError("HTTP 503", status=503, retryable=True)

    chat = FunctionChat(fail)
    with pytest.raises(ModelRequestError):
        ask(chat)
    assert len(chat.requests) == 1


def test_a_cut_reply_is_asked_again_with_room_and_not_corrected() -> None:
    chat = scripted(cut('{"facts": ["a", "b'), cut('{"facts": ["a", "b", "c'), '{"facts": ["a", "b", "c"]}')
    found = ask(chat)
    assert (found.value.facts, found.repaired, found.attempts) == (["a", "b", "c"], False, 3)
    assert [request.max_tokens for request in chat.requests] == [200, 400, 800]
    assert len({request.messages for request in chat.requests}) == 1


def test_room_has_an_end_and_the_format_is_not_blamed() -> None:
    chat = scripted(*[cut('{"facts": ["a", "b')] * 3)
    with pytest.raises(ModelOutputError, match="is cut, also with room for 800 tokens") as caught:
        ask(chat)
    assert (caught.value.cut, caught.value.raw) == (True, '{"facts": ["a", "b')
    assert len(chat.requests) == 3


def test_room_that_was_found_is_kept_for_the_correction() -> None:
    chat = scripted(cut("{"), "no", '{"facts": []}')
    assert ask(chat).attempts == 3
    assert [request.max_tokens for request in chat.requests] == [200, 400, 400]


def test_a_cut_behind_the_value_is_none() -> None:
    chat = scripted(cut('{"facts": ["a"]}\n\n\n\n'))
    assert ask(chat).value.facts == ["a"]


def test_reasoning_that_takes_all_the_room_gets_more() -> None:
    usage = Usage("build", "function", output_tokens=200)
    chat = scripted(ModelOutputError("reasoning only", cut=True, usage=usage), '{"facts": ["a"]}')
    found = ask(chat)
    assert (found.value.facts, found.attempts, found.usage[0]) == (["a"], 2, usage)
    assert [request.max_tokens for request in chat.requests] == [200, 400]


def test_a_window_that_ends_the_reply_is_not_asked_for_more() -> None:
    chat = scripted(cut('{"facts": ["a', used=40))
    with pytest.raises(ModelOutputError) as caught:
        ask(chat)
    assert "window" in (caught.value.hint or "")
    assert len(chat.requests) == 1


# LLM-06
@pytest.mark.parametrize("refused", [0, 1, 2])
def test_a_server_without_formats_gets_the_instructions(refused: int) -> None:
    answers = [httpx2.Response(400, json={"error": "unknown field"})] * refused
    wire = in_turn(*answers, completion('{"facts": ["a"]}'))
    assert ask(wire.chat).value.facts == ["a"]
    formats = [body.get("response_format", {}).get("type") for body in wire.bodies]
    assert formats == ["json_schema", "json_object", None][: refused + 1]
    assert "Reply with JSON only" in wire.bodies[-1]["messages"][0]["content"]


# LLM-08
def test_an_empty_list_of_a_cut_prompt_is_no_result() -> None:
    long = [ChatMessage("user", "The ferry leaves at nine. " * 900)]
    wire = answering(completion('{"facts": []}', usage={"prompt_tokens": 2050, "completion_tokens": 6}))
    with pytest.raises(ContextWindowError):
        complete_as(wire.chat, long, Facts, purpose="build", max_tokens=50)


def test_a_root_model_takes_an_array() -> None:
    class Ids(pydantic.RootModel[list[int]]):
        pass

    found = complete_as(scripted("Here: [1, 2]"), ASKED, Ids, purpose="recall", max_tokens=50)
    assert found.value.root == [1, 2]


def test_free_text_gets_room_too() -> None:
    chat = scripted(cut("Once upon"), cut("Once upon a time"), "Once upon a time there was")
    reply, usage = complete_with_room(chat, ASKED, purpose="answer", max_tokens=10)
    assert (reply.text, reply.cut, len(usage)) == ("Once upon a time there was", False, 3)
    reply, _ = complete_with_room(scripted(*[cut("Once")] * 3), ASKED, purpose="answer", max_tokens=10)
    assert (reply.text, reply.cut) == ("Once", True)


class Operation(pydantic.BaseModel):
    id: str | None = None
    event: str
    text: str | None = None


class Operations(pydantic.BaseModel):
    memory: list[Operation]


# LLM-09
def test_ids_that_were_not_offered_are_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    reply = """{"memory": [
        {"id": "41", "event": "UPDATE", "text": "x"},
        {"id": "1", "event": "UPDATE", "text": "Rae moved to Bergen in May"},
        {"id": null, "event": "DELETE"},
        {"id": "2", "event": "DELETE"},
        {"event": "ADD", "text": "Rae likes fjords"}]}"""
    found = complete_as(scripted(reply), ASKED, Operations, purpose="build", max_tokens=200)
    checked = known_ids(
        found.value.memory, {"0", "1", "2"}, lambda item: item.id, needs_id=lambda item: item.event != "ADD"
    )
    assert [(item.event, item.id) for item in checked.items] == [("UPDATE", "1"), ("DELETE", "2"), ("ADD", None)]
    assert checked.unknown == ("41", None)
    assert "'41', none" in caplog.text
    assert "Rae" not in caplog.text
