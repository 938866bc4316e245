"""Addresses: any text can be an id, and nobody is led away from the page."""

from __future__ import annotations

import pytest

from backread.server.web.paths import own_path, session_path, turn_path, ui_path, user_path


def test_ids_are_encoded() -> None:
    assert user_path("a/b") == "/ui/users/a%2Fb"
    assert session_path("ann", "..", page=2) == "/ui/users/ann/sessions/%2E%2E?page=2"
    assert turn_path("ann", "\ud800") == "/ui/users/ann/turns/%ED%A0%80"
    assert ui_path("reports") == "/ui/reports"


def test_parameters_that_say_nothing_are_left_out() -> None:
    assert user_path("ann", "search", q="a&b=c", mode="", speaker=None) == "/ui/users/ann/search?q=a%26b%3Dc"


@pytest.mark.parametrize("good", ["/", "/ui/users/ann?page=2", "/ui/signin"])
def test_ways_on(good: str) -> None:
    assert own_path(good) == good


@pytest.mark.parametrize(
    "bad",
    [
        "//evil.example/",
        "https://evil.example/",
        "/\\evil.example",
        "/ui/\\evil",
        "\\\\evil",
        "/v1/users",
        "javascript:alert(1)",
        "/ui/x\r\nSet-Cookie: a=b",
        "/ui/ü",
        "",
        "ui/",
    ],
)
def test_ways_off(bad: str) -> None:
    assert own_path(bad) == "/"
