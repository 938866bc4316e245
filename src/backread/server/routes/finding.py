"""Search, recall and answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from backread.server.fair_routes import AskRoute, FairRoute
from backread.server.limits import bounded, evidence_tokens
from backread.server.requests import MAX_TOP_K, AskRequest, SearchRequest
from backread.server.sending import SentHits, hits_answer
from backread.server.service import (
    JsonOnly,
    NoQuery,
    Served,
    Service,
    UserId,
    answered,
    fails,
)
from backread.server.streams import EVENTS_TYPE, events, worked
from backread.types import Answer, Degradation, Recall, Step

__all__ = ["asking", "router"]

router = APIRouter(
    prefix="/v1/users/{user_id}", tags=["finding"], dependencies=[NoQuery, JsonOnly], route_class=FairRoute
)
asking = APIRouter(
    prefix="/v1/users/{user_id}", tags=["finding"], dependencies=[NoQuery, JsonOnly], route_class=AskRoute
)

_EVENTS = {
    "content": {EVENTS_TYPE: {"schema": {"type": "string"}}},
    "description": "The answer; or, for `Accept: text/event-stream`, an event `step` for each step as it happens, then"
    " one event `answer`, or `error` with a problem.",
}


@router.post("/search", response_model=SentHits, responses=fails(400, 408, 413, 415, 502))
def search(user_id: UserId, body: SearchRequest, served: Served) -> Response:
    """Turns that match, best first."""
    hits = served.memory.search(
        bounded(body.query, "the query", served.limits),
        user_id=user_id,
        top_k=min(body.top_k, MAX_TOP_K),
        mode=body.mode,
        roles=body.roles,
        speaker=body.speaker,
        session_id=body.session_id,
        after=body.after,
        before=body.before,
        as_of=body.as_of,
        most_bytes=served.limits.answer_bytes,
        attachments=body.attachments,
    )
    if body.top_k > MAX_TOP_K:
        cut = Degradation("top_k", f"{body.top_k} hits were asked for, and {MAX_TOP_K} are the most there are")
        hits = replace(hits, degraded=(*hits.degraded, cut))
    return hits_answer(hits, served.limits.answer_bytes)


@asking.post("/recall", response_model=Recall, responses=fails(400, 408, 413, 415, 502))
async def recall(request: Request, user_id: UserId, body: AskRequest, served: Served) -> Response:
    """The evidence for a question, as a model would get it."""
    work = partial(served.memory.recall, user_id=user_id, **_how(body, served))
    found = await worked(request.receive, served.asking, lambda cancel: work(cancel=cancel))
    served.metrics.used(found.usage)
    return answered(found)


@asking.post("/ask", response_model=Answer, responses={200: _EVENTS, **fails(400, 408, 413, 415, 502)})
async def ask(request: Request, user_id: UserId, body: AskRequest, served: Served) -> Response:
    """An answer whose citations were checked; without a chat model the closest passages, quoted."""
    how = _how(body, served)

    def work(on_step: Callable[[Step], None] | None, cancel: threading.Event) -> Answer:
        found = served.memory.ask(user_id=user_id, on_step=on_step, cancel=cancel, **how)
        served.metrics.used(found.usage)
        return found

    if EVENTS_TYPE in request.headers.get("accept", ""):
        return await events(request.receive, served.asking, work)
    return answered(await worked(request.receive, served.asking, partial(work, None)))


def _how(body: AskRequest, served: Service) -> dict[str, Any]:
    return {
        "question": bounded(body.question, "the question", served.limits),
        "budget": evidence_tokens(body.budget, served.limits),
        "strategy": body.strategy,
        "retriever": body.retriever,
        "asked_at": body.asked_at,
        "as_of": body.as_of,
    }
