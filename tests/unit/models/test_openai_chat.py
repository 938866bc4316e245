"""The official client over a mock transport: what goes out, and what each answer becomes."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from chat_wires import MESSAGES, Wire, answering, choice, completion

from backread.errors import ModelNotAvailableError, ModelOutputError, ModelRequestError
from backread.models.openai import OpenAIChat

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def test_the_request_body_is_exactly_this() -> None:
    wire = answering(completion())
    wire.ask()
    (request,) = wire.requests
    assert (request.method, str(request.url)) == ("POST", "http://server:8000/v1/chat/completions")
    assert json.loads(request.content) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Où? 東京 🎉"}],
        "max_tokens": 50,
        "temperature": 0.0,
    }


def test_a_schema_becomes_a_strict_response_format() -> None:
    wire = answering(completion())
    wire.ask(schema=SCHEMA, temperature=0.7)
    body = json.loads(wire.requests[0].content)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True},
    }
    assert body["temperature"] == 0.7


def test_openais_own_endpoint_gets_the_new_name_of_the_limit() -> None:
    wire = Wire(lambda request: httpx2.Response(200, json=completion()), base_url=None, api_key="k")
    wire.ask()
    body = json.loads(wire.requests[0].content)
    assert str(wire.requests[0].url) == "https://api.openai.com/v1/chat/completions"
    assert body["max_completion_tokens"] == 50
    assert "max_tokens" not in body


@pytest.mark.parametrize(
    ("given", "called"),
    [
        ("http://h", "http://h/v1"),
        ("http://h/", "http://h/v1"),
        ("http://h:11434/v1", "http://h:11434/v1"),
        ("http://h/v1/", "http://h/v1"),
        ("http://h/v1/chat/completions", "http://h/v1"),
        ("https://h/openai/v3", "https://h/openai/v3"),
        (" http://h ", "http://h/v1"),
    ],
)
def test_base_url_with_and_without_v1(given: str, called: str) -> None:
    assert OpenAIChat("m", base_url=given).base_url == called


# CFG-01
def test_only_the_configured_key_and_address_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere/v1")
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project")
    wire = answering(completion())
    wire.ask()
    assert wire.requests[0].headers["Authorization"] == "Bearer none"
    assert not {"openai-organization", "openai-project"} & wire.requests[0].headers.keys()
    assert wire.requests[0].url.host == "server"
    keyed = Wire(lambda request: httpx2.Response(200, json=completion()), api_key="mine")
    keyed.ask()
    assert keyed.requests[0].headers["Authorization"] == "Bearer mine"


def test_the_reply_and_its_usage() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 8},
    }
    reply = answering(completion(usage=usage)).ask(purpose="build")
    assert (reply.text, reply.finish_reason) == ("Here.", "stop")
    assert (reply.usage.purpose, reply.usage.model, reply.usage.calls) == ("build", "m", 1)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 20)
    assert (reply.usage.cache_read_tokens, reply.usage.reasoning_tokens) == (64, 8)
    assert reply.usage.cost is None
    assert reply.usage.seconds is not None
    assert reply.usage.seconds >= 0


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": None}, {"prompt_tokens": "7", "completion_tokens": -1}, "many"]
)
def test_unknown_usage_is_none_not_zero(usage: object) -> None:
    reply = answering(completion(usage=usage)).ask()
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (None, None)
    assert (reply.usage.cache_read_tokens, reply.usage.reasoning_tokens) == (None, None)


def test_a_cut_reply_says_so() -> None:
    reply = answering(completion(choices=[choice("Once upon", "length")])).ask()
    assert (reply.text, reply.finish_reason) == ("Once upon", "length")
    assert answering(completion(choices=[choice("x", None)])).ask().finish_reason == "unknown"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (completion(choices=[]), "no choices"),
        (completion(choices=None), "no choices"),
        ({}, "no choices"),
        ([], "no choices"),
        (completion(choices=[choice(None)]), r"no text \(finish_reason stop"),
        (completion(choices=[choice(" \n", "length")]), r"no text \(finish_reason length"),
        (completion(choices=[choice(None, refusal="I can't help")]), r"refused: I can't help"),
        (completion(choices=[{"index": 0, "finish_reason": "stop"}]), "no text"),
        (completion(choices=[{"index": 0, "finish_reason": "stop", "message": None}]), "no text"),
        (completion(choices=[{}]), "no text"),
        (completion(choices=["text"]), "no text"),
        (completion(choices=[choice(["part"])]), "no text"),
    ],
)
def test_answers_without_text_are_output_errors(body: object, message: str) -> None:
    with pytest.raises(ModelOutputError, match=message) as caught:
        answering(body).ask()
    assert str(caught.value).startswith("m at http://server:8000/v1: ")


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"{not json", "application/json"), (b"<html>hello</html>", "text/html"), (b"", "application/json")],
)
def test_an_answer_that_is_not_json_is_an_output_error(content: bytes, kind: str) -> None:
    wire = Wire(lambda request: httpx2.Response(200, content=content, headers={"Content-Type": kind}))
    with pytest.raises(ModelOutputError):
        wire.ask()


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, {"error": {"message": "max_tokens is too large", "type": "x"}}, "HTTP 400: max_tokens is too large"),
        (401, {"error": {"message": "bad key"}}, "HTTP 401: bad key"),
        (404, {"error": "model 'm' not found"}, "HTTP 404: model 'm' not found"),
        (422, {"detail": "no such field"}, "HTTP 422: no such field"),
        (429, {"message": "slow down"}, "HTTP 429: slow down"),
        (500, {"error": {"message": "x" * 9000}}, "HTTP 500: x{500}…$"),
        (503, {}, "HTTP 503"),
    ],
)
def test_an_error_status_is_a_request_error_with_the_servers_words(status: int, body: object, message: str) -> None:
    wire = answering(body, status)
    with pytest.raises(ModelRequestError, match=message):
        wire.ask()
    assert len(wire.requests) == 1  # retrying is a wrapper's work


def test_an_error_page_is_a_request_error() -> None:
    wire = Wire(lambda request: httpx2.Response(502, text="<h1>Bad gateway</h1>"))
    with pytest.raises(ModelRequestError, match="HTTP 502: <h1>Bad gateway</h1>"):
        wire.ask()


def _raising(error: type[httpx2.TransportError]) -> Wire:
    def fail(request: httpx2.Request) -> httpx2.Response:
        raise error("the cause", request=request)

    return Wire(fail, timeout=7)


def test_nothing_there_is_not_available() -> None:
    with pytest.raises(ModelNotAvailableError, match="the cause") as caught:
        _raising(httpx2.ConnectError).ask()
    assert caught.value.hint == "is a server running at http://server:8000/v1?"


@pytest.mark.parametrize("error", [httpx2.ReadTimeout, httpx2.ConnectTimeout])
def test_no_answer_in_time_is_a_request_error(error: type[httpx2.TransportError]) -> None:
    with pytest.raises(ModelRequestError, match="no answer within 7 seconds"):
        _raising(error).ask()


@pytest.mark.parametrize(
    ("status", "body", "passes"),
    [
        (400, {}, False),
        (401, {}, False),
        (404, {}, False),
        (408, {}, True),
        (429, {}, True),
        (429, {"error": {"message": "pay first", "code": "insufficient_quota"}}, False),
        (500, {}, True),
        (501, {}, False),
        (503, {}, True),
    ],
)
def test_only_what_may_pass_is_retryable(status: int, body: object, passes: bool) -> None:
    with pytest.raises(ModelRequestError) as caught:
        answering(body, status).ask()
    assert (caught.value.status, caught.value.retryable) == (status, passes)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "2"}, 2.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After-Ms": "1500", "Retry-After": "9"}, 1.5),
        ({"Retry-After": "Mon, 01 Jun 2026 10:00:30 GMT", "Date": "Mon, 01 Jun 2026 10:00:00 GMT"}, 30.0),
        ({"Retry-After": "Mon, 01 Jun 2020 10:00:30 GMT"}, 0.0),
    ],
)
def test_the_wait_that_is_asked_for_is_kept(headers: dict[str, str], seconds: float | None) -> None:
    wire = Wire(lambda request: httpx2.Response(429, json={}, headers=headers))
    with pytest.raises(ModelRequestError) as caught:
        wire.ask()
    assert caught.value.retry_after == seconds


@pytest.mark.parametrize("error", [httpx2.ReadError, httpx2.RemoteProtocolError])
def test_a_connection_that_breaks_may_be_tried_again(error: type[httpx2.TransportError]) -> None:
    with pytest.raises(ModelRequestError, match="the connection broke: the cause") as caught:
        _raising(error).ask()
    assert caught.value.retryable


# LLM-07
@pytest.mark.parametrize(
    ("body", "status", "passes"),
    [
        ({"choices": None, "error": {"code": 429, "message": "daily limit"}}, 429, True),
        ({"error": {"code": "502", "message": "daily limit"}}, 502, True),
        ({"error": {"code": "model_not_found", "message": "daily limit"}}, None, False),
        ({"error": "daily limit"}, None, False),
        (completion(error={"message": "daily limit"}), None, False),
    ],
)
def test_an_error_inside_a_200_is_raised_with_the_servers_words(body: object, status: int | None, passes: bool) -> None:
    wire = answering(body)
    with pytest.raises(ModelRequestError, match="the answer is an error: daily limit") as caught:
        wire.ask()
    assert (caught.value.status, caught.value.retryable) == (status, passes)
    assert len(wire.requests) == 1


def test_a_redirect_is_not_followed() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(307, headers={"Location": "http://elsewhere/v1/chat/completions"})

    chat = OpenAIChat("m", base_url="http://server")
    chat._open()._client._transport = httpx2.MockTransport(answer)
    with pytest.raises(ModelRequestError, match="HTTP 307"):
        chat.complete(MESSAGES, purpose="answer", max_tokens=5)


# CFG-01
def test_without_address_and_key_nothing_is_called() -> None:
    wire = Wire(lambda request: httpx2.Response(200, json=completion()), base_url=None)
    with pytest.raises(ModelNotAvailableError, match="'m' has no endpoint") as caught:
        wire.ask()
    assert "OPENAI_API_KEY" in (caught.value.hint or "")
    assert wire.requests == []
    assert wire.chat.window() is None


# LLM-01
@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        ("<think>Paris? {no}</think>\n\nLyon.", "Lyon.", "Paris? {no}"),
        ("</think>Lyon.", "Lyon.", None),
        ("Where?\n</think>\n\nLyon.", "Lyon.", "Where?"),
        ("The tag <think> was discussed.", "The tag <think> was discussed.", None),
        ("  As is.\n", "  As is.\n", None),
    ],
)
def test_leading_reasoning_is_no_part_of_the_text(content: str, text: str, reasoning: str | None) -> None:
    reply = answering(completion(content)).ask()
    assert (reply.text, reply.reasoning) == (text, reasoning)


def test_reasoning_that_never_ends_is_an_output_error() -> None:
    wire = answering(completion(choices=[choice("<think>cut off before closing", "length")]))
    with pytest.raises(ModelOutputError, match="reasoning only; finish_reason length") as caught:
        wire.ask(purpose="build")
    error = caught.value
    assert (error.cut, error.raw) == (True, "<think>cut off before closing")
    assert getattr(error.usage, "output_tokens", None) == 3  # it was paid for


# LLM-04
@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"content": "", "reasoning_content": "Let me think. Lyon"}, "reasoning only"),
        ({"content": None, "reasoning": "... Lyon"}, "reasoning only"),
        ({"content": None, "tool_calls": [{"function": {"name": "save", "arguments": "{}"}}]}, "calls the tool save"),
        ({"content": None}, "no text"),
    ],
)
def test_text_in_other_fields_is_never_the_answer(message: dict[str, Any], said: str) -> None:
    content = message.pop("content")
    with pytest.raises(ModelOutputError, match=said):
        answering(completion(choices=[choice(content, **message)])).ask()


# LLM-04
def test_content_wins_over_reasoning() -> None:
    reply = answering(completion(choices=[choice("final", reasoning_content="draft", reasoning="draft")])).ask()
    assert (reply.text, reply.reasoning) == ("final", "draft")


def test_a_content_in_parts_is_read() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Ly"},
        {"type": "image_url"},
        {"type": "text", "text": "on"},
    ]
    reply = answering(completion(choices=[choice(parts, "max_tokens")])).ask()
    assert (reply.text, reply.reasoning, reply.finish_reason, reply.cut) == ("Lyon", "hm", "length", True)


# LLM-05
@pytest.mark.parametrize(
    "answer",
    [
        {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]},
        {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}], "usage": None},
        {
            "choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": None},
        },
    ],
)
def test_optional_accounting_may_be_missing(answer: dict[str, Any]) -> None:
    reply = answering(answer).ask()
    assert reply.text == "ok"
    counted = (5, 1) if answer.get("usage") else (None, None)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == counted
    assert (reply.usage.cache_read_tokens, reply.usage.cost) == (None, None)
