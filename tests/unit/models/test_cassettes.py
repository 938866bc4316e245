"""Replies of a real llama.cpp server (SmolLM2 on xllamacpp), as recorded, through the real client."""

from __future__ import annotations

from typing import Literal

import pytest
from cassette import played
from pydantic import BaseModel

from backread.errors import ContextWindowError
from backread.models.base import ChatMessage
from backread.models.openai import OpenAIChat
from backread.models.structured import complete_as

BASE = "http://127.0.0.1:8080/v1"
QUESTION = [ChatMessage("user", "Say hello in one word.")]
LONG = [ChatMessage("user", "kettle " * 4000)]


class Verdict(BaseModel):
    verdict: Literal["yes", "no"]


def test_a_reply_with_its_usage() -> None:
    with played("reply") as client:
        chat = OpenAIChat("smollm2", base_url=BASE, http_client=client)
        reply = chat.complete(QUESTION, purpose="answer", max_tokens=12)
    assert reply.text
    assert reply.finish_reason in ("stop", "length")
    assert (reply.usage.input_tokens or 0) > 10
    assert 0 < (reply.usage.output_tokens or 0) <= 12
    assert reply.usage.cost is None


def test_a_reply_cut_at_its_limit() -> None:
    with played("cut") as client:
        chat = OpenAIChat("smollm2", base_url=BASE, http_client=client)
        reply = chat.complete([ChatMessage("user", "Count to one hundred.")], purpose="answer", max_tokens=5)
    assert reply.cut
    assert reply.usage.output_tokens == 5


def test_structured_output() -> None:
    with played("structured") as client:
        chat = OpenAIChat("smollm2", base_url=BASE, http_client=client)
        made = complete_as(
            chat, [ChatMessage("user", "Is water wet? Answer yes or no.")], Verdict, purpose="judge", max_tokens=40
        )
    assert made.value.verdict in ("yes", "no")
    assert (made.repaired, made.attempts) == (False, 1)


def test_a_stream() -> None:
    heard: list[str] = []
    with played("stream") as client:
        chat = OpenAIChat("smollm2", base_url=BASE, http_client=client)
        reply = chat.stream(QUESTION, heard.append, purpose="answer", max_tokens=12)
    assert "".join(heard).strip() == reply.text.strip()
    assert (reply.usage.output_tokens or 0) > 0


def test_a_prompt_larger_than_the_window() -> None:  # LLM-08
    with played("too_long") as client:
        chat = OpenAIChat("smollm2", base_url=BASE, http_client=client)
        with pytest.raises(ContextWindowError) as caught:
            chat.complete(LONG, purpose="answer", max_tokens=12)
    assert caught.value.window == 1024


def test_the_window_as_the_server_tells_it() -> None:
    with played("window") as client:
        assert OpenAIChat("smollm2", base_url=BASE, http_client=client).window() == 1024
