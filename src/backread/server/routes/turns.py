"""Turns and sessions of one user: add, list, read, export, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from starlette.responses import StreamingResponse

from backread.errors import NotFoundError
from backread.server.fair_routes import AddRoute, AskRoute, FairRoute
from backread.server.paging import Page
from backread.server.requests import (
    MAX_PAGE,
    AddRequest,
    DeleteQuery,
    DeleteUserQuery,
    PageQuery,
    PathText,
    TurnQuery,
    TurnsQuery,
)
from backread.server.sending import SentTurn, in_pieces, list_answer, turn_json, turns_answer
from backread.server.service import JsonOnly, NoQuery, Served, UserId, answered, fails
from backread.server.streams import LINES_TYPE, lines
from backread.store.history import Scope
from backread.store.rows import attachment_bytes
from backread.types import AddReceipt, DeleteReceipt, Session

__all__ = ["adding", "exporting", "router"]

router = APIRouter(prefix="/v1/users/{user_id}", tags=["turns"], route_class=FairRoute)
adding = APIRouter(prefix="/v1/users/{user_id}", tags=["turns"], route_class=AddRoute)
exporting = APIRouter(prefix="/v1/users/{user_id}", tags=["turns"], route_class=AskRoute)


@adding.post(
    "/turns",
    response_model=AddReceipt,
    dependencies=[NoQuery, JsonOnly],
    responses=fails(400, 404, 408, 409, 413, 415, 507),
)
def add_turns(user_id: UserId, body: AddRequest, served: Served) -> Response:
    """Keep messages word for word. When this answers they are on the disk, and found by words."""
    receipt = served.memory.add(body.messages, user_id=user_id, session_id=body.session_id)
    served.metrics.turns.inc(receipt.stored)
    return answered(receipt)


@router.get("/turns", response_model=Page[SentTurn], responses=fails(404))
def list_turns(user_id: UserId, query: Annotated[TurnsQuery, Query()], served: Served) -> Response:
    """All turns in the order of the history, superseded ones included, page by page."""
    history, room = served.memory.history(user_id), served.limits.answer_bytes
    size = min(query.limit, MAX_PAGE)
    return turns_answer(history, room, size, query.cursor, attachments=query.attachments) or answered(Page((), None))


@router.get("/turns/{turn_id}", response_model=SentTurn, responses=fails(404))
def get_turn(user_id: UserId, turn_id: PathText, query: Annotated[TurnQuery, Query()], served: Served) -> Response:
    """A turn by its id or by your own; `rest_at` says where to go on when its text is too long for one answer."""
    turn = served.memory.history(user_id).turns_by_id([turn_id], attachments=query.attachments)[0]
    return Response(turn_json(turn, served.limits.answer_bytes, start=query.offset), media_type="application/json")


@router.get(
    "/turns/{turn_id}/attachments/{number}",
    response_class=Response,
    dependencies=[NoQuery],
    responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}, **fails(404)},
)
def get_attachment(
    user_id: UserId, turn_id: PathText, number: Annotated[int, Path(ge=0, description="From 0.")], served: Served
) -> Response:
    """An attachment of a turn as it was given: the JSON whose bytes and SHA-256 stand where it is only named."""
    turn = served.memory.get(turn_id, user_id=user_id)
    if number >= len(turn.attachments):
        raise NotFoundError(f"turn {turn_id!r} has {len(turn.attachments)} attachments", hint="the first has number 0")
    pieces = in_pieces([attachment_bytes(turn.attachments[number]).decode()])
    return StreamingResponse(pieces, media_type="application/json")


@router.delete("/turns/{turn_id}", response_model=DeleteReceipt, responses=fails(404))
def delete_turn(user_id: UserId, turn_id: PathText, query: Annotated[DeleteQuery, Query()], served: Served) -> Response:
    """Erase a turn and all that was derived from it."""
    receipt = served.memory.delete(user_id=user_id, turn_id=turn_id, scrub=query.scrub)
    return answered(_erased(receipt, f"no turn {turn_id!r} of user {user_id!r}"))


@router.get("/sessions", response_model=Page[Session], responses=fails(404))
def list_sessions(user_id: UserId, query: Annotated[PageQuery, Query()], served: Served) -> Response:
    """Sessions in the order of the history, page by page."""
    sessions = served.memory.sessions(user_id=user_id)
    room, size = served.limits.answer_bytes, min(query.limit, MAX_PAGE)
    return list_answer(sessions, room, size, query.cursor, key=lambda item: item.session_id)


@router.get("/sessions/{session_id}/turns", response_model=Page[SentTurn], responses=fails(404))
def list_session(
    user_id: UserId, session_id: PathText, query: Annotated[TurnsQuery, Query()], served: Served
) -> Response:
    """The turns of one session, page by page."""
    scope = Scope(session_ids=[session_id], superseded=True)
    history, room = served.memory.history(user_id), served.limits.answer_bytes
    size = min(query.limit, MAX_PAGE)
    page = turns_answer(history, room, size, query.cursor, attachments=query.attachments, scope=scope)
    if page is None:
        raise NotFoundError(f"user {user_id!r} has no session {session_id!r}")
    return page


@router.delete("/sessions/{session_id}", response_model=DeleteReceipt, responses=fails(404))
def delete_session(
    user_id: UserId, session_id: PathText, query: Annotated[DeleteQuery, Query()], served: Served
) -> Response:
    """Erase a session and all that was derived from it."""
    receipt = served.memory.delete(user_id=user_id, session_id=session_id, scrub=query.scrub)
    return answered(_erased(receipt, f"user {user_id!r} has no session {session_id!r}"))


@exporting.get(
    "/export",
    response_class=Response,
    dependencies=[NoQuery],
    responses={200: {"content": {LINES_TYPE: {"schema": {"type": "string"}}}}, **fails()},
)
def export(user_id: UserId, served: Served) -> Response:
    """Every turn in order of arrival, a message a line, as `POST turns` and `backread import` take them back."""
    return lines(served.memory.export(user_id=user_id))


@router.delete("", response_model=DeleteReceipt, responses=fails(404))
def delete_user(user_id: UserId, query: Annotated[DeleteUserQuery, Query()], served: Served) -> Response:
    """Erase everything of a user."""
    receipt = served.memory.delete(user_id=user_id, scrub=query.scrub)
    return answered(_erased(receipt, f"user {user_id!r} has no turns"))


def _erased(receipt: DeleteReceipt, missing: str) -> DeleteReceipt:
    """The receipt of a delete that found something.

    Raises:
        NotFoundError: it found nothing.
    """
    if not receipt.turns:
        raise NotFoundError(missing)
    return receipt
