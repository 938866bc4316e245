"""Nobody reads, finds, guesses or erases what is another user's: every route, every tool, every call.

Bo has a word, ids and names that Ann doesn't have. With Ann's key every request that names something of Bo's must be
answered exactly as one that names nothing at all, and hold nothing of his.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from chat_samples import CHAT, proxied, user
from mcp_samples import Mcp, text_of
from memory_samples import opened
from rest_samples import KEYS, Rest, rest, users_path

from backread import Memory, NotFoundError
from backread.integrations.mem0 import Memory as Mem0
from backread.server.requests import path_segment
from backread.server.tools import TOOLS
from backread.testing.fakes import HashEmbedder

SECRET: Final = "zebrafinch"
OF_BO: Final = (SECRET, "bo-session", "bo-turn", "Bartholomew")
MODES: Final[tuple[str, ...]] = ("hybrid", "interpolation", "rrf", "bm25", "dense")
DESIGNS: Final = ("leanmem", "lightmem", "t2mem")
FORM: Final = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}

NUMBER = {"number": "0"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path, HashEmbedder(64)) as made:
        for owner, word, speaker in (("ann", "canary", "Ann"), ("bo", SECRET, "Bartholomew")):
            for session in (f"{owner}-session", "shared"):
                messages = [
                    {
                        "role": "user",
                        "name": speaker,
                        "content": f"The {word} sings about lamp {number}.",
                        "id": f"{owner}-turn-{session}-{number}",
                        "caption": f"a {word}",
                    }
                    for number in range(3)
                ]
                made.add(messages, user_id=owner, session_id=session)
            for design in DESIGNS:
                made.build(user_id=owner, strategy=design, flush=True)
        made.index()
        yield made


@pytest.fixture
def before(memory: Memory) -> list[Any]:
    """All there is of Bo."""
    return everything(memory)


def everything(memory: Memory) -> list[Any]:
    entries = [memory.entries(user_id="bo", strategy=design) for design in DESIGNS]
    return [list(memory.turns(user_id="bo")), memory.sessions(user_id="bo"), *entries]


def ids_of_bo(memory: Memory) -> list[str]:
    return [turn.turn_id for turn in memory.turns(user_id="bo")]


def routes(client: Rest) -> list[tuple[str, str]]:
    """(method, path) of every route, those of included routers too."""
    found = set()
    waiting = list(client.client.app.routes)  # type: ignore[attr-defined]
    while waiting:
        route = waiting.pop()
        if hasattr(route, "effective_candidates"):
            waiting += route.effective_candidates()
        else:
            found |= {(method, route.path) for method in route.methods or ()}
    assert len(found) > 25
    return sorted(found)


def body_for(path: str, turn: str, session: str) -> Any:
    """A body that the route takes, and that names a turn and a session."""
    last = path.rpartition("/")[2]
    message = {"role": "user", "content": "A new lamp.", "supersedes": turn}
    return {
        "turns": {"messages": [message], "session_id": "ann-new"},
        "search": {"query": f"{SECRET} lamp", "session_id": session, "speaker": "Bartholomew"},
        "recall": {"question": f"{SECRET} lamp?"},
        "ask": {"question": f"{SECRET} lamp?"},
        "builds": {"strategy": "lightmem", "flush": True},
    }.get(last, {})


def sent(client: Rest, method: str, path: str, ids: dict[str, str], turn: str, session: str) -> httpx2.Response:
    """A request of a route, its places filled, as Ann sends it: with her key, and on the page with her cookie."""
    filled = path
    for name, value in ids.items():
        filled = filled.replace(f"{{{name}}}", path_segment(value)).replace(f"{{{name}:path}}", value)
    headers = {"Authorization": "Bearer ann's"}
    if method in ("POST", "PUT", "PATCH") and path.startswith("/ui"):
        content = f"question={SECRET}&strategy=lightmem&key=wrong"
        return client.client.request(method, filled, content=content, headers=headers | FORM, follow_redirects=False)
    body = body_for(path, turn, session) if method in ("POST", "PUT", "PATCH") else None
    if path.endswith("/search") and path.startswith("/ui"):
        filled += f"?q={SECRET}&session={path_segment(session)}&speaker=Bartholomew"
    return client.client.request(method, filled, json=body, headers=headers, follow_redirects=False)


def told(response: httpx2.Response, *named: str) -> str:
    """A response without what the request itself named, what is stored under it, and what is new each time."""
    forms = {re.escape(form) for name in named for form in (name, path_segment(name))}
    return re.sub(rf"\b(?:{'|'.join(forms)})\b", "…", response.text)


def sign_in(client: Rest) -> None:
    signed = client.client.post("/ui/signin", content="key=ann's", headers=FORM, follow_redirects=False)
    assert signed.status_code == 303


def leaks(text: str, *, asked: bool = False) -> list[str]:
    """What of Bo's is in a text; what a request asked with may be repeated."""
    return [word for word in OF_BO if word in text and not (asked and word in (SECRET, "Bartholomew"))]


def test_no_route_opens_another_user_s_history(memory: Memory, before: list[Any]) -> None:
    turn = ids_of_bo(memory)[0]
    with rest(memory, KEYS) as client:
        sign_in(client)
        tried = 0
        for method, path in routes(client):
            if "{user_id}" not in path:
                continue
            of_bo = {"user_id": "bo", "turn_id": turn, "session_id": "bo-session", "build_id": "b-1"} | NUMBER
            of_none = {
                "user_id": "no",
                "turn_id": "x" * 17,
                "session_id": "no-session",
                "build_id": "b-1",
                "number": "0",
            }
            there = sent(client, method, path, of_bo, turn, "bo-session")
            nobody = sent(client, method, path, of_none, "x" * 17, "no-session")
            assert there.status_code == nobody.status_code, (method, path)
            assert there.status_code in (403, 404), (method, path, there.text)
            assert told(there, *of_bo.values()) == told(nobody, *of_none.values()), (method, path)
            tried += 1
    assert tried > 20
    assert everything(memory) == before


def test_ids_of_another_user_are_ids_of_nothing(memory: Memory, before: list[Any]) -> None:
    with rest(memory, KEYS) as client:
        sign_in(client)
        for turn in (ids_of_bo(memory)[0], "bo-turn-shared-1"):
            for method, path in routes(client):
                if "{user_id}" not in path or path in ("/v1/users/{user_id}", "/ui/users/{user_id}"):
                    continue
                own = {"user_id": "ann", "turn_id": turn, "session_id": "bo-session", "build_id": "b-1"} | NUMBER
                none = {
                    "user_id": "ann",
                    "turn_id": "x" * 17,
                    "session_id": "no-session",
                    "build_id": "b-1",
                    "number": "0",
                }
                there = sent(client, method, path, own, turn, "bo-session")
                nothing = sent(client, method, path, none, "x" * 17, "no-session")
                if not path.endswith("/builds"):  # the second one meets the first
                    assert there.status_code == nothing.status_code, (method, path)
                if "{turn_id}" in path or "{session_id}" in path:
                    assert there.status_code == 404, (method, path, there.text)
                    assert told(there, turn, "bo-session") == told(nothing, "x" * 17, "no-session"), (method, path)
                assert leaks(told(there, turn, "bo-session"), asked=True) == [], (method, path)
    assert everything(memory) == before


def test_what_is_for_whoever_runs_the_server_is_not_for_users(memory: Memory) -> None:
    with rest(memory, KEYS) as client:
        sign_in(client)
        for method, path in routes(client):
            if "{user_id}" not in path:
                response = sent(client, method, path, {"name": "x", "path": "x"}, "", "")
                assert leaks(response.text) == [], (method, path)
        for path in ("/v1/users", "/v1/stats", "/metrics"):
            assert client.send("GET", path, key="ann's").status_code == 403
        sign_in(client)  # one of the routes ended the visit
        for path in ("/ui/settings", "/ui/reports"):
            assert client.client.get(path, follow_redirects=False).status_code in (403, 404)


def test_a_cursor_leads_into_one_s_own_history_only(memory: Memory) -> None:
    with rest(memory, KEYS) as client:
        for place in ("turns", "sessions", "sessions/shared/turns", "entries?strategy=lightmem"):
            path, _, asked = place.partition("?")
            query = f"?{asked}&limit=1" if asked else "?limit=1"
            theirs = client.get(f"{users_path('bo')}/{path}{query}", key="bo's")["next_cursor"]
            assert theirs is not None
            response = client.send("GET", f"{users_path('ann')}/{path}{query}&cursor={theirs}", key="ann's")
            assert leaks(response.text) == []
            assert response.status_code in (200, 404), response.text  # "shared" is a session of both


def test_no_tool_gives_or_takes_what_is_another_user_s(memory: Memory, before: list[Any]) -> None:
    turn = ids_of_bo(memory)[0]
    given: dict[str, list[dict[str, Any]]] = {
        "add_memory": [{"messages": [{"role": "user", "content": "A lamp."}]}],
        "search_memories": [{"query": SECRET}, {"query": "lamp", "session_id": "bo-session"}],
        "recall": [{"question": SECRET}],
        "ask": [{"question": f"{SECRET} lamp"}],
        "get_turns": [{"turn_ids": [turn]}, {"turn_ids": ["bo-turn-shared-1"]}, {"session_id": "bo-session"}, {}],
        "list_sessions": [{}],
        "delete_memory": [{"turn_id": turn}, {"turn_id": "bo-turn-shared-1"}, {"session_id": "bo-session"}],
    }
    assert given.keys() == TOOLS.keys(), "a tool that is new: say here what it is tried with"
    tools = Mcp(memory, user_id="ann")
    for name, calls in given.items():
        for arguments in calls:
            result = tools.call(name, **arguments)
            text = f"{text_of(result)} {result.structured_content}"
            for value in (turn, SECRET, "bo-turn-shared-1", "bo-session"):
                if value in str(arguments):
                    text = text.replace(value, "…")
            assert leaks(text) == [], (name, arguments)
            if name == "delete_memory" or (name == "get_turns" and arguments):
                assert result.is_error, (name, arguments)
            assert tools.call(name, **arguments, user_id="bo").is_error, name
    assert everything(memory) == before


@pytest.mark.parametrize("mode", MODES)
def test_no_search_finds_what_is_another_user_s(memory: Memory, mode: str) -> None:
    for query in (SECRET, f"{SECRET} lamp", "Bartholomew"):
        for hit in memory.search(query, user_id="ann", mode=mode, top_k=50):
            assert leaks(str(hit)) == []
    assert len(memory.search("lamp", user_id="ann", mode=mode, session_id="bo-session")) == 0


@pytest.mark.parametrize("design", [*DESIGNS, "naive_rag", "full_context", "trailmem", "search_o1", "lazymem"])
def test_no_design_shows_what_is_another_user_s(memory: Memory, design: str) -> None:
    found = memory.recall(f"{SECRET} lamp", user_id="ann", strategy=design)
    assert leaks(str(found.evidence)) == []
    assert {source.turn_id for line in found.evidence for source in line.sources} & set(ids_of_bo(memory)) == set()


def test_no_call_gives_or_takes_what_is_another_user_s(memory: Memory, before: list[Any]) -> None:
    for turn in (ids_of_bo(memory)[0], "bo-turn-shared-1"):
        with pytest.raises(NotFoundError):
            memory.get(turn, user_id="ann")
        assert memory.delete(user_id="ann", turn_id=turn).turns == 0
    assert memory.delete(user_id="ann", session_id="bo-session").turns == 0
    with pytest.raises(NotFoundError):
        list(memory.turns(user_id="ann", session_id="bo-session"))
    assert leaks(str(list(memory.export(user_id="ann")))) == []
    assert leaks(str(memory.sessions(user_id="ann"))) == []
    memory.add({"role": "user", "content": "Mine.", "id": "bo-turn-shared-1"}, user_id="ann", session_id="shared")
    assert memory.get("bo-turn-shared-1", user_id="ann").text == "Mine."
    memory.delete(user_id="ann")
    assert everything(memory) == before


def test_the_proxy_shows_a_model_one_history_only(memory: Memory, before: list[Any]) -> None:
    asked = user(f"What does the {SECRET} sing, Bartholomew?")
    with proxied(memory, keys=KEYS) as chats:
        for headers in ({}, {"X-Backread-Session": "bo-session"}, {"X-Backread-Session": "shared"}):
            sent_with = {"Authorization": "Bearer ann's", **headers}
            body = {"model": "m", "messages": [asked], "user": "bo"}
            response = chats.client.post(CHAT, json=body, headers=sent_with)
            assert response.status_code == 200
            assert f"The {SECRET} sings" not in str(chats.behind.bodies)
            assert not set(ids_of_bo(memory)) & set(response.text.split('"'))
        forged = {"Authorization": "Bearer ann's", "X-Backread-User": "bo"}
        assert chats.client.post(CHAT, json={"model": "m", "messages": [asked]}, headers=forged).status_code == 403
    assert everything(memory) == before


def test_a_facade_shows_one_history_only(memory: Memory, before: list[Any]) -> None:
    facade = Mem0(memory)
    assert leaks(str(facade.search(SECRET, user_id="ann"))) == []
    assert leaks(str(facade.get_all(user_id="ann"))) == []
    assert everything(memory) == before
