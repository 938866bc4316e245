"""Pages of lists: a cursor names where the next one starts, so that nothing is repeated or lost while lists change."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from backread.errors import InvalidInputError, NotFoundError
from backread.store.history import History, Scope
from backread.types import Turn
from backread.wire import json_text

__all__ = ["Page", "page_of", "page_of_turns"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a list, and the cursor of those after them; `next_cursor` is None when these were the last."""

    items: tuple[T, ...]
    next_cursor: str | None


def page_of_turns(history: History, size: int, cursor: str | None, scope: Scope | None = None) -> Page[Turn]:
    """A page of turns in history order; see `History.page`.

    Raises:
        InvalidInputError: no cursor of ours.
        NotFoundError: the turns it names were deleted.
    """
    turns, after = history.page(size, cursor=_read(cursor), scope=scope)
    return Page(tuple(turns), _written(after))


def page_of(items: Sequence[T], key: Callable[[T], str], size: int, cursor: str | None) -> Page[T]:
    """A page of a list whose items have different keys.

    Raises:
        InvalidInputError: no cursor of ours.
        NotFoundError: neither item it names is in the list any longer.
    """
    start = 0
    if (names := _read(cursor)) is not None:
        places = {key(item): place for place, item in enumerate(items)}
        last, following = (places.get(name) for name in names)
        if last is None and following is None:
            raise NotFoundError("the items where this page starts are gone", hint="start again from the first page")
        start = following or 0 if last is None else last + 1
    kept, more = items[start : start + size], items[start + size : start + size + 1]
    return Page(tuple(kept), _written((key(kept[-1]), key(more[0])) if more else None))


def _written(names: tuple[str, str] | None) -> str | None:
    return None if names is None else base64.urlsafe_b64encode(json_text(names).encode()).decode().rstrip("=")


def _read(cursor: str | None) -> tuple[str, str] | None:
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
