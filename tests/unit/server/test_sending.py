"""Answers of a bounded size: where they end, how the rest is read, and attachments that are named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_samples import opened
from rest_samples import Rest, rest, users_path

from backread import Memory
from backread.server.sending import in_pieces, turn_json
from backread.types import Turn

ROOM = 4000
TURNS, SEARCH, EXPORT = (users_path("ann", name) for name in ("turns", "search", "export"))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path) as made:
        yield made


@pytest.fixture
def server(memory: Memory) -> Iterator[Rest]:
    with rest(memory, answer_bytes=ROOM) as made:
        yield made


def whole(server: Rest, turn_id: str) -> str:
    """A text, read to its end."""
    text = ""
    at: int | None = 0
    while at is not None:
        response = server.send("GET", f"{TURNS}/{turn_id}?offset={at}")
        assert len(response.content) <= ROOM
        text, at = text + response.json()["text"], response.json()["rest_at"]
    return text


def walk(server: Rest, more: str = "") -> list[list[dict[str, Any]]]:
    """All pages; none is larger than an answer may be."""
    pages, cursor = [], ""
    while True:
        response = server.send("GET", f"{TURNS}?limit=500{more}{cursor}")
        assert len(response.content) <= ROOM + 200  # the cursor
        pages.append(response.json()["items"])
        if response.json()["next_cursor"] is None:
            return pages
        cursor = f"&cursor={response.json()['next_cursor']}"


@given(
    st.lists(st.integers(0, 3000) | st.sampled_from([9_000, 50_000]), min_size=1, max_size=8),
    st.sampled_from("xü\n😀\ud800"),
)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_text_can_be_read_whatever_its_size(tmp_path_factory: Any, sizes: list[int], sign: str) -> None:
    texts = [f"{number}." + sign * size for number, size in enumerate(sizes)]
    with opened(tmp_path_factory.mktemp("m")) as memory, rest(memory, answer_bytes=ROOM) as server:
        server.add(*texts)
        found = [turn for page in walk(server) for turn in page]
        assert [whole(server, turn["turn_id"]) for turn in found] == texts
        for turn, text in zip(found, texts, strict=True):
            assert text.startswith(turn["text"])
            assert turn["rest_at"] == (None if turn["text"] == text else len(turn["text"]))


def test_a_search_ends_where_its_answer_is_full(server: Rest) -> None:
    server.add(*(f"honey {number} {'x' * 1500}" for number in range(9)))
    response = server.send("POST", SEARCH, {"query": "honey", "mode": "bm25", "top_k": 9})
    assert len(response.content) <= ROOM + 500
    found = response.json()
    assert 1 <= len(found["items"]) < 9
    assert sum(item["count"] for item in found["degraded"] if item["part"] == "size") >= 9 - len(found["items"])
    server.add("plum " + "y" * 9000)
    (hit,) = server.post(SEARCH, {"query": "plum", "mode": "bm25"})["items"]
    assert 0 < len(hit["turn"]["text"]) == hit["turn"]["rest_at"] < 9005


def test_the_same_words_again_and_again_are_left_out_when_the_answer_is_full(server: Rest) -> None:
    server.add(*["honey " + "x" * 900] * 9)
    found = server.post(SEARCH, {"query": "honey", "mode": "bm25"})
    (hit,) = found["items"]
    left_out = [item["count"] for item in found["degraded"] if item["part"] == "size"]
    assert (1 + len(hit["also"]) + sum(left_out), len(hit["also"]) >= 1) == (9, True)


def test_an_export_is_sent_in_pieces(server: Rest) -> None:
    texts = ["x" * 700_000, "ü", "y" * 10]
    server.add(*texts)
    with server.client.stream("GET", EXPORT) as response:
        sizes = [len(chunk) for chunk in response.iter_raw()]
        assert max(sizes) < 700_000
    lines = server.send("GET", EXPORT).text.splitlines()
    assert [json.loads(line)["content"] for line in lines] == texts


@given(st.lists(st.text(max_size=9), max_size=9))
def test_pieces_are_the_same_text(parts: list[str]) -> None:
    assert "".join(in_pieces(parts)) == "".join(parts)


def test_attachments_are_named_and_fetched_apart(server: Rest, memory: Memory) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9000}}
    call = {"type": "tool_calls", "tool_calls": [{"id": "ü"}]}
    message = {"role": "user", "content": "a picture", "attachments": [image, call], "id": "m1"}
    memory.add(message, user_id="ann", session_id="s")
    named = server.get(TURNS)["items"][0]["attachments"]
    assert server.post(SEARCH, {"query": "picture", "mode": "bm25"})["items"][0]["turn"]["attachments"] == named
    assert server.get(f"{TURNS}/m1?attachments=named")["attachments"] == named
    given: list[dict[str, Any]] = [image, call]
    for number, item in enumerate(given):
        data = server.send("GET", f"{TURNS}/m1/attachments/{number}").content
        assert json.loads(data) == item
        assert named[number] == {
            "type": item["type"],
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
    server.problem("GET", f"{TURNS}/m1/attachments/2", status=404)
    server.problem("GET", f"{TURNS}/m1/attachments/-1", status=422)
    assert server.get(f"{TURNS}/m1")["attachments"] == named  # there is no room for the first
    memory.add({"role": "user", "content": "a call", "attachments": [call], "id": "m2"}, user_id="ann", session_id="t")
    assert server.get(f"{TURNS}/m2")["attachments"] == [call]
    assert [turn["attachments"] for page in walk(server, "&attachments=full") for turn in page] == [named, [call]]
    found = server.post(SEARCH, {"query": "call", "mode": "bm25", "attachments": "full"})["items"]
    assert [hit["turn"]["attachments"] for hit in found] == [[call]]


def test_what_else_is_large_leaves_no_room_for_a_text(memory: Memory) -> None:
    memory.add({"role": "user", "content": "text", "caption": "c" * 9000, "id": "m"}, user_id="ann", session_id="s")
    turn: Turn = memory.get("m", user_id="ann")
    assert turn_json(turn, 1000, whole=True) is None
    cut = json.loads(turn_json(turn, 1000) or "")
    assert (cut["text"], cut["rest_at"], len(cut["caption"])) == ("", 0, 9000)
