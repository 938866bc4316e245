"""A session read like a chat, and the way from anywhere to one turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from backread.errors import NotFoundError
from backread.server.guard import PAGE_PREFIX
from backread.server.requests import PathText
from backread.server.service import Served, UserId
from backread.server.web.paths import session_path
from backread.server.web.routing import PageRoute
from backread.server.web.templating import HEADERS, is_part, page, part
from backread.store.history import History, Scope
from backread.types import Session, Turn

__all__ = ["router"]

router = APIRouter(prefix=f"{PAGE_PREFIX}users/{{user_id}}", route_class=PageRoute)

TURNS: Final = 100
"""Turns on one page."""

_SHOWN: Final = 20_000
"""Characters of a turn that are shown: a page holds a hundred turns, and a turn may have millions."""

_AROUND: Final = 3
"""Turns shown before and after one that is looked up."""


@dataclass(frozen=True, slots=True)
class Line:
    """A turn of a chat.

    Attributes:
        turn: as it is in the record.
        new_day: whether it is the first of its day.
        new_speaker: whether somebody else spoke before.
        replaced_by: the id of the turn that supersedes it.
        characters: of the whole text, of which `turn` has the first ones.
    """

    turn: Turn
    new_day: bool
    new_speaker: bool
    replaced_by: str | None
    characters: int


@router.get("/sessions/{session_id}")
def session(
    request: Request,
    user_id: UserId,
    session_id: PathText,
    served: Served,
    number: Annotated[int, Query(ge=1, le=10**9, alias="page")] = 1,
) -> Response:
    """The turns of a session in order, `TURNS` on a page."""
    history = served.memory.history(user_id)
    sessions = history.sessions()
    place = _place(sessions, user_id, session_id)
    start = (number - 1) * TURNS
    return page(
        request,
        "session.html",
        user_id=user_id,
        view="sessions",
        session=sessions[place],
        before=sessions[place - 1] if place else None,
        after=sessions[place + 1] if place + 1 < len(sessions) else None,
        lines=_lines(history, session_id, start, start + TURNS),
        start=start,
        number=number,
        last_page=-(-sessions[place].turns // TURNS),
    )


@router.get("/turns/{turn_id}")
def turn(request: Request, user_id: UserId, turn_id: PathText, served: Served) -> Response:
    """Leads to a turn in its session; for the panel, the turn with those around it."""
    history = served.memory.history(user_id)
    found = history.turns_by_id([turn_id])[0]
    number = found.position // TURNS + 1
    there = f"{session_path(user_id, found.session_id, page=number if number > 1 else None)}#t-{found.turn_id}"
    if not is_part(request):
        return Response(None, 303, {**HEADERS, "Location": there})
    start = max(0, found.position - _AROUND)
    lines = _lines(history, found.session_id, start, found.position + _AROUND + 1)
    return part("parts/turn.html", user_id=user_id, found=found, lines=lines, there=there, start=start)


def _place(sessions: Sequence[Session], user_id: str, session_id: str) -> int:
    for place, item in enumerate(sessions):
        if item.session_id == session_id:
            return place
    raise NotFoundError(f"user {user_id!r} has no session {session_id!r}", hint="the list of sessions has them all")


def _lines(history: History, session_id: str, start: int, stop: int) -> list[Line]:
    scope = Scope(session_ids=[session_id], superseded=True)
    lines: list[Line] = []
    day, name = None, None
    for item in history.turns(scope, start=start, stop=stop, attachments="named"):
        date = item.time.date() if item.time is not None else None
        newer = [turn.turn_id for turn in history.successors([item.turn_id]).values()]
        new_day, new_speaker = date is not None and date != day, item.name != name
        shown = replace(item, text=item.text[:_SHOWN], caption=None if item.caption is None else item.caption[:_SHOWN])
        lines.append(Line(shown, new_day, new_speaker, newer[0] if newer else None, len(item.text)))
        day, name = date or day, item.name
    return lines
