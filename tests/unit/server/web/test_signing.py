"""Signing in: a key typed once, a cookie no script can read, and one history for each user's key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from memory_samples import opened
from rest_samples import KEYS
from web_samples import Browser, browser, elements

from backread import Memory
from backread.server.web.visits import COOKIE

SIGN_IN = "/ui/signin"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path) as made:
        made.add({"role": "user", "content": "Ann's key", "id": "a1"}, user_id="ann", session_id="s1")
        made.add({"role": "user", "content": "Bo's key", "id": "b1"}, user_id="bo", session_id="s1")
        yield made


@pytest.fixture
def page(memory: Memory) -> Iterator[Browser]:
    with browser(memory, KEYS) as made:
        yield made


def views(user_id: str) -> list[str]:
    own = f"/ui/users/{user_id}"
    return [
        *(own, f"{own}/sessions/s1", f"{own}/turns/a1", f"{own}/search", f"{own}/search?q=key", f"{own}/ask"),
        *(f"{own}/entries", f"{own}/builds"),
    ]


def sign_in(page: Browser, key: str, **fields: str) -> str:
    response = page.post(SIGN_IN, 303, form=fields, key=key)
    return response.headers["location"]


def test_without_a_visit_everything_leads_to_the_form(page: Browser) -> None:
    for path in ("/", *views("ann"), "/ui/settings", "/ui/reports", "/ui/nothing", "/ui/users/nobody"):
        location = page.get(path, 303).headers["location"]
        assert location.startswith(f"{SIGN_IN}?next=%2F"), path
        assert "HX-Redirect" in page.get(path, 401, hx_request="true").headers
    for path in ("/ui/users/ann/ask", "/ui/users/ann/builds", "/ui/users/ann/builds/b-1/cancel"):
        assert page.post(path, 401, question="key").headers["hx-redirect"] == SIGN_IN
    text = page.get(SIGN_IN).text
    assert "ann" not in text
    assert 'type="password"' in text
    page.get("/ui/static/page.css")


def test_a_key_is_typed_once(page: Browser) -> None:
    assert sign_in(page, " ann's ", next="/ui/users/ann/search?q=key") == "/ui/users/ann/search?q=key"
    assert "Ann's key" in page.main("/ui/users/ann/sessions/s1")
    assert page.get(SIGN_IN, 303).headers["location"] == "/"
    assert page.get("/", 303).headers["location"] == "/ui/users/ann"
    shown = page.get("/ui/users/ann").text
    assert "Sign out" in shown
    assert "/ui/settings" not in shown


def test_the_cookie(page: Browser) -> None:
    for scheme, secure in (("http", False), ("https", True)):
        response = page.post(SIGN_IN, 303, headers={"X-Forwarded-Proto": scheme}, key="ann's")
        name, *attributes = response.headers["set-cookie"].split("; ")
        assert name.startswith(f"{COOKIE}=")
        assert "ann" not in name
        expected = {"Max-Age=604800", "HttpOnly", "SameSite=Strict", "Path=/"} | ({"Secure"} if secure else set())
        assert set(attributes) == expected


@pytest.mark.parametrize("key", ["wrong key", "", "Ann's", "ANN'S", "b'root'"])
def test_nobodys_key(page: Browser, key: str) -> None:
    response = page.post(SIGN_IN, 401, key=key, next="/ui/users/ann")
    assert "This is nobody's key." in response.text
    assert 'value="/ui/users/ann"' in response.text
    assert "set-cookie" not in response.headers
    (field,) = [item for item in elements(response.text) if item.attributes.get("type") == "password"]
    assert "value" not in field.attributes


def test_a_users_key_opens_one_history(page: Browser) -> None:
    sign_in(page, "ann's")
    told = set()
    for path in (*views("bo"), *views("nobody"), *views("Ann"), "/ui/users/ann%2F..%2Fbo"):
        told.add(page.get(path, 403, hx_request="true").text)
    for path in ("/ui/users/bo/ask", "/ui/users/bo/builds", "/ui/users/bo/builds/b-1/cancel"):
        told.add(page.post(path, 403, headers={"HX-Request": "true"}, question="key").text)
    assert len(told) == 1  # whether or not there is such a user
    for path in ("/ui/settings", "/ui/reports", "/ui/reports/x", "/ui/reports/x/file"):
        page.get(path, 403)
    page.get("/ui/users/ann/turns/b1", 404)
    for path in views("ann"):
        page.get(path, 303 if path.endswith("/a1") else 200)


def test_an_admins_key_opens_all(page: Browser) -> None:
    assert sign_in(page, "root") == "/"
    for path in ("/", *views("bo")[:2], "/ui/settings", "/ui/reports"):
        page.get(path)


def test_a_visit_does_not_open_the_api(page: Browser) -> None:
    sign_in(page, "root")
    page.get("/v1/users", 401)
    page.get("/metrics", 401)


def test_a_bearer_key_opens_the_page_too(page: Browser) -> None:
    assert "Ann's key" in page.main("/ui/users/ann/sessions/s1", authorization="Bearer ann's")
    page.get("/ui/users/bo", 403, authorization="Bearer ann's")


def test_signing_out(page: Browser) -> None:
    sign_in(page, "ann's")
    before = page.client.cookies[COOKIE]
    response = page.post(f"{SIGN_IN}/end", 303)
    assert response.headers["location"] == SIGN_IN
    assert f"{COOKIE}=; Max-Age=0" in response.headers["set-cookie"]
    page.client.cookies.set(COOKIE, before)
    page.get("/ui/users/ann", 303)  # the visit is over, and not only the cookie gone


@pytest.mark.parametrize("token", ["", "x", "ann's", "a" * 5000])
def test_tokens_of_no_visit(page: Browser, token: str) -> None:
    page.get("/ui/users/ann", 303, cookie=f"{COOKIE}={token}")


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example", "/v1/users"])
def test_nobody_is_led_away(page: Browser, to: str) -> None:
    assert sign_in(page, "ann's", next=to) == "/"
    assert page.get(f"{SIGN_IN}?next={to}", 303).headers["location"] == "/"


def test_without_keys_there_is_nothing_to_sign_in_to(memory: Memory) -> None:
    with browser(memory) as page:
        assert page.get(SIGN_IN, 303).headers["location"] == "/"
        assert "Sign out" not in page.get("/").text
        page.post(SIGN_IN, 401, key="root")
