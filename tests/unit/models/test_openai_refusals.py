"""Parameters that endpoints refuse: what is sent instead, and how often it has to be found out."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx2
import pytest
from chat_wires import Wire, answering, completion, in_turn

from backread.errors import ContextWindowError, ModelRequestError

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
JSON = '{"a": "x"}'


def format_types(wire: Wire) -> list[str | None]:
    return [body.get("response_format", {}).get("type") for body in wire.bodies]


# LLM-06
@pytest.mark.parametrize(
    ("refused", "said", "tried"),
    [
        (["json_object"], "this response_format type is not allowed here; use json_schema or text", ["json_schema"]),
        (["json_schema", "json_object"], "unknown field", ["json_schema", "json_object", None]),
        (["json_schema"], "This response_format type is unavailable now", ["json_schema", "json_object"]),
    ],
)
def test_a_refused_format_steps_down_once_for_all_calls(
    refused: list[str], said: str, tried: list[str | None], caplog: pytest.LogCaptureFixture
) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        kind = json.loads(request.content).get("response_format", {}).get("type")
        if kind in refused:
            return httpx2.Response(400, json={"error": said})
        return httpx2.Response(200, json=completion(JSON))

    wire = Wire(answer)
    with caplog.at_level(logging.INFO, "backread"):
        for number in range(10):
            assert wire.ask(schema=SCHEMA | {"title": str(number)}).text == JSON
    assert len(wire.requests) <= 12
    assert format_types(wire) == [*tried, *[tried[-1]] * 9]
    assert len([record for record in caplog.records if record.name.startswith("backread")]) == len(tried) - 1
    assert list(wire.chat.refused) == sorted(refused)[: len(tried) - 1] if len(tried) > 1 else not wire.chat.refused


# LLM-06
def test_another_reason_drops_nothing() -> None:
    said = "This model's maximum context length is 4096 tokens; your request has 9000 input tokens. Check the schema."
    wire = answering({"error": {"message": said}}, 400)
    with pytest.raises(ContextWindowError):
        wire.ask(schema=SCHEMA)
    assert format_types(wire) == ["json_schema"]
    assert wire.chat.refused == ()


def test_one_schema_too_many_does_not_end_enforcement() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if b"minLength" in request.content:
            return httpx2.Response(400, json={"error": {"message": "Invalid schema: 'minLength' is not permitted"}})
        return httpx2.Response(200, json=completion(JSON))

    wire = Wire(answer)
    odd = SCHEMA | {"properties": {"a": {"type": "string", "minLength": 3}}}
    for schema in (odd, SCHEMA, odd):
        wire.ask(schema=schema)
    assert format_types(wire) == ["json_schema", "json_object", "json_schema", "json_object"]


@pytest.mark.parametrize(
    ("options", "error", "first", "then"),
    [
        (
            {},
            {
                "message": "Unsupported parameter: 'max_tokens' is not supported with this model."
                " Use 'max_completion_tokens' instead.",
                "param": "max_tokens",
                "code": "unsupported_parameter",
            },
            {"max_tokens": 50, "temperature": 0.0},
            {"max_completion_tokens": 50, "temperature": 0.0},
        ),
        (
            {"base_url": "https://api.openai.com/v1", "api_key": "k"},
            {
                "message": "Unsupported value: 'temperature' does not support 0.0 with this model.",
                "param": "temperature",
                "code": "unsupported_value",
            },
            {"max_completion_tokens": 50, "temperature": 0.0},
            {"max_completion_tokens": 50},
        ),
        (
            {"extra": {"seed": 7, "top_k": 20}},
            {"message": "Unrecognized request argument supplied: top_k"},
            {"max_tokens": 50, "temperature": 0.0, "seed": 7, "top_k": 20},
            {"max_tokens": 50, "temperature": 0.0, "seed": 7},
        ),
        (
            {},
            {"message": "Input validation error: `temperature` must be strictly positive"},
            {"max_tokens": 50, "temperature": 0.0},
            {"max_tokens": 50},
        ),
    ],
)
def test_a_refused_parameter_is_left_out_or_renamed_and_remembered(
    options: dict[str, Any], error: dict[str, Any], first: dict[str, Any], then: dict[str, Any]
) -> None:
    wire = in_turn(httpx2.Response(400, json={"error": error}), completion(), **options)
    assert wire.ask().text == "Here."
    assert wire.ask().text == "Here."
    sent = [{name: value for name, value in body.items() if name not in ("model", "messages")} for body in wire.bodies]
    assert sent == [first, then, then]


def test_a_refusal_is_remembered_when_the_next_answer_is_another_error() -> None:
    refusal = httpx2.Response(400, json={"error": {"message": "temperature is not supported"}})
    wire = in_turn(refusal, httpx2.Response(503, json={}), completion())
    with pytest.raises(ModelRequestError, match="503"):
        wire.ask()
    assert wire.ask().text == "Here."
    assert ["temperature" in body for body in wire.bodies] == [True, False, False]


def test_an_endpoint_that_refuses_everything_is_not_asked_for_ever() -> None:
    wire = answering({"error": {"message": "temperature, max_tokens, seed: unsupported"}}, 400, extra={"seed": 1})
    with pytest.raises(ModelRequestError, match="unsupported"):
        wire.ask(schema=SCHEMA)
    assert len(wire.requests) <= 5
    assert wire.chat.refused == ()
