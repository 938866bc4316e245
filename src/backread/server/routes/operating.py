"""For whoever runs the server: users, counts, health, metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from backread.server.metrics import METRICS_TYPE
from backread.server.paging import Page, page_of
from backread.server.requests import MAX_PAGE, PageQuery
from backread.server.service import AdminOnly, NoQuery, Served, answered, fails
from backread.types import Stats

__all__ = ["router"]

router = APIRouter(tags=["operating"])


@dataclass(frozen=True, slots=True)
class Health:
    """That the server is up."""

    status: Literal["ok"]


@router.get("/v1/users", response_model=Page[str], dependencies=[AdminOnly], responses=fails(404))
def list_users(query: Annotated[PageQuery, Query()], served: Served) -> Response:
    """Everyone who has turns, by id."""
    return answered(page_of(served.memory.users(), str, min(query.limit, MAX_PAGE), query.cursor))


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


@router.get("/healthz", response_model=Health, dependencies=[NoQuery], responses=fails())
def health() -> Response:
    """The process answers."""
    return answered(Health("ok"))


@router.get("/readyz", response_model=Health, dependencies=[NoQuery], responses=fails())
def ready(served: Served) -> Response:
    """The store can be read."""
    served.memory.sessions(user_id="-")
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
