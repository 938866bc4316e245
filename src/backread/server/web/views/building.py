"""What strategies built, with the turns it rests on, and builds while they run."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from starlette.exceptions import HTTPException

from backread.memory import Memory
from backread.server.guard import PAGE_PREFIX
from backread.server.requests import PathText
from backread.server.service import Served, Service, UserId
from backread.server.web.paths import user_path
from backread.server.web.routing import PageRoute, form_of
from backread.server.web.templating import HEADERS, is_part, page, part
from backread.server.web.views.asking import families
from backread.strategies.registry import STRATEGIES, strategy_spec

__all__ = ["router"]

router = APIRouter(prefix=f"{PAGE_PREFIX}users/{{user_id}}", route_class=PageRoute)

ENTRIES: Final = 50
"""Entries on one page."""

_BUILDS: Final = 5


@router.get("/entries")
def entries(
    request: Request,
    user_id: UserId,
    served: Served,
    strategy: str = "",
    kind: str = "",
    number: Annotated[int, Query(ge=1, le=10**9, alias="page")] = 1,
) -> Response:
    """What is built, by strategy and kind, and the entries of one of them."""
    sets = _sets(served.memory, user_id)
    chosen = (strategy, kind) if strategy else next(iter(sets), ("", ""))
    every = served.memory.entries(user_id=user_id, strategy=chosen[0], kind=chosen[1]) if chosen[0] else []
    start = (number - 1) * ENTRIES
    return page(
        request,
        "entries.html",
        view="entries",
        sets=sets,
        chosen=chosen,
        entries=every[start : start + ENTRIES],
        total=len(every),
        start=start,
        number=number,
        last_page=-(-len(every) // ENTRIES),
        families=[(family, names) for family, names in families() if any(strategy_spec(name).builds for name in names)],
        settings=served.memory.settings,
        **_builds(served, user_id),
    )


def _sets(memory: Memory, user_id: str) -> dict[tuple[str, str], int]:
    """(strategy, kind) -> how many entries there are."""
    found: Counter[tuple[str, str]] = Counter()
    for name in sorted(STRATEGIES):
        found.update((name, entry.kind) for entry in memory.entries(user_id=user_id, strategy=name))
    return dict(found)


def _builds(served: Service, user_id: str, *, watched: bool = False) -> dict[str, Any]:
    """What the list of builds is made of; `watched` when somebody saw them run."""
    builds = list(reversed(served.builds.list(user_id)))[:_BUILDS]
    seen = "-".join(f"{build.build_id[-4:]}.{build.status}.{build.steps}" for build in builds)
    return {"user_id": user_id, "builds": builds, "seen": seen, "watched": watched}


@router.post("/builds")
async def start(request: Request, user_id: UserId, served: Served) -> Response:
    """Start a build; what is then shown asks for itself how it goes."""
    fields = await form_of(request)
    strategy = fields.get("strategy", served.memory.settings.strategy)
    if strategy not in STRATEGIES:
        raise HTTPException(422, "there is no such strategy")
    served.builds.start(user_id, strategy, flush="flush" in fields, maintain="maintain" in fields)
    if not is_part(request):
        return Response(None, 303, {**HEADERS, "Location": user_path(user_id, "entries")})
    return part("parts/builds.html", **_builds(served, user_id))


@router.get("/builds")
def builds(user_id: UserId, served: Served, seen: str | None = None) -> Response:
    """The latest builds as they stand; nothing when that is what was `seen` before."""
    now = _builds(served, user_id, watched=True)
    return Response(None, 204, HEADERS) if now["seen"] == seen else part("parts/builds.html", **now)


@router.post("/builds/{build_id}/cancel")
async def cancel(request: Request, user_id: UserId, build_id: PathText, served: Served) -> Response:
    """Stop a build after the piece at hand."""
    served.builds.cancel(user_id, build_id)
    if not is_part(request):
        return Response(None, 303, {**HEADERS, "Location": user_path(user_id, "entries")})
    return part("parts/builds.html", **_builds(served, user_id, watched=True))
