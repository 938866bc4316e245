"""Search, recall and answers over HTTP, and the steps of an answer as they happen."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from memory_samples import TALK, keep_old, opened
from rest_samples import Rest, rest, users_path

from backread import Memory
from backread.errors import ModelRequestError
from backread.models.base import ChatMessage, ChatModel, ChatReply
from backread.settings import Settings
from backread.testing.fakes import ChatRequest, FunctionChat, HashEmbedder
from backread.text.tokens import EstimateCounter
from backread.wire import plain

SEARCH, RECALL, ASK = (users_path("ann", name) for name in ("search", "recall", "ask"))


def talk(memory: Memory) -> None:
    memory.add(TALK[:3], user_id="ann", session_id="s1")
    keep_old(memory, TALK[3:], "s2")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path, HashEmbedder(2048)) as made:
        talk(made)
        yield made


@pytest.fixture
def server(memory: Memory) -> Iterator[Rest]:
    with rest(memory) as made:
        yield made


@pytest.fixture
def served_with(tmp_path: Path) -> Iterator[Callable[[ChatModel], Rest]]:
    """A server whose memory answers with a chat model."""
    closing: list[Callable[[], object]] = []

    def make(chat: ChatModel) -> Rest:
        settings = Settings(path=tmp_path / "chat.db", embedder="none")
        memory = Memory.open(model=chat, counter=EstimateCounter(), settings=settings)
        talk(memory)
        context = rest(memory)
        made = context.__enter__()
        closing.extend((memory.close, lambda: context.__exit__(None, None, None)))
        return made

    yield make
    for close in reversed(closing):
        close()


def texts(hits: Any) -> list[str]:
    return [hit["turn"]["text"] for hit in hits["items"]]


def read_events(text: str) -> list[tuple[str, Any]]:
    """(kind, data) of each event; comments are left out."""
    found = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        if not block.startswith(":"):
            kind, data = block.split("\n")
            found.append((kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


class TestSearch:
    def test_hits_are_those_of_the_library(self, server: Rest, memory: Memory) -> None:
        found = server.post(SEARCH, {"query": "copper kettle", "top_k": 2})
        expected = json.loads(json.dumps(plain(memory.search("copper kettle", user_id="ann", top_k=2))))
        for hit in expected["items"]:
            hit["turn"]["rest_at"] = None
        assert found == expected
        assert texts(found)[0] == TALK[0]["content"]

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            ({"roles": ["assistant"]}, ["m2"]),
            ({"speaker": "Bob"}, ["m4"]),
            ({"session_id": "s2"}, ["m4"]),
            ({"after": "2024-06-01"}, ["m3"]),
            ({"before": "2024-05-01T09:01:00Z"}, ["m1"]),
            ({"after": 1714554060, "before": 1714554061.5}, ["m2"]),
            ({"as_of": "2024-05-01T09:00:30Z"}, ["m1"]),
            ({"top_k": 1}, ["m1"]),
            ({"top_k": 1.0, "mode": "bm25"}, ["m1"]),
            ({"session_id": None, "roles": None, "after": None, "speaker": None}, ["m1", "m2", "m3", "m4"]),
        ],
    )
    def test_filters(self, server: Rest, more: dict[str, Any], expected: list[str]) -> None:
        found = server.post(SEARCH, {"query": "copper kettle vinegar ferry seven lamp", "mode": "bm25", **more})
        assert sorted(hit["turn"]["external_id"] for hit in found["items"]) == expected

    @pytest.mark.parametrize(
        "body",
        [
            {"query": ""},
            {"query": " \n"},
            {"query": None},
            {"query": ["kettle"]},
            {"query": "kettle", "top_k": 0},
            {"query": "kettle", "top_k": -1},
            {"query": "kettle", "top_k": "10"},
            {"query": "kettle", "top_k": "abc"},
            {"query": "kettle", "top_k": None},
            {"query": "kettle", "top_k": 1.5},
            {"query": "kettle", "top_k": True},
            {"query": "kettle", "limit": 3},
            {"query": "kettle", "user_id": "ann"},
            {"query": "kettle", "filters": {"user": "bo"}},
            {"query": "kettle", "mode": "best"},
            {"query": "kettle", "roles": "user"},
            {"query": "kettle", "roles": ["usr"]},
            {"query": "kettle", "session_id": ""},
            {"query": "kettle", "after": "soon"},
            {"query": "kettle", "after": True},
            {"query": "kettle", "as_of": 1e300},
        ],
        ids=str,
    )
    def test_what_is_refused(self, server: Rest, body: object) -> None:
        server.problem("POST", SEARCH, body, status=422)

    def test_a_top_k_above_the_most_is_cut_and_said(self, server: Rest) -> None:
        server.add(*(f"parcel {number} arrived" for number in range(210)))
        found = server.post(SEARCH, {"query": "parcel", "top_k": 10**30, "mode": "bm25"})
        assert len(found["items"]) == 200
        assert found["degraded"][-1]["part"] == "top_k"
        assert found["degraded"][-1]["reason"].endswith("and 200 are the most there are")
        assert server.post(SEARCH, {"query": "parcel", "top_k": 200, "mode": "bm25"})["degraded"] == []

    def test_a_mode_without_its_model_is_no_empty_result(self, server: Rest) -> None:
        told = server.problem("POST", SEARCH, {"query": "kettle", "mode": "sparse"}, status=503)
        assert told["type"] == "urn:backread:ModelNotAvailableError"
        assert told["hint"] == "set `sparse_encoder`"


class TestRecallAndAsk:
    def test_recall_is_that_of_the_library(self, server: Rest, memory: Memory) -> None:
        question = "when does the ferry leave?"
        found = server.post(RECALL, {"question": question, "budget": 80, "asked_at": "2024-07-01", "retriever": "bm25"})
        expected = plain(memory.recall(question, user_id="ann", budget=80, asked_at="2024-07-01", retriever="bm25"))
        for step in (*found["steps"], *expected["steps"]):
            step.pop("seconds")
        assert found == expected
        assert found["evidence"][0]["text"] == "The ferry leaves at seven."

    @pytest.mark.parametrize(
        ("budget", "lines"), [("none", 4), ("default", 4), (0, 0), (1000, 4)], ids=["none", "default", "0", "1000"]
    )
    def test_budgets(self, server: Rest, budget: object, lines: int) -> None:
        found = server.post(RECALL, {"question": "kettle?", "budget": budget, "strategy": "full_context"})
        assert len(found["evidence"]) == lines

    @pytest.mark.parametrize(
        "body",
        [
            {"question": " "},
            {"question": "x", "budget": -1},
            {"question": "x", "budget": None},
            {"question": "x", "budget": "all"},
            {"question": "x", "strategy": "magic"},
            {"question": "x", "asked_at": "soon"},
            {"question": "x", "stream": True},
        ],
        ids=str,
    )
    def test_what_is_refused(self, server: Rest, body: object) -> None:
        for path in (RECALL, ASK):
            server.problem("POST", path, body, status=422)
            server.problem("POST", path, body, status=422, accept="text/event-stream")

    def test_without_a_model_the_record_is_quoted(self, server: Rest) -> None:
        answer = server.post(ASK, {"question": "when does the ferry leave?"})
        assert answer["extractive"] is True
        assert answer["citations"][0]["quote"] == "The ferry leaves at seven."

    def test_a_written_answer_and_what_it_took(self, served_with: Callable[[ChatModel], Rest]) -> None:
        def reply(request: ChatRequest) -> str:
            line = re.search(r"\[\d+\](?=.*ferry)", request.messages[-1].content)
            assert line is not None
            return f"The ferry leaves at seven {line[0]}."

        server = served_with(FunctionChat(reply))
        answer = server.post(ASK, {"question": "when does the ferry leave?"})
        assert (answer["extractive"], answer["dropped_citations"]) == (False, 0)
        assert answer["text"].startswith("The ferry leaves at seven [")
        assert [citation["quote"] for citation in answer["citations"]] == ["The ferry leaves at seven."]
        told = server.send("GET", "/metrics").text
        model, usage = answer["model"], answer["usage"][0]
        assert f'backread_model_calls_total{{model="{model}",purpose="answer"}} 1.0' in told
        tokens = float(usage["output_tokens"])
        assert f'{{direction="output",model="{model}",purpose="answer"}} {tokens}' in told

    def test_a_model_that_fails_is_no_other_kind_of_answer(self, served_with: Callable[[ChatModel], Rest]) -> None:
        def down(request: object) -> str:
            raise ModelRequestError("HTTP 401: no such key", hint="set OPENAI_API_KEY", status=401)

        server = served_with(FunctionChat(down))
        told = server.problem("POST", ASK, {"question": "when does the ferry leave?"}, status=502)
        assert (told["detail"], told["hint"]) == ("HTTP 401: no such key", "set OPENAI_API_KEY")


class Waiting:
    """A chat model that answers once it is let."""

    name = model = "waiting"

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def complete(self, messages: Sequence[ChatMessage], **options: Any) -> ChatReply:
        self.asked.set()
        assert self.go.wait(20)
        raise ModelRequestError("gone after all", status=400)


class TestEvents:
    def test_steps_then_the_answer(self, server: Rest) -> None:
        body = {"question": "when does the ferry leave?"}
        response = server.send("POST", ASK, body, accept="text/event-stream")
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-accel-buffering"] == "no"
        assert response.text.isascii()
        found = read_events(response.text)
        assert [kind for kind, _ in found] == ["step"] * (len(found) - 1) + ["answer"]
        answer = found[-1][1]
        assert [data for kind, data in found if kind == "step"] == answer["recall"]["steps"]
        assert answer["citations"][0]["quote"] == "The ferry leaves at seven."
        plain_answer = server.post(ASK, body)
        assert answer["text"] == plain_answer["text"]

    def test_text_cannot_forge_an_event(self, server: Rest) -> None:
        forged = 'boiler\n\nevent: answer\ndata: {"text": "forged"}\n\n\r\n\u2028 \ud800'
        server.add(forged)
        response = server.send("POST", ASK, {"question": "boiler"}, accept="text/event-stream")
        found = read_events(response.text)
        assert [kind for kind, _ in found].count("answer") == 1
        assert forged in [line["text"] for line in found[-1][1]["recall"]["evidence"]]

    def test_a_step_is_sent_before_the_answer_is_there(self, served_with: Callable[[ChatModel], Rest]) -> None:
        chat = Waiting()
        server = served_with(chat)
        headers = {"Accept": "text/event-stream"}
        body = {"question": "when does the ferry leave?"}
        with server.client.stream("POST", ASK, json=body, headers=headers) as response:
            parts = response.iter_text()
            assert next(parts).startswith("event: step\n")
            assert chat.asked.wait(20)
            assert not chat.go.is_set()
            chat.go.set()
            found = read_events("".join(parts))
        kind, told = found[-1]
        assert (kind, told["status"], told["detail"]) == ("error", 502, "gone after all")

    def test_an_error_before_the_first_step_has_its_status(self, server: Rest) -> None:
        body = {"question": "kettle?", "retriever": "sparse"}
        told = server.problem("POST", ASK, body, status=503, accept="text/event-stream")
        assert told["type"] == "urn:backread:ModelNotAvailableError"


def test_slow_answers_keep_no_search_waiting(served_with: Callable[[ChatModel], Rest]) -> None:
    chat = Waiting()
    server = served_with(chat)
    body = {"question": "when does the ferry leave?"}
    with ThreadPoolExecutor(60) as pool:
        slow = [pool.submit(server.send, "POST", ASK, body) for _ in range(60)]  # more than there are threads
        assert chat.asked.wait(20)
        assert texts(server.post(SEARCH, {"query": "kettle", "mode": "bm25"})) == [TALK[0]["content"]]
        assert server.send("GET", "/readyz").status_code == 200
        chat.go.set()
        assert {answer.result().status_code for answer in slow} == {502}
