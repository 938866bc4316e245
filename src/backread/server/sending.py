"""Answers of a bounded size: turns as they are sent, in pages and in hits, cut where there is no more room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar

from fastapi import Response

from backread.server.paging import cut_page, read, written
from backread.store.history import History, Scope
from backread.store.rows import named_attachment
from backread.types import Attachments, Degradation, Hits, Turn
from backread.wire import json_text

__all__ = [
    "PIECE",
    "SentHit",
    "SentHits",
    "SentTurn",
    "hits_answer",
    "in_pieces",
    "list_answer",
    "turn_json",
    "turns_answer",
]

PIECE: Final = 256 * 1024
"""Characters that are sent at a time of what is streamed."""

_BLOCK: Final = 64 * 1024

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SentTurn(Turn):
    """A turn as it is sent: with the place where the rest of its text starts, None when this is all of it."""

    rest_at: int | None = None


@dataclass(frozen=True, slots=True)
class SentHit:
    """A hit, see `Hit`."""

    turn: SentTurn
    score: float
    also: tuple[SentTurn, ...] = ()


@dataclass(frozen=True, slots=True)
class SentHits:
    """Hits, see `Hits`."""

    items: tuple[SentHit, ...]
    degraded: tuple[Degradation, ...]
    pending: int


def turn_json(turn: Turn, room: int, *, start: int = 0, whole: bool = False) -> str | None:
    """A turn as JSON of at most `room` characters, from the code point `start` of its text on.

    What doesn't fit is cut: attachments to their names, the text where the room ends. A turn whose other fields need
    more than the room is given with an empty text.

    Args:
        turn: what is sent.
        room: characters at most; JSON is ASCII, so these are bytes.
        start: where its text starts.
        whole: None is given for a turn that would have to be cut.
    """
    sent = SentTurn(**{item.name: getattr(turn, item.name) for item in fields(Turn)})
    sent = replace(sent, text=turn.text[start:])
    text = json_text(sent) if len(sent.text) <= room else ""
    if text and len(text) <= room:
        return text
    if whole:
        return None
    bare = json_text(replace(sent, text="", rest_at=len(turn.text)))
    if len(bare) > room:
        sent = replace(sent, attachments=tuple(_named(item) for item in sent.attachments))
        bare = json_text(replace(sent, text="", rest_at=len(turn.text)))
    kept = _fitting(sent.text, room - len(bare))
    rest_at = None if kept == len(sent.text) else start + kept
    return json_text(replace(sent, text=sent.text[:kept], rest_at=rest_at))


def _named(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return item if item.keys() == {"type", "bytes", "sha256"} else named_attachment(item)


def _fitting(text: str, room: int) -> int:
    """How many code points of `text` fit into `room` characters of JSON."""
    taken, block = 0, _BLOCK
    while block and taken < len(text):
        size = len(json_text(text[taken : taken + block])) - 2
        if size <= room:
            taken, room = min(len(text), taken + block), room - size
        else:
            block //= 2
    return taken


def turns_answer(
    history: History, room: int, size: int, cursor: str | None, *, attachments: Attachments, scope: Scope | None = None
) -> Response | None:
    """A page of turns in history order that ends before the turn that doesn't fit; its first is cut when it must.

    None when there is not one turn.

    Raises:
        InvalidInputError: no cursor of ours.
        NotFoundError: the turns it names were deleted.
    """
    turns, after = history.page(size, cursor=read(cursor), scope=scope, most_bytes=room, attachments=attachments)
    parts: list[str] = []
    for place, turn in enumerate(turns):
        part = turn_json(turn, room, whole=bool(parts))
        if part is None:
            after = (turns[place - 1].turn_id, turn.turn_id)
            break
        parts.append(part)
        room -= len(part) + 1
    return _page(parts, after) if turns or after else None


def list_answer(
    items: Sequence[T], room: int, size: int, cursor: str | None, *, key: Callable[[T], str] = str
) -> Response:
    """A page of a list whose items have different keys; see `turns_answer`.

    Raises:
        InvalidInputError: no cursor of ours.
        NotFoundError: neither item it names is in the list any longer.
    """
    page, after = cut_page(items, key, size, cursor)
    parts: list[str] = []
    for place, item in enumerate(page):
        part = json_text(item)
        if parts and len(part) > room:
            after = (key(page[place - 1]), key(item))
            break
        parts.append(part)
        room -= len(part) + 1
    return _page(parts, after)


def _page(parts: Sequence[str], after: tuple[str, str] | None) -> Response:
    text = f'{{"items":[{",".join(parts)}],"next_cursor":{json_text(written(after))}}}'
    return Response(text, media_type="application/json")


def in_pieces(parts: Iterable[str]) -> Iterator[str]:
    """The same text in pieces that a connection can take one by one, however slow it is."""
    kept: list[str] = []
    size = 0
    for part in parts:
        for start in range(0, len(part), PIECE):
            kept.append(part[start : start + PIECE])
            size += len(kept[-1])
            if size >= PIECE:
                yield "".join(kept)
                kept, size = [], 0
    if kept:
        yield "".join(kept)


def hits_answer(hits: Hits, room: int) -> Response:
    """The hits that fit, best first, the first of them cut when it must; what is left out is said in `degraded`."""
    parts: list[str] = []
    repeated = 0
    for hit in hits:
        turn = turn_json(hit.turn, room, whole=bool(parts))
        if turn is None:
            break
        room -= len(turn)
        also = []
        for other in hit.also:
            again = turn_json(other, room, whole=True)
            if again is None:
                break
            also.append(again)
            room -= len(again) + 1
        repeated += len(hit.also) - len(also)
        part = f'{{"turn":{turn},"score":{json_text(hit.score)},"also":[{",".join(also)}]}}'
        parts.append(part)
    degraded = list(hits.degraded)
    for count, what in ((len(hits) - len(parts), "hits"), (repeated, "repetitions of hits")):
        if count:
            degraded.append(Degradation("size", f"{what} that don't fit the answer are left out", count))
    end = f'"degraded":{json_text(degraded)},"pending":{hits.pending}}}'
    return Response(f'{{"items":[{",".join(parts)}],{end}', media_type="application/json")
