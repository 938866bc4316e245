"""Turns and sessions over HTTP: what `Memory` does, for any id and any text, page by page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_samples import TALK, opened
from rest_samples import Rest, rest, users_path

from backread import Memory
from backread.testing.fakes import HashEmbedder
from backread.wire import plain

ODD_IDS = ["a/b", "ü", "..", ".", "%2F", "%", "a b", "?x=1", "#", "a\nb", "😀", "\ud800", "ann\x00", "…/…", "+"]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path, HashEmbedder(2048)) as made:
        yield made


@pytest.fixture
def server(memory: Memory) -> Iterator[Rest]:
    with rest(memory) as made:
        yield made


TURNS = users_path("ann", "turns")


def walk(server: Rest, path: str, limit: int) -> list[list[Any]]:
    pages, cursor = [], ""
    while True:
        page = server.get(f"{path}?limit={limit}{cursor}")
        pages.append(page["items"])
        if page["next_cursor"] is None:
            return pages
        cursor = f"&cursor={page['next_cursor']}"


class TestAdd:
    def test_the_receipt_is_that_of_the_library(self, server: Rest, memory: Memory) -> None:
        receipt = server.post(TURNS, {"messages": TALK, "session_id": "s1"})
        assert receipt == {
            "session_id": "s1",
            "turn_ids": [turn.turn_id for turn in memory.turns(user_id="ann")],
            "stored": 4,
            "known": 0,
            "rejected": [],
        }
        again = server.post(TURNS, {"messages": TALK[:1], "session_id": "s1"})
        assert (again["stored"], again["known"], again["turn_ids"]) == (0, 1, receipt["turn_ids"][:1])

    def test_a_session_is_made(self, server: Rest) -> None:
        for body in ({"messages": TALK[:1]}, {"messages": TALK[1:2], "session_id": None}):
            assert server.post(TURNS, body)["session_id"].startswith("s-")

    def test_what_cannot_be_kept_is_listed(self, server: Rest) -> None:
        messages = [{"role": "user", "content": " "}, {"role": "user", "content": "kept"}, {"rle": "user"}]
        receipt = server.post(TURNS, {"messages": messages})
        assert receipt["stored"] == 1
        assert [item["position"] for item in receipt["rejected"]] == [0, 2]
        assert receipt["rejected"][0]["reason"] == "the user message has no text and no attachment"
        assert "'rle'" in receipt["rejected"][1]["reason"]

    @pytest.mark.parametrize(
        ("body", "status", "kind"),
        [
            ({"messages": [{"role": "user", "content": " "}]}, 422, "urn:backread:BlankTextError"),
            ({"messages": [{"role": "user", "content": "x", "timestamp": "soon"}]}, 422, "urn:backread:TimeError"),
            ({"messages": [{"role": "king", "content": "x"}]}, 422, "urn:backread:InvalidInputError"),
            ({"messages": [{"role": "user", "content": "new", "id": "m1"}]}, 409, "urn:backread:ConflictError"),
            ({"messages": []}, 422, "about:blank"),
            ({"messages": "x"}, 422, "about:blank"),
            ({"messages": ["x"]}, 422, "about:blank"),
            ({"messages": TALK[:1], "session_id": ""}, 422, "about:blank"),
            ({"messages": TALK[:1], "session_id": 5}, 422, "about:blank"),
            ({"messages": TALK[:1], "session": "s"}, 422, "about:blank"),
            ({"messages": TALK[:1], "user_id": "bo"}, 422, "about:blank"),
            ({}, 422, "about:blank"),
            ([], 422, "about:blank"),
            (None, 415, "about:blank"),
        ],
    )
    def test_what_is_refused_stores_nothing(self, server: Rest, body: object, status: int, kind: str) -> None:
        server.post(TURNS, {"messages": TALK[:1], "session_id": "s1"})
        assert server.problem("POST", TURNS, body, status=status)["type"] == kind
        assert len(server.get(TURNS)["items"]) == 1
        assert server.get("/v1/users")["items"] == ["ann"]


class TestAnyText:
    @pytest.mark.parametrize("user", ODD_IDS)
    def test_any_id_works_in_a_path(self, server: Rest, memory: Memory, user: str) -> None:
        server.add("mine", user_id="ann")
        message = {"role": "user", "content": "odd", "id": user}
        server.post(users_path(user, "turns"), {"messages": [message], "session_id": user})
        assert [turn.text for turn in memory.turns(user_id=user)] == ["odd"]
        assert set(server.get("/v1/users")["items"]) == {"ann", user}
        own = users_path(user).rpartition("/")[2]
        assert server.get(users_path(user, "turns", own))["external_id"] == user
        assert [turn["text"] for turn in server.get(users_path(user, "sessions", own, "turns"))["items"]] == ["odd"]
        assert server.post(users_path(user, "search"), {"query": "odd", "session_id": user})["items"][0]["turn"]
        assert server.delete(users_path(user, "turns", own))["turns"] == 1
        server.post(users_path(user, "turns"), {"messages": [message], "session_id": user})
        assert server.delete(users_path(user, "sessions", own))["sessions"] == 1
        server.post(users_path(user, "turns"), {"messages": [message], "session_id": user})
        assert server.delete(users_path(user) + "?confirm=everything")["user_id"] == user
        assert [turn.text for turn in memory.turns(user_id="ann")] == ["mine"]

    @pytest.mark.parametrize(
        ("path", "said"),
        [
            ("/v1/users/%20/turns", "must not be blank"),
            ("/v1/users/%ff/turns", "is not UTF-8, percent-encoded"),
            ("/v1/users/%zz/turns", 'has a "%" that encodes nothing; write it as %25'),
            ("/v1/users/a%/turns", 'has a "%" that encodes nothing; write it as %25'),
        ],
    )
    def test_what_is_no_id(self, server: Rest, path: str, said: str) -> None:
        raw = server.client.build_request("GET", path)
        raw.url = raw.url.copy_with(raw_path=path.encode())
        response = server.client.send(raw)
        assert response.status_code == 422
        assert response.json()["errors"] == [{"where": "path.user_id", "what": said}]

    @given(st.text(st.characters(), min_size=1) | st.just("\ud800 \udfff\ud83d") | st.just("a\u2028b\x00\x7f"))
    @settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_any_text_comes_back_as_it_was(self, server: Rest, text: str) -> None:
        message = {"role": "user", "content": f"x{text}", "name": f"n{text}", "caption": text}
        message["attachments"] = [{"type": "note", text: {"deep": [text]}}]  # type: ignore[assignment]
        receipt = server.post(TURNS, {"messages": [message]})
        turn = server.get(f"{TURNS}/{receipt['turn_ids'][0]}")
        assert (turn["text"], turn["speaker"], turn["caption"]) == (message["content"], message["name"], text)
        assert turn["attachments"] == message["attachments"]


class TestReading:
    def test_a_turn_by_either_id(self, server: Rest, memory: Memory) -> None:
        server.post(TURNS, {"messages": TALK, "session_id": "s1"})
        by_external = server.get(f"{TURNS}/m2")
        assert by_external == {**json.loads(json.dumps(plain(memory.get("m2", user_id="ann")))), "rest_at": None}
        assert server.get(f"{TURNS}/{by_external['turn_id']}") == by_external
        told = server.problem("GET", f"{TURNS}/m9", status=404)
        assert (told["type"], told["detail"]) == ("urn:backread:NotFoundError", "no turn 'm9' of user 'ann'")
        assert told["hint"] is None

    def test_pages_of_turns_sessions_and_users(self, server: Rest) -> None:
        for session in ("s1", "s2", "s3"):
            server.add(*(f"{session} {number}" for number in range(3)), session_id=session)
        server.add("mine", user_id="bo")
        pages = walk(server, TURNS, 4)
        assert [len(page) for page in pages] == [4, 4, 1]
        assert [turn["text"] for page in pages for turn in page] == [f"s{s} {n}" for s in (1, 2, 3) for n in range(3)]
        (second,) = walk(server, users_path("ann", "sessions", "s2", "turns"), 4)
        assert [turn["text"] for turn in second] == ["s2 0", "s2 1", "s2 2"]
        sessions = walk(server, users_path("ann", "sessions"), 2)
        assert [[session["session_id"] for session in page] for page in sessions] == [["s1", "s2"], ["s3"]]
        assert sessions[0][0]["turns"] == 3
        assert walk(server, "/v1/users", 1) == [["ann"], ["bo"]]

    def test_what_is_not_there(self, server: Rest) -> None:
        server.add("x")
        for path in ("turns", "sessions"):
            assert server.get(users_path("nobody", path)) == {"items": [], "next_cursor": None}
        told = server.problem("GET", users_path("ann", "sessions", "s9", "turns"), status=404)
        assert told["detail"] == "user 'ann' has no session 's9'"

    @pytest.mark.parametrize("query", ["limit=0", "limit=-1", "limit=abc", "limit=", "limit=1.5", "page=2", "cursor=x"])
    def test_what_is_no_page(self, server: Rest, query: str) -> None:
        for path in (TURNS, users_path("ann", "sessions"), "/v1/users"):
            server.problem("GET", f"{path}?{query}", status=422)

    def test_a_page_holds_at_most_500(self, server: Rest) -> None:
        server.add(*(f"t{number}" for number in range(501)))
        page = server.get(f"{TURNS}?limit=1000000000")
        assert len(page["items"]) == 500
        assert [turn["text"] for turn in server.get(f"{TURNS}?cursor={page['next_cursor']}")["items"]] == ["t500"]
        assert len(server.get(TURNS)["items"]) == 50

    def test_an_export_is_taken_back(self, server: Rest) -> None:
        server.post(TURNS, {"messages": TALK, "session_id": "s1"})
        response = server.send("GET", users_path("ann", "export"))
        assert response.headers["content-type"] == "application/jsonl"
        lines = [json.loads(line) for line in response.text.splitlines()]
        assert [line["content"] for line in lines] == [message["content"] for message in TALK]
        messages = [{key: line[key] for key in line if key not in ("user_id", "session_id")} for line in lines]
        assert server.post(TURNS, {"messages": messages, "session_id": "s1"})["known"] == 4
        assert server.send("GET", users_path("nobody", "export")).text == ""


class TestDelete:
    def test_the_receipt_and_then_nothing(self, server: Rest) -> None:
        turn_ids = server.add("a kettle", "a lamp", "a ferry")["turn_ids"]
        server.post(users_path("ann", "search"), {"query": "lamp", "mode": "dense"})  # makes vectors
        receipt = server.delete(f"{TURNS}/{turn_ids[1]}")
        assert (receipt["user_id"], receipt["turns"], receipt["sessions"], receipt["vectors"]) == ("ann", 1, 0, 1)
        assert receipt["postings"] > 0
        assert server.problem("DELETE", f"{TURNS}/{turn_ids[1]}", status=404)["type"].endswith("NotFoundError")
        assert server.delete(f"{users_path('ann', 'sessions', 's1')}?scrub=false")["turns"] == 2
        server.problem("DELETE", users_path("ann", "sessions", "s1"), status=404)
        server.problem("DELETE", f"{users_path('ann')}?confirm=everything", status=404)

    @pytest.mark.parametrize(
        "query", ["", "?confirm=", "?confirm=yes", "?confirm=ann", "?session_id=s1", "?confirm=everything&session=s1"]
    )
    def test_a_user_is_erased_on_purpose_only(self, server: Rest, query: str) -> None:
        server.add("kept")
        server.problem("DELETE", users_path("ann") + query, status=422)
        assert len(server.get(TURNS)["items"]) == 1

    def test_a_path_that_lost_its_end_erases_nothing_more(self, server: Rest) -> None:
        """Clients shorten "/v1/users/ann/sessions/.." to what is before it; nothing is there."""
        server.add("kept")
        for path in ("/v1/users/ann/", "/v1/users/", "/v1/users/ann/sessions", "/v1/users/ann/sessions/", "/v1/users"):
            response = server.send("DELETE", f"{path}?confirm=everything")
            assert response.status_code in (404, 405)
        assert len(server.get(TURNS)["items"]) == 1

    def test_an_id_of_another_user_is_a_missing_id(self, server: Rest) -> None:
        (turn_id,) = server.add("mine", user_id="bo")["turn_ids"]
        server.add("mine", user_id="ann")
        for method in ("GET", "DELETE"):
            theirs = server.problem(method, f"{TURNS}/{turn_id}", status=404)
            nobodys = server.problem(method, f"{TURNS}/{turn_id[:-1]}", status=404)
            assert theirs["detail"].replace(turn_id, turn_id[:-1]) == nobodys["detail"]
        assert len(server.get(users_path("bo", "turns"))["items"]) == 1
