"""For whoever runs the server: users, counts, health, metrics."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response
from starlette.exceptions import HTTPException

from backread.server.fair_routes import FairRoute
from backread.server.metrics import METRICS_TYPE
from backread.server.paging import Page
from backread.server.requests import MAX_PAGE, PageQuery
from backread.server.sending import list_answer
from backread.server.service import AdminOnly, NoQuery, Served, answered, fails
from backread.types import Stats

__all__ = ["probes", "router"]

router = APIRouter(tags=["operating"], route_class=FairRoute)
probes = APIRouter(tags=["operating"])
"""What answers while all else is busy: it takes no place, and no thread of those that work."""

_READ_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Health:
    """That the server is up."""

    status: Literal["ok"]


@router.get("/v1/users", response_model=Page[str], dependencies=[AdminOnly], responses=fails(404))
def list_users(query: Annotated[PageQuery, Query()], served: Served) -> Response:
    """Everyone who has turns, by id."""
    return list_answer(served.memory.users(), served.limits.answer_bytes, min(query.limit, MAX_PAGE), query.cursor)


@router.get("/v1/stats", response_model=Stats, dependencies=[AdminOnly, NoQuery], responses=fails())
def stats(served: Served) -> Response:
    """Counts and bytes of the whole store."""
    return answered(served.memory.stats())


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """That no byte of what was deleted is left in the store's files."""

    scrubbed: Literal[True]


@router.post("/v1/scrub", response_model=Scrubbed, dependencies=[AdminOnly, NoQuery], responses=fails(503))
def scrub(served: Served) -> Response:
    """Write the store anew, so that no byte of what was deleted is left: finishes deletes with `pending_scrub`."""
    served.memory.scrub()
    return answered(Scrubbed(True))


@probes.get("/healthz", response_model=Health, dependencies=[NoQuery], responses=fails())
async def health() -> Response:
    """The process answers."""
    return answered(Health("ok"))


@probes.get("/readyz", response_model=Health, dependencies=[NoQuery], responses=fails())
async def ready(served: Served) -> Response:
    """The store can be read."""
    try:
        await asyncio.wait_for(asyncio.shield(served.readable()), _READ_SECONDS)
    except TimeoutError:
        raise HTTPException(503, "the store is not read in time", headers={"Retry-After": "5"}) from None
    return answered(Health("ok"))


@router.get(
    "/metrics",
    response_class=Response,
    dependencies=[AdminOnly, NoQuery],
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **fails()},
)
def metrics(served: Served) -> Response:
    """Counters for Prometheus. No label holds an id, or anything stored."""
    return Response(served.metrics.exposition(), media_type=METRICS_TYPE)
