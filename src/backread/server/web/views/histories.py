"""Who has turns, and the sessions of one of them on a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from backread.memory import Memory
from backread.server.guard import PAGE_PREFIX
from backread.server.service import Served, UserId
from backread.server.web.paths import user_path
from backread.server.web.routing import PageRoute
from backread.server.web.templating import HEADERS, is_part, page, part
from backread.server.web.timeline import HEIGHT, months
from backread.server.web.wording import beginning, month_name
from backread.store.history import Scope
from backread.types import Session

__all__ = ["router"]

router = APIRouter(route_class=PageRoute)

USERS: Final = 100
"""Users on one page."""

SESSIONS: Final = 200
"""Sessions on one page."""

_PREVIEW: Final = 110

Number = Annotated[int, Query(ge=1, le=10**9, alias="page")]


@dataclass(frozen=True, slots=True)
class User:
    """One user in the list: how much there is, and from when to when."""

    user_id: str
    sessions: int
    turns: int
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True, slots=True)
class Row:
    """A session in the list, with how it begins."""

    session: Session
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Group:
    """Sessions of a month, newest first; `name` is "2025-03", or "undated"."""

    name: str
    title: str
    rows: tuple[Row, ...]


@router.get("/")
def histories(request: Request, served: Served, q: str = "", number: Number = 1) -> Response:
    """Everyone who has turns; a user's key leads to its own history."""
    if not request.state.principal.is_admin:
        return Response(None, 303, {**HEADERS, "Location": user_path(request.state.principal.user_id)})
    names = served.memory.users()
    found = [name for name in names if q.strip().casefold() in name.casefold()]
    shown = found[(number - 1) * USERS : number * USERS]
    values: dict[str, Any] = {
        "users": [_user(served.memory, name) for name in shown],
        "found": len(found),
        "total": len(names),
        "q": q.strip(),
        "number": number,
        "last_page": -(-len(found) // USERS),
    }
    if is_part(request):
        return part("parts/users.html", **values)
    return page(request, "histories.html", view="histories", store=served.memory.settings.path, **values)


def _user(memory: Memory, user_id: str) -> User:
    sessions = memory.sessions(user_id=user_id)
    first = min((session.started_at for session in sessions if session.started_at), default=None)
    last = max((session.ended_at for session in sessions if session.ended_at), default=None)
    return User(user_id, len(sessions), sum(session.turns for session in sessions), first, last)


@router.get(f"{PAGE_PREFIX}users/{{user_id}}")
def sessions(request: Request, user_id: UserId, served: Served, number: Number = 1) -> Response:
    """The sessions of a user on a timeline, and as a list by month, newest first."""
    every = served.memory.sessions(user_id=user_id)
    newest = [item for item in reversed(every) if item.started_at] + [item for item in every if not item.started_at]
    place = {item.session_id: number for number, item in enumerate(newest)}
    made = months(every)
    start = (number - 1) * SESSIONS
    return page(
        request,
        "sessions.html",
        user_id=user_id,
        view="sessions",
        months=made,
        height=HEIGHT,
        pages={
            month.name: place[every[month.latest].session_id] // SESSIONS + 1
            for month in made
            if month.latest is not None
        },
        groups=_grouped(_rows(served.memory, user_id, every, newest[start : start + SESSIONS])),
        total=len(every),
        turns=sum(session.turns for session in every),
        number=number,
        last_page=-(-len(every) // SESSIONS),
    )


def _rows(memory: Memory, user_id: str, every: Sequence[Session], shown: Sequence[Session]) -> list[Row]:
    corpus = memory.history(user_id).corpus("turn", Scope(superseded=True))
    starts = np.flatnonzero(np.diff(corpus.session, prepend=-1))
    places = {session.session_id: place for place, session in enumerate(every)}
    rows = []
    for session in shown:
        place = places[session.session_id]
        # One by one: of each only the beginning is kept, and all of them may not fit into memory.
        turn = next(iter(corpus.turns(int(starts[place]))), None) if place < len(starts) else None
        text = "" if turn is None else turn.text or turn.caption or ""
        rows.append(Row(session, "" if turn is None else turn.name, beginning(text, _PREVIEW)))
    return rows


def _grouped(rows: Sequence[Row]) -> list[Group]:
    """Rows by month, in the order in which months come up; undated ones are a group too."""
    groups: dict[tuple[int, int] | None, list[Row]] = {}
    for row in rows:
        at = row.session.started_at
        groups.setdefault(None if at is None else (at.year, at.month), []).append(row)
    return [
        Group("undated", "Time unknown", tuple(found))
        if key is None
        else Group(f"{key[0]:04}-{key[1]:02}", f"{month_name(key[1])} {key[0]}", tuple(found))
        for key, found in groups.items()
    ]
