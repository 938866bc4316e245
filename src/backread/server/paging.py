"""Pages of lists: a cursor names where the next one starts, so that nothing is repeated or lost while lists change."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from backread.errors import InvalidInputError, NotFoundError
from backread.wire import json_text

__all__ = ["Page", "cut_page", "read", "written"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a list, and the cursor of those after them; `next_cursor` is None when these were the last."""

    items: tuple[T, ...]
    next_cursor: str | None


def cut_page(
    items: Sequence[T], key: Callable[[T], str], size: int, cursor: str | None
) -> tuple[Sequence[T], tuple[str, str] | None]:
    """At most `size` of the items, which have different keys, and the keys that the cursor after them is made of.

    Raises:
        InvalidInputError: no cursor of ours.
        NotFoundError: neither item it names is in the list any longer.
    """
    start = 0
    if (names := read(cursor)) is not None:
        places = {key(item): place for place, item in enumerate(items)}
        last, following = (places.get(name) for name in names)
        if last is None and following is None:
            raise NotFoundError("the items where this page starts are gone", hint="start again from the first page")
        start = following or 0 if last is None else last + 1
    kept, more = items[start : start + size], items[start + size : start + size + 1]
    return kept, (key(kept[-1]), key(more[0])) if more else None


def written(names: tuple[str, str] | None) -> str | None:
    """A cursor of two keys; None for None."""
    return None if names is None else base64.urlsafe_b64encode(json_text(names).encode()).decode().rstrip("=")


def read(cursor: str | None) -> tuple[str, str] | None:
    """The two keys of a cursor; None for None.

    Raises:
        InvalidInputError: no cursor of ours.
    """
    if cursor is None:
        return None
    try:
        names = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, RecursionError):  # not base64, not UTF-8 or not JSON
        names = None
    match names:
        case [str(last), str(following)]:
            return last, following
    raise InvalidInputError("the cursor can't be read", hint="give the next_cursor of the page before, unchanged")
