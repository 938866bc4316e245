"""Cursors: opaque, unharmed by what changes, and refused when they are not ours."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.errors import InvalidInputError, NotFoundError
from backread.server.paging import Page, cut_page, written


def pages(items: list[str], size: int, cursor: str | None = None) -> Page[str]:
    kept, after = cut_page(items, str, size, cursor)
    return Page(tuple(kept), written(after))


@given(st.lists(st.text(st.characters()), unique=True, max_size=12), st.integers(1, 14))
def test_every_item_once(items: list[str], size: int) -> None:
    seen: list[str] = []
    page = pages(items, size)
    seen += page.items
    while page.next_cursor is not None:
        assert len(page.items) == size
        page = pages(items, size, page.next_cursor)
        assert page.items
        seen += page.items
    assert seen == items


def test_lists_that_change_meanwhile() -> None:
    cursor = pages(["a", "b", "c", "d"], 2).next_cursor
    assert pages(["0", "a", "aa", "b", "bb", "c", "d"], 9, cursor).items == ("bb", "c", "d")
    assert pages(["a", "c", "d"], 9, cursor).items == ("c", "d")  # b was deleted
    assert pages(["a", "b", "d"], 9, cursor).items == ("d",)  # c was deleted
    assert pages(["a", "b"], 9, cursor) == Page((), None)
    with pytest.raises(NotFoundError, match="gone"):
        pages(["a", "d"], 9, cursor)


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "ü",
        "!!!!",
        "\ud800",
        encoded(["a"]),
        encoded({"a": "b"}),
        encoded(["a", 1]),
        encoded(None),
        "W" * 99_999,
    ],
)
def test_what_is_no_cursor(cursor: str) -> None:
    with pytest.raises(InvalidInputError, match="cursor can't be read"):
        pages(["a", "b"], 1, cursor)


def test_nesting_that_never_ends() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 200_000).decode()
    with pytest.raises(InvalidInputError):
        pages(["a"], 1, deep)
