"""Replies that pass through: what is understood of them, and that every byte comes out."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backread.server.chat_replies import Reply, insert, with_object


def chunk(delta: dict[str, Any], finish: str | None = None, *, index: int = 0, **more: Any) -> str:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'c', 'choices': [choice], **more})}\n\n"


def call(**function: str) -> dict[str, Any]:
    return {
        "tool_calls": [
            {"index": 0, **({"id": "t1", "type": "function"} if "name" in function else {}), "function": function}
        ]
    }


USAGE = 'data: {"choices":[],"usage":{"total_tokens":9}}\n\n'
DONE = "data: [DONE]\n\n"


def passed(pieces: Sequence[bytes]) -> tuple[bytes, Reply, int]:
    """(what came out, the reply, how often it was said to be finished)."""
    reply, times = Reply(), 0

    async def source() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def finished() -> str:
        nonlocal times
        times += 1
        return '{"n":1}'

    async def run() -> bytes:
        return b"".join([piece async for piece in insert(source(), reply, finished)])

    return asyncio.run(run()), reply, times


def test_a_whole_answer() -> None:
    reply = Reply()
    message = {"role": "assistant", "content": "Hi", "refusal": None, "tool_calls": [{"id": "t"}]}
    reply.read({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    assert (reply.message(), reply.finish, reply.choices) == (message, "stop", 1)


def test_pieces_of_a_text_and_of_calls() -> None:
    reply = Reply()
    for text in (
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Let me "}),
        chunk({"content": "look."}),
        chunk(call(name="find", arguments="")),
        chunk(call(arguments='{"q":')),
        chunk(call(arguments=' "key"}')),
        chunk(
            {"tool_calls": [{"index": 1, "id": "t2", "type": "function", "function": {"name": "b", "arguments": "{}"}}]}
        ),
        chunk({}, "tool_calls"),
    ):
        reply.read(json.loads(text[5:]))
    assert reply.message() == {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [
            {"id": "t1", "type": "function", "function": {"name": "find", "arguments": '{"q": "key"}'}},
            {"id": "t2", "type": "function", "function": {"name": "b", "arguments": "{}"}},
        ],
    }
    assert reply.finish == "tool_calls"


def test_refusals_and_calls_of_the_old_kind() -> None:
    reply = Reply()
    for delta in (
        {"refusal": "I "},
        {"refusal": "won't."},
        {"function_call": {"name": "f", "arguments": "{"}},
        {"function_call": {"arguments": "}"}},
    ):
        reply.read({"choices": [{"index": 0, "delta": delta}]})
    expected = {"refusal": "I won't.", "function_call": {"name": "f", "arguments": "{}"}}
    assert reply.message() == {"role": "assistant", "content": None, **expected}


def test_the_first_of_several_choices() -> None:
    reply = Reply()
    for index in (1, 0, 1):
        reply.read({"choices": [{"index": index, "delta": {"content": str(index)}}]})
    assert (reply.message()["content"], reply.choices) == ("0", 2)


@pytest.mark.parametrize(
    "body",
    [{}, {"choices": None}, {"choices": ["x"]}, {"choices": [{"delta": 3}]}, {"choices": [{"delta": {"content": 3}}]},
     {"choices": [{"index": 0, "delta": {"tool_calls": ["x", {"function": 3}]}}]}],
)  # fmt: skip
def test_what_is_not_as_it_should_be_is_passed_over(body: dict[str, Any]) -> None:
    reply = Reply()
    reply.read(body)
    assert (reply.message()["content"], reply.finish) == (None, None)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"a": 1.0}', b'{"a": 1.0,"b":[2]}'),
        (b'{"a":1}\n', b'{"a":1,"b":[2]}\n'),
        (b"{}", b'{"b":[2]}'),
        (b" { } ", b' { "b":[2]} '),
        (b'{"a":{}}', b'{"a":{},"b":[2]}'),
    ],
)
def test_a_member_more_leaves_every_other_byte(body: bytes, expected: bytes) -> None:
    assert with_object(body, "b", "[2]") == expected
    assert json.loads(expected)["b"] == [2]


STREAM = (
    ": keep-alive\n\n"
    + chunk({"role": "assistant", "content": ""})
    + chunk({"content": "Où? 東京 \U0001f389 \u2028"})
    + "event: message\n"
    + chunk({"content": " \\n}"})
    + chunk({}, "stop")
    + USAGE
    + DONE
)


@given(st.lists(st.integers(0, len(STREAM.encode())), max_size=6))
def test_a_stream_comes_out_as_it_went_in_however_it_is_cut(cuts: list[int]) -> None:
    data = STREAM.encode()
    edges = [0, *sorted(cuts), len(data)]
    out, reply, times = passed([data[a:b] for a, b in itertools.pairwise(edges)])
    end = chunk({}, "stop")
    assert out.decode() == STREAM.replace(end, end.replace("}\n\n", ',"backread":{"n":1}}\n\n'))
    assert (reply.message()["content"], times) == ("Où? 東京 \U0001f389 \u2028 \\n}", 1)


def test_lines_that_end_with_a_return_too() -> None:
    data = (chunk({"content": "a"}, "stop") + DONE).replace("\n", "\r\n").encode()
    out, reply, _ = passed([data])
    assert out == data.replace(b"}]}\r\n", b'}],"backread":{"n":1}}\r\n')
    assert reply.finish == "stop"


ENDS = ("\n", "\r\n", "\r")


def over_lines(event: str) -> str:
    """The same chunk as the data of several lines."""
    value = json.loads(event[5:])
    return "".join(f"data: {line}\n" for line in json.dumps(value, indent=1).split("\n")) + "\n"


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """A stream as servers send them: comments, other fields, chunks over several lines, with or without its end."""
    noise = st.sampled_from(["", ": ping\n\n", "event: message\n", "id: 7\n", "retry: 10\n\n", "data: ping\n\n"])
    texts = draw(st.lists(st.sampled_from(["Hi ", "東京", "}", "data: [DONE]", "\u2028", "\n\n"]), max_size=4))
    events = [chunk({"content": text}) for text in texts]
    if draw(st.booleans()):
        events.append(chunk({}, "stop"))
    events += draw(st.sampled_from([[], [USAGE], [DONE], [USAGE, DONE]]))
    shaped = [
        over_lines(event)
        if event != DONE and draw(st.booleans())
        else event.replace(": ", draw(st.sampled_from([":", ": "])), 1)
        for event in events
    ]
    text = "".join(draw(noise) + event for event in shaped)
    text = draw(st.sampled_from(["", "\ufeff"])) + text.replace("\n", draw(st.sampled_from(ENDS)))
    return text.encode()


def understood(data: bytes) -> tuple[str, bool]:
    """(text, whether it was seen to end) of a stream, read at once, as a client reads it."""
    text, ended, values = "", False, list[str]()
    for line in [*data.removeprefix(b"\xef\xbb\xbf").splitlines(), b""]:
        if line.startswith(b"data:"):
            values.append(line[5:].decode("utf-8", "replace"))
        elif not line and values:
            value = "\n".join(values).strip()
            values = []
            try:
                choices = json.loads(value)["choices"] if value != "[DONE]" else []
            except (ValueError, TypeError, KeyError):
                continue
            ended = ended or value == "[DONE]" or any(choice["finish_reason"] for choice in choices)
            text += "".join(choice["delta"].get("content", "") for choice in choices)
    return text, ended


@settings(max_examples=200)
@given(streams(), st.data())
def test_whatever_was_seen_to_end_is_kept_wherever_a_stream_is_cut(data: bytes, drawn: st.DataObject) -> None:
    data = data[: drawn.draw(st.integers(0, len(data)) | st.just(len(data)), "where it breaks off")]
    edges = [0, *sorted(drawn.draw(st.lists(st.integers(0, len(data)), max_size=8), "pieces")), len(data)]
    text, ended = understood(data)
    out, reply, times = passed([data[a:b] for a, b in itertools.pairwise(edges)])
    assert (reply.message()["content"] or "", times) == (text, int(ended))
    assert out.replace(b',"backread":{"n":1}', b"") == data
    assert out.count(b'"backread"') == int(reply.finish is not None)
    assert understood(out) == (text, ended)


# PXY-04
@pytest.mark.parametrize("end", ["", "\r", "\n", "\r\n"], ids=repr)
def test_a_stream_that_ends_with_its_last_chunk(end: str) -> None:
    last = chunk({}, "stop").rstrip("\n")
    out, reply, times = passed([chunk({"content": "Hi there"}).encode(), last.encode(), end.encode()])
    assert out.decode() == chunk({"content": "Hi there"}) + last[:-1] + ',"backread":{"n":1}}' + end
    assert (reply.message()["content"], reply.finish, times) == ("Hi there", "stop", 1)


def test_a_chunk_of_one_line_waits_for_nothing() -> None:
    async def run() -> list[bytes]:
        reached: list[bytes] = []

        async def source() -> AsyncIterator[bytes]:
            yield chunk({"content": "a"}).rstrip("\n").encode() + b"\n"
            assert reached  # before the blank line behind it is there
            yield b"\n"

        async def finished() -> str:
            return "{}"

        async for piece in insert(source(), Reply(), finished):
            reached.append(piece)
        return reached

    assert b"".join(asyncio.run(run())).decode() == chunk({"content": "a"})


def test_a_long_line_in_small_pieces_costs_its_length() -> None:
    def steps(size: int) -> float:
        data = f"data: {json.dumps({'choices': [], 'x': 'a' * size})}\n\n".encode()
        pieces = [data[start : start + 64] for start in range(0, len(data), 64)]
        begin = time.perf_counter()
        assert passed(pieces)[0] == data
        return time.perf_counter() - begin

    small, large = (min(steps(size) for _ in range(3)) for size in (250_000, 2_000_000))
    assert math.log(large / small, 8) < 1.5


def test_a_stream_without_a_reason_ends_with_done() -> None:
    data = (chunk({"content": "a"}) + DONE).encode()
    assert passed([data])[::2] == (data, 1)


def test_a_stream_that_stops_is_not_finished() -> None:
    data = chunk({"content": "a"}).encode() + b'data: {"choices":[{"delta":{"con'
    assert passed([data])[::2] == (data, 0)


def test_an_error_in_a_stream_is_no_end() -> None:
    data = b'data: {"error":{"message":"out of memory"}}\n\n'
    assert passed([data])[::2] == (data, 0)
