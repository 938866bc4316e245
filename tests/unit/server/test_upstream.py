"""The server behind the proxy: its address, and which headers go through."""

from __future__ import annotations

import pytest

from backread.errors import InvalidInputError
from backread.server.upstream import Upstream, passed_back


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1"),
        ("http://localhost:8000/", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1"),
        ("https://host/v1/chat/completions", "https://host/v1"),
        ("https://host/openai/v1", "https://host/openai/v1"),
    ],
)
def test_addresses(given: str, expected: str) -> None:
    assert Upstream.at(given).base_url == expected


@pytest.mark.parametrize("given", ["", "localhost:8000", "ftp://host", "http://", "http://host/v1?a=1"])
def test_what_is_no_address(given: str) -> None:
    with pytest.raises(InvalidInputError, match="is no address of a chat server"):
        Upstream.at(given)


def test_a_key_is_never_shown() -> None:
    assert "sk-1" not in repr(Upstream.at("http://host", api_key="sk-1"))


GIVEN = {
    "host": "127.0.0.1",
    "authorization": "Bearer mine",
    "content-type": "application/json",
    "content-length": "12",
    "accept-encoding": "gzip",
    "cookie": "a=1",
    "x-backread-user": "ann",
    "x-forwarded-for": "10.0.0.1",
    "connection": "keep-alive",
    "openai-organization": "org",
    "x-vendor": "kept",
}


@pytest.mark.parametrize(
    ("api_key", "keyed", "authorization"),
    [
        (None, False, "Bearer mine"),  # passed through
        (None, True, None),  # it was for the proxy
        ("sk-up", False, "Bearer sk-up"),
        ("sk-up", True, "Bearer sk-up"),
    ],
)
def test_what_is_sent(api_key: str | None, keyed: bool, authorization: str | None) -> None:
    expected = {
        "content-type": "application/json",
        "openai-organization": "org",
        "x-vendor": "kept",
        "accept-encoding": "identity",
    }
    if authorization is not None:
        expected["authorization"] = authorization
    assert Upstream.at("http://host", api_key=api_key).headers(GIVEN, keyed=keyed) == expected


def test_what_is_passed_back() -> None:
    given = [
        ("Content-Type", "application/json"),
        ("Content-Length", "9"),
        ("Transfer-Encoding", "chunked"),
        ("Set-Cookie", "a=1"),
        ("Retry-After", "2"),
        ("X-Request-Id", "r1"),
    ]
    assert passed_back(given) == {"Content-Type": "application/json", "Retry-After": "2", "X-Request-Id": "r1"}
