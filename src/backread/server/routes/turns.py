"""Turns and sessions of one user: add, list, read, export, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from backread.errors import NotFoundError
from backread.server.paging import Page, page_of, page_of_turns
from backread.server.requests import MAX_PAGE, AddRequest, DeleteQuery, DeleteUserQuery, PageQuery, PathText
from backread.server.service import JsonOnly, NoQuery, Served, UserId, answered, fails
from backread.server.streams import LINES_TYPE, lines
from backread.store.history import Scope
from backread.types import AddReceipt, DeleteReceipt, Session, Turn

__all__ = ["router"]

router = APIRouter(prefix="/v1/users/{user_id}", tags=["turns"])

Pages = Annotated[PageQuery, Query()]


@router.post(
    "/turns", response_model=AddReceipt, dependencies=[NoQuery, JsonOnly], responses=fails(400, 404, 409, 413, 415)
)
def add_turns(user_id: UserId, body: AddRequest, served: Served) -> Response:
    """Keep messages word for word. When this answers they are on the disk, and found by words."""
    receipt = served.memory.add(body.messages, user_id=user_id, session_id=body.session_id)
    served.metrics.turns.inc(receipt.stored)
    return answered(receipt)


@router.get("/turns", response_model=Page[Turn], responses=fails(404))
def list_turns(user_id: UserId, query: Pages, served: Served) -> Response:
    """All turns in the order of the history, superseded ones included, page by page."""
    history = served.memory.history(user_id)
    return answered(page_of_turns(history, min(query.limit, MAX_PAGE), query.cursor))


@router.get("/turns/{turn_id}", response_model=Turn, dependencies=[NoQuery], responses=fails(404))
def get_turn(user_id: UserId, turn_id: PathText, served: Served) -> Response:
    """A turn by its id or by your own."""
    return answered(served.memory.get(turn_id, user_id=user_id))


@router.delete("/turns/{turn_id}", response_model=DeleteReceipt, responses=fails(404))
def delete_turn(user_id: UserId, turn_id: PathText, query: Annotated[DeleteQuery, Query()], served: Served) -> Response:
    """Erase a turn and all that was derived from it."""
    receipt = served.memory.delete(user_id=user_id, turn_id=turn_id, scrub=query.scrub)
    return answered(_erased(receipt, f"no turn {turn_id!r} of user {user_id!r}"))


@router.get("/sessions", response_model=Page[Session], responses=fails(404))
def list_sessions(user_id: UserId, query: Pages, served: Served) -> Response:
    """Sessions in the order of the history, page by page."""
    sessions = served.memory.sessions(user_id=user_id)
    return answered(page_of(sessions, lambda item: item.session_id, min(query.limit, MAX_PAGE), query.cursor))


@router.get("/sessions/{session_id}/turns", response_model=Page[Turn], responses=fails(404))
def list_session(user_id: UserId, session_id: PathText, query: Pages, served: Served) -> Response:
    """The turns of one session, page by page."""
    scope = Scope(session_ids=[session_id], superseded=True)
    page = page_of_turns(served.memory.history(user_id), min(query.limit, MAX_PAGE), query.cursor, scope)
    if not page.items:
        raise NotFoundError(f"user {user_id!r} has no session {session_id!r}")
    return answered(page)


@router.delete("/sessions/{session_id}", response_model=DeleteReceipt, responses=fails(404))
def delete_session(
    user_id: UserId, session_id: PathText, query: Annotated[DeleteQuery, Query()], served: Served
) -> Response:
    """Erase a session and all that was derived from it."""
    receipt = served.memory.delete(user_id=user_id, session_id=session_id, scrub=query.scrub)
    return answered(_erased(receipt, f"user {user_id!r} has no session {session_id!r}"))


@router.get(
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
