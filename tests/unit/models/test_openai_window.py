"""Prompts that are too long for the endpoint: refused, cut in silence, or never sent."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from chat_wires import Wire, answering, completion

from backread.errors import ContextWindowError
from backread.models.base import ChatMessage

LONG = [ChatMessage("user", "The ferry leaves at nine. " * 900)]  # about 6,000 tokens


# LLM-08
@pytest.mark.parametrize("usage", [{"prompt_tokens": 2050, "completion_tokens": 6}, {"prompt_tokens": 4098}])
def test_a_prompt_that_was_cut_in_silence_is_an_error(usage: dict[str, int]) -> None:
    wire = answering(completion('{"memories": []}', usage=usage))
    with pytest.raises(ContextWindowError, match="cut without a word") as caught:
        wire.ask(messages=LONG)
    assert caught.value.sent is not None
    assert caught.value.sent > 5000
    assert "OLLAMA_CONTEXT_LENGTH" in (caught.value.hint or "")
    assert getattr(caught.value.usage, "input_tokens", None) == usage["prompt_tokens"]


@pytest.mark.parametrize("counted", [4500, 5400, 9000])
def test_another_tokenizer_is_no_cut(counted: int) -> None:
    assert answering(completion(usage={"prompt_tokens": counted})).ask(messages=LONG).text == "Here."


# LLM-08
def test_without_a_count_the_server_is_asked_for_its_window_once() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/props":
            return httpx2.Response(200, json={"default_generation_settings": {"n_ctx": 2048}})
        return httpx2.Response(200, json=completion(usage=None))

    wire = Wire(answer)
    assert wire.ask().text == "Here."  # a short prompt asks nothing
    for _ in range(2):
        with pytest.raises(ContextWindowError, match="the window has 2048 tokens") as caught:
            wire.ask(messages=LONG)
        assert caught.value.window == 2048
    paths = [request.url.path for request in wire.requests]
    assert (paths.count("/props"), paths.count("/v1/chat/completions")) == (1, 3)
    assert {request.url.host for request in wire.requests} == {"server"}


@pytest.mark.parametrize(
    ("path", "body", "window"),
    [
        ("/props", {"default_generation_settings": {"n_ctx": 8192}}, 8192),
        ("/v1/models", {"data": [{"id": "other", "max_model_len": 1}, {"id": "m", "max_model_len": 32768}]}, 32768),
        ("/api/ps", {"models": [{"name": "m:latest", "context_length": 4096}]}, 4096),
        ("/props", {"default_generation_settings": {"n_ctx": "many"}}, None),
        ("/props", ["odd"], None),
        ("/nowhere", {}, None),
    ],
)
def test_the_window_as_servers_tell_it(path: str, body: object, window: int | None) -> None:
    wire = Wire(lambda request: httpx2.Response(200 if request.url.path == path else 404, json=body))
    assert wire.chat.window() == window
    asked = len(wire.requests)
    assert wire.chat.window() == window
    assert len(wire.requests) == asked


# LLM-08
def test_a_configured_window_is_enforced_before_sending() -> None:
    wire = answering(completion(), context_window=4096)
    with pytest.raises(ContextWindowError, match="nothing was sent") as caught:
        wire.ask(messages=LONG)
    assert (caught.value.window, wire.requests) == (4096, [])
    assert wire.ask().text == "Here."
    assert wire.chat.window() == 4096
    with pytest.raises(ContextWindowError):
        wire.ask(max_tokens=4096)


# LLM-08
@pytest.mark.parametrize(
    ("status", "error", "window", "sent"),
    [
        (
            400,
            {
                "message": "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 4390,
                "n_ctx": 4096,
            },
            4096,
            4390,
        ),
        (
            400,
            {
                "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001"
                " tokens. Please reduce the length of the messages.",
                "code": "context_length_exceeded",
            },
            8192,
            9001,
        ),
        (500, {"message": "Context size has been exceeded.", "type": "server_error"}, None, None),
        (400, {"message": "Requested tokens (2285) exceed context window of 2048"}, 2048, None),
        (200, {"code": 400, "message": "the request exceeds the available context size", "n_ctx": 256}, 256, None),
        (400, {"message": "exceeds context length"}, None, None),
    ],
)
def test_a_prompt_that_is_refused_for_its_length(
    status: int, error: dict[str, Any], window: int | None, sent: int | None
) -> None:
    wire = answering({"error": error}, status)
    with pytest.raises(ContextWindowError) as caught:
        wire.ask()
    assert (caught.value.window, caught.value.sent, caught.value.retryable) == (window, sent, False)
    assert len(wire.requests) == 1
