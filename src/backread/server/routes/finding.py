"""Search, recall and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from backread.server.requests import MAX_TOP_K, AskRequest, SearchRequest
from backread.server.service import JsonOnly, NoQuery, Served, Service, UserId, answered, fails
from backread.server.streams import EVENTS_TYPE, events
from backread.types import Answer, Degradation, Hits, Recall, Step

__all__ = ["router"]

router = APIRouter(prefix="/v1/users/{user_id}", tags=["finding"], dependencies=[NoQuery, JsonOnly])

_EVENTS = {
    "content": {EVENTS_TYPE: {"schema": {"type": "string"}}},
    "description": "The answer; or, for `Accept: text/event-stream`, an event `step` for each step as it happens, then"
    " one event `answer`, or `error` with a problem.",
}


@router.post("/search", response_model=Hits, responses=fails(400, 413, 415, 502))
def search(user_id: UserId, body: SearchRequest, served: Served) -> Response:
    """Turns that match, best first."""
    hits = served.memory.search(
        body.query,
        user_id=user_id,
        top_k=min(body.top_k, MAX_TOP_K),
        mode=body.mode,
        roles=body.roles,
        speaker=body.speaker,
        session_id=body.session_id,
        after=body.after,
        before=body.before,
        as_of=body.as_of,
    )
    if body.top_k > MAX_TOP_K:
        cut = Degradation("top_k", f"{body.top_k} hits were asked for, and {MAX_TOP_K} are the most there are")
        hits = replace(hits, degraded=(*hits.degraded, cut))
    return answered(hits)


@router.post("/recall", response_model=Recall, responses=fails(400, 413, 415, 502))
async def recall(user_id: UserId, body: AskRequest, served: Served) -> Response:
    """The evidence for a question, as a model would get it."""
    found: Recall = await _slow(served, served.memory.recall, user_id, body)
    served.metrics.used(found.usage)
    return answered(found)


@router.post("/ask", response_model=Answer, responses={200: _EVENTS, **fails(400, 413, 415, 502)})
async def ask(request: Request, user_id: UserId, body: AskRequest, served: Served) -> Response:
    """An answer whose citations were checked; without a chat model the closest passages, quoted."""
    if EVENTS_TYPE in request.headers.get("accept", ""):
        return await events(partial(_ask, served, user_id, body), served.asking)
    found: Answer = await _slow(served, served.memory.ask, user_id, body)
    served.metrics.used(found.usage)
    return answered(found)


def _ask(served: Service, user_id: str, body: AskRequest, on_step: Callable[[Step], None]) -> Answer:
    found = served.memory.ask(body.question, user_id=user_id, on_step=on_step, **_how(body))
    served.metrics.used(found.usage)
    return found


async def _slow(served: Service, call: Callable[..., Any], user_id: str, body: AskRequest) -> Any:  # noqa: ANN401
    work = partial(call, body.question, user_id=user_id, **_how(body))
    return await asyncio.get_running_loop().run_in_executor(served.asking, work)


def _how(body: AskRequest) -> dict[str, Any]:
    return {
        "budget": None if body.budget == "none" else body.budget,
        "strategy": body.strategy,
        "retriever": body.retriever,
        "asked_at": body.asked_at,
        "as_of": body.as_of,
    }
