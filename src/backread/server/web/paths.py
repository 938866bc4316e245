"""Addresses of the page. Ids are percent-encoded as in the API, so that any text can be one."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote_from_bytes

from backread.server.guard import PAGE_PREFIX
from backread.server.requests import path_segment

__all__ = ["SIGN_IN", "STATIC", "own_path", "session_path", "turn_path", "ui_path", "user_path"]

SIGN_IN: Final = f"{PAGE_PREFIX}signin"
STATIC: Final = f"{PAGE_PREFIX}static"


def ui_path(*segments: str, **query: object) -> str:
    """The path of a view; parameters that are None or "" are left out."""
    given = [f"{name}={_quoted(str(value))}" for name, value in query.items() if value not in (None, "")]
    path = PAGE_PREFIX + "/".join(path_segment(segment) for segment in segments)
    return "?".join([path, "&".join(given)] if given else [path])


def user_path(user_id: str, *segments: str, **query: object) -> str:
    """The path of a view of one user's history."""
    return ui_path("users", user_id, *segments, **query)


def session_path(user_id: str, session_id: str, **query: object) -> str:
    """Where a session is read."""
    return user_path(user_id, "sessions", session_id, **query)


def turn_path(user_id: str, turn_id: str) -> str:
    """What leads to a turn in its session."""
    return user_path(user_id, "turns", turn_id)


def own_path(text: str) -> str:
    """`text` when it is a path of the page, else its first view: nobody is led elsewhere by what an address holds."""
    printable = text.isascii() and text.isprintable() and "\\" not in text
    return text if printable and (text == "/" or text.startswith(PAGE_PREFIX)) else "/"


def _quoted(text: str) -> str:
    return quote_from_bytes(text.encode("utf-8", "surrogatepass"), safe="")
