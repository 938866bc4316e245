"""Search as you type."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from types import MappingProxyType
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from backread.errors import InvalidInputError
from backread.memory import Memory
from backread.retrieval.registry import RETRIEVERS, retriever_spec
from backread.server.guard import PAGE_PREFIX
from backread.server.limits import bounded
from backread.server.requests import MAX_TOP_K
from backread.server.service import Served, Service, UserId
from backread.server.web.routing import PageRoute
from backread.server.web.templating import is_part, page, part
from backread.server.web.wording import Piece, excerpt, marked
from backread.types import Hit

__all__ = ["router"]

router = APIRouter(prefix=f"{PAGE_PREFIX}users/{{user_id}}", route_class=PageRoute)

TOP_K: Final = 20
_LISTED: Final = 500
"""Sessions that are offered by name, the latest of them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for, as it was typed; "" where nothing was."""

    q: str = ""
    mode: str = "hybrid"
    speaker: str = ""
    session: str = ""
    since: str = ""
    until: str = ""
    top_k: int = TOP_K


@dataclass(frozen=True, slots=True)
class Found:
    """A hit as it is shown: its words, or those of its image, in pieces."""

    hit: Hit
    pieces: tuple[Piece, ...]
    caption: tuple[Piece, ...]


@router.get("/search")
def search(
    request: Request,
    user_id: UserId,
    served: Served,
    q: str = "",
    mode: str = "hybrid",
    speaker: str = "",
    session: str = "",
    since: Annotated[str, Query(alias="from")] = "",
    until: Annotated[str, Query(alias="to")] = "",
    top_k: Annotated[int, Query(ge=1, le=MAX_TOP_K)] = TOP_K,
) -> Response:
    """Hits for what was typed so far; nothing is asked while that is blank."""
    wanted = Wanted(q.strip(), mode, speaker.strip(), session.strip(), since.strip(), until.strip(), top_k)
    if is_part(request):
        return part("parts/hits.html", user_id=user_id, wanted=wanted, **_found(served, user_id, wanted))
    history = served.memory.history(user_id)
    return page(
        request,
        "search.html",
        user_id=user_id,
        view="search",
        query=wanted.q,
        wanted=wanted,
        modes=_modes(served.memory),
        speakers=sorted(history.corpus("turn").speakers),
        sessions=[item.session_id for item in reversed(history.sessions())][:_LISTED],
        **_found(served, user_id, wanted),
    )


def _found(served: Service, user_id: str, wanted: Wanted) -> dict[str, Any]:
    """The hits, None when nothing was asked, and how they came about."""
    if not wanted.q:
        return {"hits": None, "degraded": (), "pending": 0, "seconds": None}
    if wanted.mode not in RETRIEVERS:
        raise InvalidInputError(f"there is no way to search called {wanted.mode!r}", hint="choose one of the list")
    started = time.perf_counter()
    hits = served.memory.search(
        bounded(wanted.q, "the query", served.limits),
        user_id=user_id,
        top_k=wanted.top_k,
        mode=wanted.mode,
        speaker=wanted.speaker or None,
        session_id=wanted.session or None,
        after=wanted.since or None,
        before=_day_after(wanted.until),
        most_bytes=served.limits.answer_bytes,
        attachments="named",
    )
    seconds = time.perf_counter() - started
    shown = [_shown(hit, wanted.q) for hit in hits]
    return {"hits": shown, "degraded": hits.degraded, "pending": hits.pending, "seconds": seconds}


def _shown(hit: Hit, query: str) -> Found:
    text, caption = excerpt(hit.turn.text, query), excerpt(hit.turn.caption or "", query)
    return Found(hit, tuple(marked(text, query)), tuple(marked(caption, query)))


def _day_after(day: str) -> str | None:
    """The day after, as people mean the last day too; what is no day is left for the search to refuse."""
    try:
        return (date.fromisoformat(day) + timedelta(days=1)).isoformat()
    except (ValueError, OverflowError):
        return day or None


def _modes(memory: Memory) -> Mapping[str, str]:
    """The ways to search that are there, with what they are."""
    specs = {name: retriever_spec(name) for name in RETRIEVERS}
    return MappingProxyType(
        {
            name: spec.summary
            for name, spec in specs.items()
            if (memory.embedder is not None or spec.vectors != "yes")
            and (memory.settings.sparse_encoder is not None or not spec.sparse)
        }
    )
