"""Streams of the official client over a mock transport: odd chunks, held-back reasoning, ends that are none."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from chat_wires import MESSAGES, Wire, completion, events, in_turn

from backread.errors import ModelNotAvailableError, ModelOutputError, ModelRequestError
from backread.models.base import ChatReply

# LLM-05
LINES = [
    'data: {"choices":[{"delta":{"role":"assistant"}}]}',
    ": keep-alive",
    'data: {"choices":[{"delta":{"content":"o"}}]}',
    "",
    'data: {"choices":[{"delta":{"content":"k"},"finish_reason":"stop"}]}',
    'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":1}}',
    "data: [DONE]",
]


def streamed(wire: Wire, **options: Any) -> tuple[ChatReply, list[str]]:
    pieces: list[str] = []
    arguments: dict[str, Any] = {"purpose": "answer", "max_tokens": 50} | options
    return wire.chat.stream(MESSAGES, pieces.append, **arguments), pieces


def chunk(content: object = None, finish: str | None = None, **delta: object) -> str:
    said = {"choices": [{"index": 0, "delta": {"content": content, **delta}, "finish_reason": finish}]}
    return f"data: {json.dumps(said, ensure_ascii=False)}\n"


# LLM-05
@pytest.mark.parametrize("lines", [LINES, LINES[:-1], [f"{line}\r\n" for line in LINES], LINES[:4] + LINES[4:-2]])
def test_housekeeping_chunks_are_skipped(lines: list[str]) -> None:
    reply, pieces = streamed(in_turn(events(*lines)))
    assert (reply.text, reply.finish_reason, reply.cut, pieces) == ("ok", "stop", False, ["o", "k"])
    counted = (5, 1) if any("usage" in line for line in lines) else (None, None)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == counted


def test_the_request_asks_for_a_stream_with_usage() -> None:
    wire = in_turn(events(*LINES))
    streamed(wire, temperature=0.5)
    (body,) = wire.bodies
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert (body["max_tokens"], body["temperature"]) == (50, 0.5)


# LLM-05
@pytest.mark.parametrize("end", [(), ("data: [DONE]",), ('data: {"choices":[{"del',)])
def test_a_stream_without_an_end_is_cut(end: tuple[str, ...]) -> None:
    content = "\n".join([chunk("half an"), *end]).encode()
    reply, pieces = streamed(in_turn(httpx2.Response(200, content=content)))
    assert (reply.text, reply.finish_reason, reply.cut) == ("half an", "incomplete", True)
    assert pieces == ["half an"]


def test_other_line_ends_inside_a_text_split_nothing() -> None:
    reply, _ = streamed(in_turn(events(chunk("a\u2028b\u0085c"), chunk("d", "stop"))))
    assert reply.text == "a\u2028b\u0085cd"


# LLM-01
def test_leading_reasoning_is_never_shown() -> None:
    words = ["\n<th", "ink>maybe", " Paris</th", "ink>\n\n", "Ly", "on <think>", "s"]
    reply, pieces = streamed(in_turn(events(*map(chunk, words), chunk("", "stop"))))
    assert reply.text == "Lyon <think>s"
    assert "".join(pieces) == reply.text
    assert reply.reasoning == "maybe Paris"


@pytest.mark.parametrize("words", [["<", "b>"], ["<thi"], ["  <think", " of it>"]])
def test_what_looks_like_a_tag_and_is_none_is_shown(words: list[str]) -> None:
    reply, pieces = streamed(in_turn(events(*map(chunk, words), chunk("", "stop"))))
    assert "".join(pieces) == reply.text == "".join(words)


# LLM-04
def test_reasoning_and_tool_calls_are_no_answer() -> None:
    lines = [
        chunk(reasoning_content="Let me"),
        chunk(reasoning_content=" think"),
        chunk(tool_calls=[{"function": {"name": "save"}}]),
    ]
    with pytest.raises(ModelOutputError, match="calls the tool save instead; reasoning only"):
        streamed(in_turn(events(*lines, chunk(None, "tool_calls"))))
    reply, _ = streamed(in_turn(events(*lines[:2], chunk("Lyon", "stop"))))
    assert (reply.text, reply.reasoning) == ("Lyon", "Let me think")


@pytest.mark.parametrize("chunks", [(), ("data: {}",), ('data: {"choices": []}',), ('data: "text"',), (": ping",)])
def test_a_stream_of_nothing_is_an_output_error(chunks: tuple[str, ...]) -> None:
    with pytest.raises(ModelOutputError, match="the stream has no choices"):
        streamed(in_turn(events(*chunks)))


def test_a_chunk_that_is_not_json_is_an_output_error() -> None:
    with pytest.raises(ModelOutputError, match="not JSON"):
        streamed(in_turn(events(chunk("a"), "data: {oops", chunk("b", "stop"))))


def test_an_error_in_the_middle_is_raised() -> None:
    pieces: list[str] = []
    wire = in_turn(events(chunk("a"), 'data: {"error": {"code": 503, "message": "overloaded"}}'))
    with pytest.raises(ModelRequestError, match="overloaded") as caught:
        wire.chat.stream(MESSAGES, pieces.append, purpose="answer", max_tokens=5)
    assert (caught.value.retryable, pieces) == (True, ["a"])


def test_a_server_that_does_not_stream_is_understood() -> None:
    reply, pieces = streamed(in_turn(completion("Here.")))
    assert (reply.text, pieces, reply.usage.input_tokens) == ("Here.", ["Here."], 12)
    with pytest.raises(ModelRequestError, match="daily limit"):
        streamed(in_turn({"error": {"message": "daily limit"}}))


def test_refused_stream_options_are_left_out() -> None:
    wire = in_turn(httpx2.Response(422, json={"detail": "extra fields not permitted"}), events(*LINES))
    assert streamed(wire)[0].text == "ok"
    assert ["stream_options" in body for body in wire.bodies] == [True, False]
    assert wire.chat.refused == ("stream_options",)


def test_an_error_status_is_raised_with_its_words() -> None:
    with pytest.raises(ModelRequestError, match="HTTP 429: slow down"):
        streamed(in_turn(httpx2.Response(429, json={"message": "slow down"})))


class Breaking(httpx2.SyncByteStream):
    """Some bytes, then an error of the transport."""

    def __init__(self, error: httpx2.TransportError) -> None:
        self._error = error
        self.closed = False

    def __iter__(self) -> Any:
        yield chunk("a").encode()
        raise self._error

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (httpx2.ReadError("reset"), ModelRequestError, "the connection broke: reset"),
        (httpx2.ReadTimeout("slow"), ModelRequestError, "no answer within"),
        (httpx2.ProxyError("odd"), ModelNotAvailableError, "odd"),
    ],
)
def test_a_stream_that_breaks_is_mapped(error: httpx2.TransportError, kind: type[Exception], said: str) -> None:
    body = Breaking(error)
    with pytest.raises(kind, match=said):
        streamed(in_turn(httpx2.Response(200, stream=body)))
    assert body.closed


def test_what_the_listener_raises_ends_the_stream_and_is_passed_on() -> None:
    def stop(piece: str) -> None:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        in_turn(events(*LINES)).chat.stream(MESSAGES, stop, purpose="answer", max_tokens=5)
