"""Write-time work of strategies, in the background, and what it wrote."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from backread.server.builds import Build
from backread.server.fair_routes import FairRoute
from backread.server.paging import Page
from backread.server.requests import MAX_PAGE, BuildRequest, EntriesQuery, PageQuery, PathText, path_segment
from backread.server.sending import list_answer
from backread.server.service import JsonOnly, NoQuery, Served, UserId, answered, fails
from backread.types import Entry

__all__ = ["router"]

router = APIRouter(prefix="/v1/users/{user_id}", tags=["building"], route_class=FairRoute)


@router.post(
    "/builds",
    status_code=202,
    response_model=Build,
    dependencies=[NoQuery, JsonOnly],
    responses=fails(400, 408, 409, 413, 415),
)
def start_build(user_id: UserId, body: BuildRequest, served: Served) -> Response:
    """Start a strategy's write-time work on what is new; `Location` says where to ask how it goes."""
    strategy = body.strategy or served.memory.settings.strategy
    build = served.builds.start(user_id, strategy, flush=body.flush, maintain=body.maintain)
    return answered(build, 202, headers={"Location": f"/v1/users/{path_segment(user_id)}/builds/{build.build_id}"})


@router.get("/builds", response_model=Page[Build], responses=fails(404))
def list_builds(user_id: UserId, query: Annotated[PageQuery, Query()], served: Served) -> Response:
    """Builds in the order they were asked for; those of before the server started are not known."""
    builds = served.builds.list(user_id)
    room, size = served.limits.answer_bytes, min(query.limit, MAX_PAGE)
    return list_answer(builds, room, size, query.cursor, key=lambda build: build.build_id)


@router.get("/builds/{build_id}", response_model=Build, dependencies=[NoQuery], responses=fails(404))
def get_build(user_id: UserId, build_id: PathText, served: Served) -> Response:
    """How a build goes: its status, its steps, and in the end its report with the usage of models."""
    return answered(served.builds.get(user_id, build_id))


@router.post("/builds/{build_id}/cancel", response_model=Build, dependencies=[NoQuery], responses=fails(404))
def cancel_build(user_id: UserId, build_id: PathText, served: Served) -> Response:
    """Stop a build after the piece at hand; what is done is kept. One that is over stays as it is."""
    return answered(served.builds.cancel(user_id, build_id))


@router.get("/entries", response_model=Page[Entry], responses=fails(404))
def list_entries(user_id: UserId, query: Annotated[EntriesQuery, Query()], served: Served) -> Response:
    """What a strategy built, with the turns each entry rests on; by kind, time and arrival."""
    entries = served.memory.entries(user_id=user_id, strategy=query.strategy, kind=query.kind)
    room, size = served.limits.answer_bytes, min(query.limit, MAX_PAGE)
    return list_answer(entries, room, size, query.cursor, key=lambda entry: entry.entry_id)
