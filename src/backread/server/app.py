"""The app: the REST API over one `Memory`, behind its guard. Others mount what they add on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request, Response

import backread
from backread.memory import Memory
from backread.server import problems
from backread.server.builds import Builds
from backread.server.guard import OPEN_PATHS, EncodedPaths, Guard, SecurityHeaders
from backread.server.keys import Keys
from backread.server.limits import Limits
from backread.server.metrics import Counted, Metrics
from backread.server.openapi import described
from backread.server.routes import building, finding, operating, turns
from backread.server.service import NoQuery, Service, answered
from backread.server.web.page import add_page

__all__ = ["create_app"]

_ABOUT: Final = (
    "Long-term memory for LLM agents: every turn kept word for word, every line of memory cited. Ids in paths are"
    " percent-encoded UTF-8, with / as %2F. Every failure is a problem (RFC 9457) with a hint."
)


class _App(FastAPI):
    """FastAPI with our own description of the API."""

    def openapi(self) -> dict[str, Any]:
        if not self.openapi_schema:
            self.openapi_schema = described(self)
        return self.openapi_schema


def create_app(
    memory: Memory,
    *,
    keys: Keys | None = None,
    limits: Limits | None = None,
    open_paths: Collection[str] = OPEN_PATHS,
    reports: Path | None = None,
) -> FastAPI:
    """The REST API over `memory`, which stays its owner's to close once the app has shut down.

    Add to it with `include_router` or `mount`: what is added is guarded too, and finds the `Service` in
    `app.state.service` and the `Principal` in `request.state.principal`.

    Args:
        memory: what is served.
        keys: whose requests are served; None serves everyone who reaches it, which must be this machine only.
        limits: what one user and all together may ask of it.
        open_paths: paths that need no key.
        reports: folder of bench reports that the page shows.
    """
    metrics, limits = Metrics(), limits or Limits()

    def service() -> Service:
        return Service(memory, metrics, Builds(memory, metrics, per_user=limits.builds_per_user), limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.service = served = service()  # an app may be started again after it has ended
        yield
        await asyncio.to_thread(served.close)

    app = _App(
        title="backread",
        version=backread.__version__,
        description=_ABOUT,
        lifespan=lifespan,
        openapi_url=None,  # below, so that it is guarded and described like the rest
        docs_url=None,  # the pages of FastAPI load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # ids may end in "."; no client is led from one path to another
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.service = service()
    problems.install(app)
    _add_operations(app)
    add_page(app, keys=keys, reports=reports)
    # The last one added is the first one passed.
    app.add_middleware(Guard, keys=keys, limits=limits, open_paths=open_paths)
    app.add_middleware(EncodedPaths)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(Counted, metrics=metrics)
    return app


def _add_operations(app: FastAPI) -> None:
    for router in (turns.adding, turns.router, turns.exporting, finding.router, finding.asking, building.router):
        app.include_router(router)
    for router in (operating.probes, operating.router):
        app.include_router(router)
    app.add_api_route("/v1/openapi.json", _openapi, include_in_schema=False, dependencies=[NoQuery])


async def _openapi(request: Request) -> Response:
    state = request.app.state
    if getattr(state, "described", None) is None:  # it needs no key, so it is made once
        state.described = answered(request.app.openapi()).body
    return Response(state.described, media_type="application/json")
