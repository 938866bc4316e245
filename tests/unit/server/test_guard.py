"""The guard: keys, hosts, sizes and headers, before anything of a request is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from memory_samples import opened
from rest_samples import KEYS, Rest, rest, users_path
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from backread import Memory
from backread.server.app import create_app
from backread.server.guard import EncodedPaths, is_loopback

OPEN = ("/healthz", "/readyz", "/v1/openapi.json")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path) as made:
        made.add({"role": "user", "content": "Ann's key", "id": "a1"}, user_id="ann", session_id="s1")
        made.add({"role": "user", "content": "Bo's key", "id": "b1"}, user_id="bo", session_id="s1")
        yield made


@pytest.fixture
def server(memory: Memory) -> Iterator[Rest]:
    with rest(memory, KEYS) as made:
        yield made


def operations(server: Rest) -> list[tuple[str, str]]:
    """(method, path) of everything the server has."""
    paths: dict[str, dict[str, Any]] = server.get("/v1/openapi.json", key="root")["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def filled(path: str, user_id: str) -> str:
    return path.format(user_id=user_id, turn_id="a1", session_id="s1", build_id="b-1", number=0)


class TestKeys:
    def test_without_a_key_nothing_is_there(self, server: Rest) -> None:
        told = set()
        for method, path in [*operations(server), ("GET", "/nothing"), ("GET", "/v1/nothing"), ("BREW", "/v1/users")]:
            if path in OPEN:
                assert server.send(method, path).status_code == 200
                continue
            for header in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic root"}, {"x_key": "root"}):
                response = server.send(method, filled(path, "ann"), {} if method == "POST" else None, **header)
                assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer"), path
                told.add(response.text)
        assert len(told) == 1

    @pytest.mark.parametrize("sent", ["Bearer root", "bearer root", "BEARER   root ", "Bearer\troot"])
    def test_how_a_key_is_sent(self, server: Rest, sent: str) -> None:
        expected = 401 if "\t" in sent else 200
        assert server.send("GET", "/v1/users", authorization=sent).status_code == expected

    def test_a_key_is_for_one_user(self, server: Rest) -> None:
        """What is refused looks the same whether or not the other user exists."""
        told = set()
        for method, path in operations(server):
            if "{user_id}" not in path:
                continue
            for other in ("bo", "nobody", "Ann", "ann%20", "%61nn%2F..%2Fbo"):
                response = server.send(method, filled(path, other), {} if method == "POST" else None, key="ann's")
                assert response.status_code == 403, (method, path)
                told.add(response.text)
            if method == "GET" and not path.endswith(("{build_id}", "{number}", "entries")):
                assert server.send(method, filled(path, "ann"), key="ann's").status_code == 200
                assert server.send(method, filled(path, "%61nn"), key="ann's").status_code == 200
                assert server.send(method, filled(path, "ann"), key="root").status_code == 200
        assert len(told) == 1

    @pytest.mark.parametrize("path", ["/v1/users", "/v1/stats", "/metrics"])
    def test_what_is_for_admins(self, server: Rest, path: str) -> None:
        assert server.problem("GET", path, status=403, key="ann's")["detail"] == "this needs the key of an admin"
        assert server.send("GET", path, key="root").status_code == 200

    def test_scrubbing_is_for_admins(self, server: Rest) -> None:
        problem = server.problem("POST", "/v1/scrub", status=403, key="ann's")
        assert problem["detail"] == "this needs the key of an admin"
        assert server.send("POST", "/v1/scrub", key="root").json() == {"scrubbed": True}

    def test_a_key_does_its_work(self, server: Rest) -> None:
        server.add("I like tea", user_id="ann", key="ann's")
        assert len(server.get(users_path("ann", "turns"), key="ann's")["items"]) == 2
        assert server.delete(users_path("ann") + "?confirm=everything", key="ann's")["turns"] == 2
        assert server.get("/v1/users", key="root")["items"] == ["bo"]

    def test_the_key_is_looked_at_before_the_body(self, server: Rest) -> None:
        assert server.send("POST", users_path("ann", "turns"), b"{").status_code == 401
        assert server.send("POST", users_path("ann", "turns"), b"{", key="ann's").status_code == 400

    def test_what_others_mount_is_guarded_too(self, memory: Memory) -> None:
        app = create_app(memory, keys=KEYS)

        async def page(scope: Scope, receive: Receive, send: Send) -> None:
            who = scope["state"]["principal"]
            await PlainTextResponse(f"{scope['path']} {who.user_id}")(scope, receive, send)

        app.mount("/page", page)
        with TestClient(app, base_url="http://127.0.0.1") as client:
            assert client.get("/page/x%2Fy").status_code == 401
            shown = client.get("/page/x%2Fy", headers={"Authorization": "Bearer bo's"})
            with pytest.raises(WebSocketDisconnect), client.websocket_connect("/page"):
                pass
        assert shown.text == "/page/x/y bo"
        assert shown.headers["x-content-type-options"] == "nosniff"


class TestHosts:
    @pytest.mark.parametrize(
        "host", ["127.0.0.1", "127.0.0.1:8765", "localhost", "LOCALHOST:1", "[::1]:8765", "127.9.9.9"]
    )
    def test_names_of_this_machine(self, memory: Memory, host: str) -> None:
        with rest(memory) as server:
            assert server.send("GET", "/v1/users", host=host).status_code == 200

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "localhost.evil.example", "10.0.0.1", ""])
    def test_other_names_without_keys(self, memory: Memory, host: str) -> None:
        with rest(memory) as server:
            for path in ("/v1/users", "/healthz"):
                assert "this machine" in server.problem("GET", path, status=403, host=host)["detail"]

    def test_other_names_with_keys(self, server: Rest) -> None:
        assert server.send("GET", "/v1/users", key="root", host="memory.example").status_code == 200

    def test_loopback(self) -> None:
        here = ("127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost", "LocalHost")
        away = ("0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com", "", "127.0.0.1.nip.io")
        assert [is_loopback(host) for host in here] == [True] * len(here)
        assert [is_loopback(host) for host in away] == [False] * len(away)


class TestSizes:
    def test_a_body_at_the_limit_and_one_above(self, memory: Memory) -> None:
        path = users_path("ann", "turns")
        with rest(memory, body_bytes=1047) as server:  # 47 bytes around the text
            body = {"messages": [{"role": "user", "content": "x" * 1000}]}
            assert server.send("POST", path, body).status_code == 200
            body = {"messages": [{"role": "user", "content": "x" * 1001}]}
            told = server.problem("POST", path, body, status=413)
        assert told["detail"] == "the body has more than 1,047 bytes"
        assert told["hint"] == "send it in several requests"

    def test_a_body_that_does_not_say_how_long_it_is(self, memory: Memory) -> None:
        def parts() -> Iterator[bytes]:
            yield b'{"messages": [{"role": "user", "content": "'
            for _ in range(30):
                yield b"x" * 100
            yield b'"}]}'

        with rest(memory, body_bytes=1047) as server:
            path, headers = users_path("ann", "turns"), {"Content-Type": "application/json"}
            response = server.client.post(path, content=parts(), headers=headers)
            assert len(server.get(path)["items"]) == 1
        assert (response.status_code, response.headers["content-type"]) == (413, "application/problem+json")

    def test_a_message_that_is_too_large(self, memory: Memory) -> None:
        large = {"messages": [{"role": "user", "content": "x" * (8 * 1024 * 1024 + 1)}]}
        with rest(memory) as server:
            told = server.problem("POST", users_path("ann", "turns"), large, status=413)
        assert told["type"] == "urn:backread:TurnTooLargeError"


class TestHeaders:
    def test_every_answer_bears_them(self, server: Rest) -> None:
        for response in (
            server.send("GET", "/healthz"),
            server.send("GET", "/v1/users"),
            server.send("GET", "/v1/users", key="ann's"),
            server.send("GET", "/nothing", key="root"),
            server.send("GET", users_path("ann", "export"), key="root"),
            server.send("POST", users_path("ann", "ask"), {"question": "key"}, key="root", accept="text/event-stream"),
        ):
            headers = response.headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
            assert headers["cross-origin-resource-policy"] == "same-origin"
            assert "server" not in headers

    def test_no_page_of_another_origin_is_let_in(self, server: Rest) -> None:
        asked = {"origin": "https://evil.example", "access_control_request_method": "POST"}
        for response in (
            server.send("OPTIONS", users_path("ann", "turns"), key="root", **asked),
            server.send("GET", users_path("ann", "turns"), key="root", origin="https://evil.example"),
        ):
            assert not [name for name in response.headers if name.startswith("access-control")]
        assert server.send("OPTIONS", users_path("ann", "turns"), key="root", **asked).status_code == 405


def test_a_server_that_gives_no_raw_path() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["path"])

    async def nothing(*args: object) -> Any:
        return None

    for path, raw, root in (
        ("/v1/users/a b/turns", None, ""),
        ("/v1/users/ü", b"/v1/users/%C3%BC", ""),
        ("/page/ü", b"/page/%C3%BC", ""),
        ("/m/v1/ü", b"/m/v1/%C3%BC", "/m"),
    ):
        scope = {"type": "http", "path": path, "raw_path": raw, "root_path": root}
        asyncio.run(EncodedPaths(app)(scope, nothing, nothing))
    assert seen == ["/v1/users/a%20b/turns", "/v1/users/%C3%BC", "/page/ü", "/m/v1/%C3%BC"]
