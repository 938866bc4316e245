"""The chat proxy, in front of a server that is played: what goes through, what is kept, and how it fails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from chat_samples import CHAT, Chats, completion, piece, proxied, said, user
from memory_samples import opened
from rest_samples import KEYS

from backread import Memory
from backread.server.chat_messages import rules
from backread.testing.fakes import HashEmbedder

SYSTEM = {"role": "system", "content": "Be kind."}
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


def stream(*chunks: dict[str, Any], done: bool = True) -> httpx2.Response:
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    content = "".join([*lines, "data: [DONE]\n\n"] if done else lines).encode()
    return httpx2.Response(200, content=content, headers={"Content-Type": "text/event-stream; charset=utf-8"})


class TestThrough:
    def test_without_evidence_a_request_goes_on_byte_for_byte(self, chats: Chats) -> None:
        body = b'{ "model":"m","messages":[{"role":"user","content":"Hi","x_unknown":1.0}],"temperature":0.70}'
        headers = {"Content-Type": "application/json", "X-Backread-User": "ann", "X-Vendor": "v"}
        response = chats.client.post(f"{CHAT}?api-version=2", content=body, headers=headers)
        (sent,) = chats.behind.requests
        assert (response.status_code, sent.content) == (200, body)
        assert str(sent.url) == "http://behind/v1/chat/completions?api-version=2"
        assert (sent.headers["x-vendor"], "x-backread-user" in sent.headers) == ("v", False)

    def test_with_evidence_two_messages_say_more(self, chats: Chats) -> None:
        chats.chat(KEY)
        talk = [SYSTEM, user("Hi", x_unknown={"a": None}), said("Hi."), ASKED]
        fields = {"temperature": 0.7, "tools": [{"type": "function", "function": {"name": "f"}}], "x_vendor": {"b": 1}}
        chats.chat(*talk, user="someone", **fields)
        sent = chats.behind.bodies[-1]
        told, asked = sent["messages"].pop(0), sent["messages"].pop(-1)
        assert sent == {"model": "m", "messages": talk[1:-1], "user": "someone", **fields}
        assert told == {"role": "system", "content": f"Be kind.\n\n{rules()}"}
        assert asked["role"] == "user"
        assert asked["content"].startswith("<evidence id=")
        assert "] user: I put the spare key under the blue pot.\n" in asked["content"]
        assert asked["content"].endswith("\n\nWhere is the spare key?")

    def test_an_answer_comes_back_with_one_field_more(self, chats: Chats, memory: Memory) -> None:
        raw = json.dumps(completion("Noted."), indent=1).encode()
        chats.behind.answer = lambda request: httpx2.Response(
            200, content=raw, headers={"Content-Type": "application/json", "X-Request-Id": "r1", "Set-Cookie": "a=1"}
        )
        response = chats.send(KEY)
        assert response.content.startswith(raw[:-2])
        turns = list(memory.turns(user_id="ann"))
        told = response.json()["backread"]
        assert told.pop("prompt_hash") == "83c62fbd89debd40"
        assert told == {
            "user_id": "ann",
            "session_id": turns[0].session_id,
            "stored": [turn.turn_id for turn in turns],
            "citations": [],
            "tokens": 0,
            "degraded": [],
        }
        assert response.headers["x-backread-session"] == turns[0].session_id
        assert (response.headers["x-request-id"], "set-cookie" in response.headers) == ("r1", False)
        assert "x-backread-degraded" not in response.headers

    def test_the_lines_that_were_shown_are_cited(self, chats: Chats, memory: Memory) -> None:
        chats.chat(KEY)
        first = next(iter(memory.turns(user_id="ann")))
        told = chats.chat(ASKED)["backread"]
        cited = [line for line in told["citations"] if line["text"] == KEY["content"]]
        assert [(line["session_id"], line["sources"]) for line in cited] == [
            (first.session_id, [{"turn_id": first.turn_id, "start": 0, "end": 39}])
        ]
        assert f"[{cited[0]['number']}] user: {KEY['content']}" in chats.behind.evidence()
        assert 20 < told["tokens"] <= 1000

    def test_a_stream_comes_through_with_one_field_more(self, chats: Chats) -> None:
        chunks = [
            piece({"role": "assistant", "content": ""}),
            piece({"content": "Under the "}),
            piece({"content": "pot. \U0001f389"}),
            piece({}, "stop"),
            {"id": "c1", "choices": [], "usage": {"total_tokens": 9}},
        ]
        chats.behind.answer = lambda request: stream(*chunks)
        response = chats.send(ASKED, stream=True)
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["x-accel-buffering"] == "no"
        told = json.loads(response.text.split("\n\n")[3].removeprefix("data: "))["backread"]
        plain = re.sub(r',"backread":\{.*\}(?=\}\n)', "", response.text)
        assert plain.encode() == stream(*chunks).content
        assert chats.texts() == ["Where is the spare key?", "Under the pot. \U0001f389"]
        assert told["stored"] == [turn.turn_id for turn in chats.memory.turns(user_id="ann")]

    def test_calls_of_tools_come_through_and_are_kept(self, chats: Chats, memory: Memory) -> None:
        call = {"id": "t1", "type": "function", "function": {"name": "find", "arguments": '{"q":1}'}}
        chats.behind.answer = lambda request: stream(
            piece({"role": "assistant", "content": None, "tool_calls": [{"index": 0, **call}]}), piece({}, "tool_calls")
        )
        chats.send(ASKED, stream=True)
        chats.behind.answer = lambda request: httpx2.Response(200, json=completion("Under the pot."))
        answer = {"role": "tool", "tool_call_id": "t1", "content": "pot"}
        told = chats.chat(ASKED, said(None, tool_calls=[call]), answer)["backread"]
        turns = list(memory.turns(user_id="ann"))
        assert [turn.role for turn in turns] == ["user", "assistant", "tool", "assistant"]
        assert turns[1].attachments == ({"type": "tool_calls", "tool_calls": [call]},)
        assert told["stored"] == [turn.turn_id for turn in turns[2:]]

    def test_several_answers_are_kept_once_one_is_chosen(self, chats: Chats) -> None:
        answer = completion("one")
        answer["choices"].append({"index": 1, "finish_reason": "stop", "message": said("two")})
        chats.behind.answer = lambda request: httpx2.Response(200, json=answer)
        chats.chat(user("a"), n=2)
        assert chats.texts() == ["a"]
        chats.behind.answer = lambda request: httpx2.Response(200, json=completion("c"))
        chats.chat(user("a"), said("two"), user("b"))
        assert chats.texts() == ["a", "two", "b", "c"]

    # PXY-03
    def test_a_reply_that_was_asked_for_again_is_not_what_was_said(self, chats: Chats, memory: Memory) -> None:
        asked = user("Name the capital of my home country France")
        drafts = ["Draft 1: the capital is Paris", "Draft 2: the capital is Nice"]
        for draft in drafts:
            chats.behind.answer = lambda request, draft=draft: httpx2.Response(200, json=completion(draft))  # type: ignore[misc]
            chats.chat(asked)
        told = chats.chat(asked, said(drafts[1]), user("Thanks, noted."))["backread"]
        turns = list(memory.turns(user_id="ann"))
        assert [turn.text for turn in turns[:4]] == [asked["content"], *drafts, "Thanks, noted."]
        assert (turns[2].supersedes, len({turn.session_id for turn in turns})) == (turns[1].turn_id, 1)
        assert len(told["stored"]) == 2
        found = [hit.turn.text for hit in memory.search("capital of France", user_id="ann")]
        assert (drafts[1] in found, drafts[0] in found) == (True, False)
        chats.chat(user("What is the capital?"))
        assert ("Draft 2" in chats.behind.evidence(), "Draft 1" in chats.behind.evidence()) == (True, False)

    def test_evidence_that_comes_back_is_not_kept_as_said(self, chats: Chats) -> None:
        chats.chat(KEY)

        def echo(request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(200, json=completion(json.loads(request.content)["messages"][-1]["content"]))

        chats.behind.answer = echo
        reply = chats.chat(ASKED)["choices"][0]["message"]["content"]
        assert "<evidence id=" in reply
        chats.chat(ASKED, said(reply), user(f"You said: {reply}"))
        assert chats.texts()[2:5] == [ASKED["content"], ASKED["content"], f"You said: {ASKED['content']}"]
        assert not any("evidence" in text for text in chats.texts())

    def test_parts_that_are_no_text_go_on_as_they_are(self, chats: Chats) -> None:
        content = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
        chats.chat(user(content))
        assert chats.behind.bodies[0]["messages"] == [user(content)]

    def test_a_second_conversation_remembers_the_first(self, chats: Chats) -> None:
        chats.chat(SYSTEM, KEY)
        chats.chat(SYSTEM, KEY, said("Noted."), user("Good night."))
        assert chats.behind.evidence() == ""  # all there is to know is in the conversation
        chats.chat(SYSTEM, ASKED)
        assert f"] user: {KEY['content']}\n" in chats.behind.evidence()
        assert len({turn.session_id for turn in chats.memory.turns(user_id="ann")}) == 2

    def test_the_same_request_again_gets_the_same_evidence(self, chats: Chats) -> None:
        chats.chat(KEY)
        first = chats.chat(ASKED)["backread"]
        again = chats.chat(ASKED)["backread"]
        assert again["citations"] == first["citations"]
        assert again["stored"] == []
        assert len(chats.texts()) == 4


class TestWhose:
    @pytest.mark.parametrize(
        ("headers", "fields", "options", "expected"),
        [
            ({"X-Backread-User": "bo"}, {}, {}, "bo"),
            ({"X-Backread-User": "bo"}, {"user": "carl"}, {"user_id": "dee"}, "bo"),
            ({"X-Backread-User": "a%2Fb %C3%A9"}, {}, {}, "a/b é"),
            ({}, {"user": "carl"}, {"user_id": "dee"}, "carl"),
            ({}, {"user": " "}, {"user_id": "dee"}, "dee"),
            ({}, {"user": 3}, {"user_id": "dee"}, "dee"),
        ],
    )
    def test_without_keys(
        self, memory: Memory, headers: dict[str, str], fields: dict[str, Any], options: dict[str, Any], expected: str
    ) -> None:
        with proxied(memory, **options) as chats:
            response = chats.client.post(CHAT, json={"model": "m", "messages": [KEY], **fields}, headers=headers)
        assert response.json()["backread"]["user_id"] == expected
        assert memory.users() == [expected]

    def test_nobody_is_an_error(self, chats: Chats) -> None:
        response = chats.client.post(CHAT, json={"model": "m", "messages": [KEY]})
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (400, "no_user")
        assert "send X-Backread-User or the field `user`" in error["message"]
        assert chats.behind.requests == []

    @pytest.mark.parametrize("name", ["X-Backread-User", "X-Backread-Session"])
    @pytest.mark.parametrize("value", ["", "%", "%20", "%ff"])
    def test_a_header_that_names_nothing(self, chats: Chats, name: str, value: str) -> None:
        response = chats.send(KEY, headers={name: value})
        assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_header")
        assert chats.texts() == []

    # ISO-01
    def test_with_keys(self, memory: Memory) -> None:
        with proxied(memory, keys=KEYS, api_key="sk-up") as chats:

            def chat(key: str, headers: dict[str, str], **fields: Any) -> httpx2.Response:
                given = {"Authorization": f"Bearer {key}", **headers}
                return chats.client.post(CHAT, json={"model": "m", "messages": [ASKED], **fields}, headers=given)

            memory.add(KEY, user_id="bo")
            memory.add(user("The spare key is on a hook."), user_id="ann")
            assert chat("ann's", {}, user="bo").json()["backread"]["user_id"] == "ann"
            assert "on a hook" in chats.behind.evidence()
            assert "blue pot" not in chats.behind.evidence()
            assert chat("ann's", {"X-Backread-User": "ann"}).status_code == 200
            assert chat("ann's", {"X-Backread-User": "bo"}).status_code == 403
            assert chat("root", {"X-Backread-User": "bo"}).json()["backread"]["user_id"] == "bo"
            assert "blue pot" in chats.behind.evidence()
            assert chat("root", {}).json()["error"]["code"] == "no_user"
            assert chat("guessed", {}).status_code == 401
            assert chats.client.get("/v1/models").status_code == 401
        assert {request.headers["authorization"] for request in chats.behind.requests} == {"Bearer sk-up"}

    def test_a_key_of_ours_goes_no_further(self, memory: Memory) -> None:
        with proxied(memory, keys=KEYS) as chats:
            chats.send(KEY, headers={"Authorization": "Bearer ann's"})
        assert "authorization" not in chats.behind.requests[0].headers

    def test_without_keys_a_key_of_the_client_goes_through(self, chats: Chats) -> None:
        chats.send(KEY, headers={"Authorization": "Bearer sk-client"})
        assert chats.behind.requests[0].headers["authorization"] == "Bearer sk-client"

    def test_a_session_that_is_named(self, chats: Chats) -> None:
        response = chats.send(KEY, headers={"X-Backread-Session": "may%2F1 %F0%9F%8E%89"})
        assert response.json()["backread"]["session_id"] == "may/1 \U0001f389"
        assert response.headers["x-backread-session"] == "may%2F1%20%F0%9F%8E%89"


class TestOrder:
    def test_the_user_s_turn_is_kept_before_the_request_goes_on(self, chats: Chats) -> None:
        seen: list[list[str]] = []

        def answer(request: httpx2.Request) -> httpx2.Response:
            seen.append(chats.texts())
            return httpx2.Response(200, json=completion())

        chats.behind.answer = answer
        chats.chat(KEY)
        assert seen == [[KEY["content"]]]
        assert chats.texts() == [KEY["content"], "Noted."]

    def test_turns_are_counted(self, chats: Chats) -> None:
        chats.chat(KEY)
        chats.chat(KEY)
        assert "backread_turns_stored_total 2.0" in chats.client.get("/metrics").text


class TestOthers:
    @pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/completions", "/v1/audio/speech?a=b"])
    def test_what_is_none_of_ours_goes_through(self, chats: Chats, path: str) -> None:
        raw = b'data: {"x":1.0}\n\n'
        chats.behind.answer = lambda request: httpx2.Response(
            201, content=raw, headers={"Content-Type": "text/event-stream", "X-Request-Id": "r1", "Set-Cookie": "a=1"}
        )
        response = chats.client.post(path, content=b'{ "input": "a" }', headers={"Content-Type": "application/json"})
        (sent,) = chats.behind.requests
        assert (sent.method, str(sent.url), sent.content) == ("POST", f"http://behind{path}", b'{ "input": "a" }')
        assert (response.status_code, response.content, response.headers["x-request-id"]) == (201, raw, "r1")
        assert "set-cookie" not in response.headers
        assert chats.memory.users() == []

    @pytest.mark.parametrize(
        "path", ["/v1/users/ann/nothing", "/v1/stats/x", "/v1/a/%2e%2e/b", "/v1/a//b", "/v1/chat/other"]
    )
    def test_paths_of_ours_and_ways_out_don_t(self, chats: Chats, path: str) -> None:
        response = chats.client.post(httpx2.URL("http://127.0.0.1", raw_path=path.encode()), json={})
        assert (response.status_code, chats.behind.requests) == (404, [])

    def test_only_json_with_a_key(self, memory: Memory) -> None:
        with proxied(memory, keys=KEYS, api_key="sk-up") as chats:
            headers = {"Authorization": "Bearer ann's"}
            assert chats.client.post("/v1/embeddings", json={}).status_code == 401
            assert chats.client.post("/v1/embeddings", content=b"x", headers=headers).status_code == 415
            assert chats.client.post("/v1/embeddings", json={}, headers=headers).status_code == 200
        assert [request.headers["authorization"] for request in chats.behind.requests] == ["Bearer sk-up"]

    def test_a_server_that_leads_elsewhere(self, chats: Chats) -> None:
        chats.behind.answer = lambda request: httpx2.Response(307, headers={"Location": "http://evil/v1"})
        response = chats.client.post("/v1/embeddings", json={})
        assert (response.status_code, "location" in response.headers) == (502, False)


class TestModels:
    def test_the_list_and_one_of_them(self, chats: Chats) -> None:
        chats.behind.answer = lambda request: httpx2.Response(200, json={"path": request.url.raw_path.decode()})
        for path in ("/v1/models", "/v1/models/m-1", "/v1/models/org/m", "/v1/models/org%2Fm", "/v1/models?a=b"):
            assert chats.client.get(path).json() == {"path": path}

    @pytest.mark.parametrize("path", ["/v1/models/%2E%2E/files", "/v1/models/a/%2e%2e/%2e%2e/files", "/v1/models/"])
    def test_no_other_path_can_be_reached(self, chats: Chats, path: str) -> None:
        response = chats.client.get(path)
        assert (response.status_code, chats.behind.requests) == (404, [])

    def test_the_api_of_memory_is_there_as_before(self, chats: Chats) -> None:
        chats.chat(KEY)
        assert chats.client.get("/v1/users/ann/turns").json()["items"][0]["text"] == KEY["content"]
        assert chats.client.get("/v1/users").json()["items"] == ["ann"]
        assert CHAT not in chats.client.get("/v1/openapi.json").json()["paths"]
