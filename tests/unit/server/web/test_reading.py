"""Histories, sessions on a timeline, a session like a chat, and the way to one turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from memory_samples import TALK, keep_old, opened
from web_samples import Browser, browser, elements

from backread import Memory


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path) as made:
        yield made


@pytest.fixture
def page(memory: Memory) -> Iterator[Browser]:
    with browser(memory) as made:
        yield made


class TestHistories:
    def test_an_empty_store_says_what_to_do(self, page: Browser) -> None:
        assert "Nothing is stored yet. backread demo makes a store" in page.main("/")

    def test_users_with_counts(self, memory: Memory, page: Browser) -> None:
        keep_old(memory, TALK, "s1")
        memory.add(TALK[:1], user_id="a/b", session_id="s1")
        rows = [row.text for row in page.seen("/", "tr")][1:]
        assert rows == ["a/b 1 1 Wed 2024-05-01 Wed 2024-05-01", "ann 1 4 Wed 2024-05-01 Sat 2024-06-01"]
        assert [link["href"] for link in page.seen("/", "a") if link.text in ("ann", "a/b")] == [
            "/ui/users/a%2Fb",
            "/ui/users/ann",
        ]

    def test_finding_a_user(self, memory: Memory, page: Browser) -> None:
        for name in ("Anna", "Joanna", "Bo"):
            memory.add(TALK[:1], user_id=name, session_id="s1")
        part = page.get("/?q=ANN", hx_request="true").text
        assert [item.text for item in elements(part) if item.tag == "th" and item["scope"] == "row"] == [
            "Anna",
            "Joanna",
        ]
        assert "<html" not in part
        assert "No user's id has this in it." in page.get("/?q=zoe", hx_request="true").text
        assert "<html" in page.get("/?q=zoe", hx_request="true", hx_history_restore_request="true").text

    def test_pages_of_users(self, memory: Memory, page: Browser) -> None:
        for number in range(101):
            memory.add(TALK[:1], user_id=f"u{number:03}", session_id="s1")
        assert len(page.seen("/?q=u", "tr")) == 101  # and the head
        following = [link["href"] for link in page.seen("/?q=u", "a") if link.attributes.get("rel") == "next"]
        assert following == ["?q=u&page=2"]
        assert [item.text[:4] for item in page.seen("/?q=u&page=2", "tr")][1:] == ["u100"]


class TestSessions:
    def test_newest_first_with_how_they_begin(self, memory: Memory, page: Browser) -> None:
        memory.add(TALK[:2], user_id="ann", session_id="one")
        memory.add(TALK[2:3], user_id="ann", session_id="two")
        keep_old(memory, TALK[3:], "three")
        path = "/ui/users/ann"
        assert [item.text for item in page.seen(path, "h2") if item.attributes.get("id", "").startswith("h-")] == [
            "June 2024",
            "May 2024",
            "Time unknown",
        ]
        assert [item.text for item in page.seen(path, "li") if "data-move" in item.attributes] == [
            "Sat 1 09:00 two The ferry leaves at seven. 1 turns",
            "Wed 1 09:00 one I bought a copper kettle. 2 turns",
            "no time three My lamp is green. 1 turns",
        ]
        cells = [item for item in page.seen(path, "a") if item["href"].startswith("#m-")]
        assert [(item["href"], item["title"]) for item in cells] == [
            ("#m-2024-05", "May 2024: 1 session, 2 turns"),
            ("#m-2024-06", "June 2024: 1 session, 1 turn"),
        ]

    def test_pages_and_where_a_month_is(self, memory: Memory, page: Browser) -> None:
        for number in range(201):
            month = "2024-01" if number == 0 else "2024-02"
            message = {
                "role": "user",
                "content": f"m{number}",
                "timestamp": f"{month}-01T{number // 60:02}:{number % 60:02}Z",
            }
            memory.add(message, user_id="ann", session_id=f"s{number:03}")
        path = "/ui/users/ann"
        assert len(page.seen(path, "li")) == 2 + 200
        assert [item["href"] for item in page.seen(path, "a") if "#m-" in item["href"]] == [
            "?page=2#m-2024-01",
            "#m-2024-02",
        ]
        assert [item["href"] for item in page.seen(f"{path}?page=2", "a") if "#m-" in item["href"]] == [
            "#m-2024-01",
            "?page=1#m-2024-02",
        ]
        assert "m0" in page.main(f"{path}?page=2")

    def test_a_month_is_one_group_whatever_the_zones(self, memory: Memory, page: Browser) -> None:
        for name, at in (("a", "2024-05-31T12:00Z"), ("b", "2024-06-01T00:30+09:00"), ("c", "2024-05-31T18:00Z")):
            memory.add({"role": "user", "content": name, "timestamp": at}, user_id="ann", session_id=name)
        keep_old(memory, [{"role": "user", "content": "d"}], "d")
        titles = [item.text for item in page.seen("/ui/users/ann", "h2") if "id" in item.attributes]
        assert titles == ["May 2024", "June 2024", "Time unknown", "Keys"]

    def test_nobody(self, page: Browser) -> None:
        assert "This user has no turns." in page.main("/ui/users/nobody")


class TestSession:
    def test_a_chat(self, memory: Memory, page: Browser) -> None:
        first, *_ = keep_old(memory, TALK, "s1")
        picture = {
            "role": "user",
            "name": "Ann",
            "content": None,
            "caption": "a green lamp",
            "attachments": [{"type": "image"}],
        }
        keep_old(memory, [picture], "s1")
        path = "/ui/users/ann/sessions/s1"
        turns = page.seen(path, kind="turn")
        assert [item.text for item in turns] == [
            "Wed 2024-05-01 Ann I bought a copper kettle. 09:00",
            "assistant Descale it with vinegar. 09:01",
            "Sat 2024-06-01 Ann The ferry leaves at seven. 09:00",
            "Bob My lamp is green. no time",
            "Ann image a green lamp attached image no time",
        ]
        assert turns[0]["id"] == f"t-{first}"
        assert [("other" in item.classes, "first" in item.classes) for item in turns[:2]] == [
            (False, True),
            (True, True),
        ]
        (at,) = [item for item in page.seen(path, "a") if item.attributes.get("href") == f"#t-{first}"]
        assert at["title"] == f"2024-05-01 09:00 · {first}"

    def test_a_time_of_receipt_is_marked(self, memory: Memory, page: Browser) -> None:
        (turn_id,) = memory.add(TALK[3], user_id="ann", session_id="s1").turn_ids
        at = memory.get(turn_id, user_id="ann").received_at
        assert at is not None
        (turn,) = page.seen("/ui/users/ann/sessions/s1", kind="turn")
        assert turn.text.endswith(f"{at:%Y-%m-%d} Bob My lamp is green. received {at:%H:%M}")
        (link,) = [item for item in page.seen("/ui/users/ann/sessions/s1", "a") if item.text.startswith("received")]
        assert link["title"] == f"received {at:%Y-%m-%d %H:%M} · {turn_id}"

    def test_what_was_superseded_is_marked_and_leads_on(self, memory: Memory, page: Browser) -> None:
        memory.add(TALK, user_id="ann", session_id="s1")
        new = {"role": "user", "name": "Ann", "content": "At eight.", "id": "m9", "supersedes": "m3"}
        (later,) = memory.add(new, user_id="ann", session_id="s2").turn_ids
        old = memory.get("m3", user_id="ann").turn_id
        (turn,) = page.seen("/ui/users/ann/sessions/s1", kind="old")
        assert "Superseded by a later turn The ferry leaves at seven." in turn.text
        assert [
            item["href"] for item in page.seen("/ui/users/ann/sessions/s1", "a") if item.text == "a later turn"
        ] == [f"/ui/users/ann/turns/{later}"]
        (turn,) = page.seen("/ui/users/ann/sessions/s2", kind="turn")
        assert "Replaces an earlier turn At eight." in turn.text
        assert f"/ui/users/ann/turns/{old}" in [item["href"] for item in page.seen("/ui/users/ann/sessions/s2", "a")]

    def test_a_long_one_is_read_page_by_page(self, memory: Memory, page: Browser) -> None:
        ids = keep_old(memory, [{"role": "user", "content": f"line {number}"} for number in range(250)], "s1")
        path = "/ui/users/ann/sessions/s1"
        shown = [[item.text.split()[-3] for item in page.seen(f"{path}?page={n}", kind="turn")] for n in (1, 2, 3, 4)]
        assert [len(texts) for texts in shown] == [100, 100, 50, 0]
        assert [shown[0][0], shown[1][0], shown[2][-1]] == ["0", "100", "249"]
        assert "page 3 of 3" in page.main(f"{path}?page=3")
        location = page.get(f"/ui/users/ann/turns/{ids[200]}", 303).headers["location"]
        assert location == f"{path}?page=3#t-{ids[200]}"
        assert f"t-{ids[200]}" in [item.attributes.get("id") for item in page.seen(location, kind="turn")]

    def test_sessions_before_and_after(self, memory: Memory, page: Browser) -> None:
        for number in range(3):
            message = {"role": "user", "content": "x", "timestamp": f"2024-05-0{number + 1}T09:00Z"}
            memory.add(message, user_id="ann", session_id=f"s{number}")
        links = {
            item["rel"]: item["href"]
            for item in page.seen("/ui/users/ann/sessions/s1", "a")
            if "rel" in item.attributes
        }
        assert links == {"prev": "/ui/users/ann/sessions/s0", "next": "/ui/users/ann/sessions/s2"}


class TestTurn:
    def test_it_is_shown_in_its_place(self, memory: Memory, page: Browser) -> None:
        ids = keep_old(memory, [{"role": "user", "content": f"line {number}"} for number in range(9)], "s1")
        part = page.get(f"/ui/users/ann/turns/{ids[4]}", hx_request="true").text
        turns = [item for item in elements(part) if "turn" in item.classes]
        assert [item.text.split()[-3] for item in turns] == ["1", "2", "3", "4", "5", "6", "7"]
        assert ["target" in item.classes for item in turns] == [False] * 3 + [True] + [False] * 3
        assert f'href="/ui/users/ann/sessions/s1#t-{ids[4]}"' in part
        assert "<html" not in part

    def test_by_the_callers_own_id(self, memory: Memory, page: Browser) -> None:
        memory.add(TALK, user_id="ann", session_id="s1")
        turn = memory.get("m2", user_id="ann")
        location = page.get("/ui/users/ann/turns/m2", 303).headers["location"]
        assert location == f"/ui/users/ann/sessions/s1#t-{turn.turn_id}"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/ui/users/ann/sessions/s9", "user 'ann' has no session 's9'"),
        ("/ui/users/ann/turns/t9", "no turn 't9' of user 'ann'"),
        ("/ui/users/ann/nothing", "there is no such page"),
        ("/ui/nothing", "there is no such page"),
    ],
)
def test_what_is_not_there(page: Browser, path: str, told: str) -> None:
    for headers in ({}, {"hx_request": "true"}):
        response = page.get(path, 404, **headers)
        (problem,) = [item for item in elements(response.text) if "problem" in item.classes]
        assert problem.text.startswith(told)
        assert problem["role"] == "alert"
        assert ("<html" in response.text) is (not headers)


@pytest.mark.parametrize("query", ["page=0", "page=-1", "page=x", "page=99999999999"])
def test_what_is_no_page(page: Browser, query: str) -> None:
    assert "page: Input should be" in page.get(f"/ui/users/ann?{query}", 422).text
