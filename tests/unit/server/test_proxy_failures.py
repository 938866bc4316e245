"""The chat proxy when something fails: the server behind, the client, or memory itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from chat_samples import CHAT, Chats, completion, piece, proxied, said, user
from memory_samples import opened

from backread import Memory
from backread.errors import ModelRequestError, StoreBusyError, StoreError
from backread.server.conversations import Conversations
from backread.testing.fakes import HashEmbedder

KEY = user("I put the spare key under the blue pot.")
ASKED = user("Where is the spare key?")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path, HashEmbedder(1024)) as made:
        yield made


@pytest.fixture
def chats(memory: Memory) -> Iterator[Chats]:
    with proxied(memory) as made:
        yield made


class TestFailures:
    @pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
    def test_what_the_server_refuses_comes_back_as_it_is(self, chats: Chats, status: int) -> None:
        told = b'{"error": {"message": "no", "type": "t", "code": "c"}}'
        chats.behind.answer = lambda request: httpx2.Response(
            status, content=told, headers={"Content-Type": "application/json", "Retry-After": "2"}
        )
        for streamed in (False, True):
            response = chats.send(user(f"stream {streamed}"), stream=streamed)
            assert (response.status_code, response.content) == (status, told)
            assert (response.headers["retry-after"], "x-backread-session" in response.headers) == ("2", True)
        assert chats.texts() == ["stream False", "stream True"]

    @pytest.mark.parametrize(
        ("error", "status", "code"),
        [
            (httpx2.ConnectError("refused"), 502, "upstream_unreachable"),
            (httpx2.RemoteProtocolError("closed"), 502, "upstream_unreachable"),
            (httpx2.ReadTimeout("slow"), 504, "upstream_timeout"),
        ],
        ids=str,
    )
    def test_a_server_that_is_down(self, chats: Chats, error: Exception, status: int, code: str) -> None:
        def down(request: httpx2.Request) -> httpx2.Response:
            raise error

        chats.behind.answer = down
        response = chats.send(KEY)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)
        assert chats.texts() == [KEY["content"]]

    def test_a_server_that_leads_elsewhere(self, chats: Chats) -> None:
        chats.behind.answer = lambda request: httpx2.Response(307, headers={"Location": "http://evil/v1"})
        response = chats.send(KEY)
        assert (response.status_code, "location" in response.headers) == (502, False)
        assert response.json()["error"]["code"] == "upstream_redirect"
        assert len(chats.behind.requests) == 1

    @pytest.mark.parametrize("status", [400, 413, 422, 500])
    def test_evidence_that_is_refused_doesn_t_keep_the_chat_from_going_on(self, chats: Chats, status: int) -> None:
        chats.chat(KEY)

        def answer(request: httpx2.Request) -> httpx2.Response:
            if "<evidence" in request.content.decode():
                return httpx2.Response(status, json={"error": {"message": "roles must alternate"}})
            return httpx2.Response(200, json=completion("I don't know."))

        chats.behind.answer = answer
        response = chats.send(ASKED)
        told = response.json()["backread"]
        assert told["citations"] == []
        assert told["degraded"][-1]["reason"].startswith(f"the server behind refused the evidence (HTTP {status})")
        assert response.headers["x-backread-degraded"] == "recall"
        assert chats.behind.bodies[-1]["messages"] == [ASKED]

    # PXY-01
    @pytest.mark.parametrize("status", [400, 500])
    def test_a_template_that_takes_one_message_of_instructions_at_the_start(self, chats: Chats, status: int) -> None:
        def answer(request: httpx2.Request) -> httpx2.Response:
            if any(message["role"] == "system" for message in json.loads(request.content)["messages"][1:]):
                return httpx2.Response(status, json={"error": {"message": "system message must come first"}})
            return httpx2.Response(200, json=completion())

        chats.behind.answer = answer
        chats.chat(KEY)
        kind = {"role": "system", "content": "You are kind."}
        for number, talk in enumerate(
            ([kind, ASKED], [user("Hi"), said("Hi."), ASKED], [kind, user("Hello"), said("Hi."), ASKED]), 2
        ):
            told = chats.chat(*talk)["backread"]
            assert len(chats.behind.requests) == number  # one for each chat
            assert KEY["content"] in [line["text"] for line in told["citations"]]
            assert told["degraded"] == []
            assert "blue pot" in chats.behind.bodies[-1]["messages"][-1]["content"]

    def test_a_form_that_is_refused_is_not_tried_again(self, chats: Chats) -> None:
        """A server that checks its instructions gets our rules with the evidence, from the next chat on."""
        kind = {"role": "system", "content": "You are kind."}

        def answer(request: httpx2.Request) -> httpx2.Response:
            if json.loads(request.content)["messages"][0] not in (kind, KEY):
                return httpx2.Response(400, json={"error": {"message": "other instructions than agreed"}})
            return httpx2.Response(200, json=completion())

        chats.behind.answer = answer
        chats.chat(KEY)
        told = chats.chat(kind, ASKED)["backread"]
        assert (len(chats.behind.requests), told["citations"], told["degraded"][-1]["part"]) == (3, [], "recall")
        told = chats.chat(kind, user("Where may the spare key be?"))["backread"]
        assert (len(chats.behind.requests), told["degraded"]) == (4, [])
        assert KEY["content"] in [line["text"] for line in told["citations"]]
        chats.chat(kind, user("And the spare key?"))
        assert len(chats.behind.requests) == 5

    def test_what_is_refused_either_way_is_refused(self, chats: Chats) -> None:
        chats.chat(KEY)
        chats.behind.answer = lambda request: httpx2.Response(400, json={"error": {"message": "no such model"}})
        response = chats.send(ASKED)
        assert (response.status_code, response.json()) == (400, {"error": {"message": "no such model"}})

    @pytest.mark.parametrize(
        "answer",
        [
            httpx2.Response(200, json={"error": {"message": "out of memory"}}),
            httpx2.Response(200, content=b"not json", headers={"Content-Type": "text/plain"}),
            httpx2.Response(200, json=["x"]),
        ],
        ids=["error", "text", "list"],
    )
    def test_what_is_no_completion_comes_back_as_it_is(self, chats: Chats, answer: httpx2.Response) -> None:
        chats.behind.answer = lambda request: answer
        assert chats.send(KEY).content == answer.content
        assert chats.texts() == [KEY["content"]]

    def test_a_stream_that_breaks_off_is_not_kept(self, chats: Chats) -> None:
        class Breaking(httpx2.AsyncByteStream):
            async def __aiter__(self) -> Any:
                yield f"data: {json.dumps(piece({'content': 'Under th'}))}\n\n".encode()
                raise httpx2.RemoteProtocolError("closed")

        chats.behind.answer = lambda request: httpx2.Response(
            200, stream=Breaking(), headers={"Content-Type": "text/event-stream"}
        )
        response = chats.send(ASKED, stream=True)
        last = [line for line in response.text.split("\n") if line][-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "upstream_broke_off"
        assert "[DONE]" not in response.text
        assert chats.texts() == [ASKED["content"]]

    # PXY-04
    def test_a_stream_that_ends_with_its_last_chunk_is_kept(self, chats: Chats) -> None:
        lines = [f"data: {json.dumps(each)}" for each in (piece({"content": "Hi there"}), piece({}, "stop"))]
        chats.behind.answer = lambda request: httpx2.Response(
            200, content="\n\n".join(lines).encode(), headers={"Content-Type": "text/event-stream"}
        )
        response = chats.send(ASKED, stream=True)
        assert json.loads(response.text.split("\n\n")[1].removeprefix("data: "))["backread"]["stored"]
        assert chats.texts() == [ASKED["content"], "Hi there"]

    @pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"", b"\xff"])
    def test_a_body_that_is_no_object(self, chats: Chats, body: bytes) -> None:
        response = chats.client.post(CHAT, content=body, headers={"Content-Type": "application/json"})
        assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_json")

    def test_a_page_of_a_browser_is_refused(self, chats: Chats) -> None:
        response = chats.client.post(CHAT, content=b"{}", headers={"Content-Type": "text/plain"})
        assert response.status_code == 415
        assert chats.client.post(CHAT, json={}, headers={"Host": "evil.example"}).status_code == 403

    @pytest.mark.parametrize("messages", [[], None, "hello", {"role": "user"}], ids=repr)
    def test_what_holds_no_messages_is_for_the_server_to_judge(self, chats: Chats, messages: Any) -> None:
        chats.behind.answer = lambda request: httpx2.Response(400, json={"error": {"message": "messages?"}})
        body = {"model": "m", "messages": messages}
        response = chats.client.post(CHAT, json=body, headers={"X-Backread-User": "ann"})
        assert (response.status_code, response.json()["error"]["message"]) == (400, "messages?")
        assert (chats.behind.bodies, chats.texts()) == ([body], [])

    def test_messages_of_the_wrong_shape_are_said_and_go_on(self, chats: Chats) -> None:
        chats.chat(KEY)
        told = chats.chat("hello", ASKED)["backread"]
        assert (told["session_id"], told["stored"]) == (None, [])
        assert {item["part"] for item in told["degraded"]} == {"store"}
        sent = chats.behind.bodies[-1]["messages"]
        assert "blue pot" in sent[1].pop("content")
        assert sent == ["hello", {"role": "user"}]
        told = chats.chat(ASKED, "hello")["backread"]
        assert {item["part"] for item in told["degraded"]} == {"store"}
        assert "blue pot" in str(chats.behind.bodies[-1])


class TestMemoryFails:
    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            (ModelRequestError("the embedder is down"), "the embedder is down"),
            (StoreError("/home/ann/secret.db: disk I/O error"), "The record could not be read or written."),
            (RuntimeError("sk-123"), "an error that was not expected: a bug of the server"),
        ],
        ids=["model", "store", "bug"],
    )
    def test_a_recall_that_fails_is_said(
        self, chats: Chats, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
    ) -> None:
        def broken(*given: object, **more: object) -> object:
            raise error

        monkeypatch.setattr(chats.memory, "recall", broken)
        response = chats.send(KEY)
        assert response.headers["x-backread-degraded"] == "recall"
        assert response.json()["backread"]["degraded"] == [{"part": "recall", "reason": reason, "count": None}]
        assert chats.texts() == [KEY["content"], "Noted."]

    def test_a_recall_that_takes_too_long_is_left(self, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
        over = threading.Event()
        monkeypatch.setattr(memory, "recall", lambda *given, **more: over.wait(20))
        with proxied(memory, recall_seconds=0.01) as chats:
            response = chats.send(KEY)
            over.set()
        reason = response.json()["backread"]["degraded"][0]["reason"]
        assert reason == "took too long; the chat went on without"

    def test_a_store_that_can_t_be_written_is_said(self, chats: Chats, monkeypatch: pytest.MonkeyPatch) -> None:
        def busy(*given: object, **more: object) -> object:
            raise StoreBusyError("locked")

        chats.chat(KEY)
        monkeypatch.setattr(chats.memory, "add", busy)
        response = chats.send(ASKED)
        told = response.json()["backread"]
        assert response.headers["x-backread-degraded"] == "store"
        assert (told["stored"], told["session_id"]) == ([], None)
        assert "blue pot" in chats.behind.evidence()  # what can be read is read

    def test_a_reply_that_can_t_be_kept_is_said(self, chats: Chats, monkeypatch: pytest.MonkeyPatch) -> None:
        def busy(*given: object) -> object:
            raise StoreBusyError("locked")

        monkeypatch.setattr(Conversations, "reply", busy)
        told = chats.chat(KEY)["backread"]
        assert [item["part"] for item in told["degraded"]] == ["store"]
        assert len(told["stored"]) == 1

    def test_what_recall_did_without_is_said(self, tmp_path: Path) -> None:
        with opened(tmp_path) as memory, proxied(memory) as chats:
            response = chats.send(KEY)
        parts = {item["part"] for item in response.json()["backread"]["degraded"]}
        assert set(response.headers.get("x-backread-degraded", "").split(", ")) - {""} == parts
