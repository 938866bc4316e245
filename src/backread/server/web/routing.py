"""What every view passes: who is signed in, that the page itself sent a form, and failures as pages."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import Scope

from backread.errors import BackreadError
from backread.server.fair_routes import FairRoute
from backread.server.fairness import Gate, Gates
from backread.server.problems import Problem, problem, problem_of
from backread.server.streams import EVENTS_TYPE
from backread.server.web.paths import SIGN_IN, ui_path
from backread.server.web.templating import HEADERS, is_part, page, part
from backread.server.web.visits import COOKIE

__all__ = ["AskPageRoute", "OpenRoute", "PageRoute", "form_of"]

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

_MOST_FIELDS: Final = 100


class OpenRoute(FairRoute):
    """A view for everyone. A form is taken only from the page itself; failures are told as a page."""

    def asker(self, scope: Scope) -> str:
        """As `FairRoute`, for whoever is signed in."""
        if scope["state"].get("principal") is None:
            request = Request(scope)
            scope["state"]["principal"] = request.app.state.page.visits.principal(request.cookies.get(COOKIE))
        return super().asker(scope)

    def get_route_handler(self) -> Handler:
        """What answers a request of this route."""
        answer = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                _check_origin(request)
                return self._before(request) or await answer(request)
            except (BackreadError, HTTPException, RequestValidationError) as error:
                return _failed(request, error)

        return handle

    def _before(self, request: Request) -> Response | None:
        """What is answered instead of the view."""
        return None


class PageRoute(OpenRoute):
    """A view for whoever is signed in; others are led to the form where a key is typed."""

    def _before(self, request: Request) -> Response | None:
        if request.state.principal is not None:
            return None
        if request.method != "GET" or is_part(request):
            headers = {**HEADERS, "HX-Redirect": SIGN_IN}
            return Response("The visit is over: sign in again.", 401, headers, media_type="text/plain")
        wanted = request.scope["path"] + (f"?{request.url.query}" if request.url.query else "")
        return Response(None, 303, {**HEADERS, "Location": ui_path("signin", next=wanted)})


class AskPageRoute(PageRoute):
    """A view that may wait for a chat model."""

    def gate(self, gates: Gates) -> Gate:
        """That of questions."""
        return gates.asks


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form by name, the first of each, blanks left out.

    Raises:
        HTTPException: it isn't sent as a form, or has too many fields.
    """
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/x-www-form-urlencoded":
        raise HTTPException(415, "this takes a form of the page")
    try:
        fields = parse_qsl((await request.body()).decode("latin-1"), max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, "the form can't be read") from None
    return {name: value for name, value in reversed(fields) if value.strip()}


def _check_origin(request: Request) -> None:
    """Lets only the page itself change anything: browsers say where a form comes from, and no script can change that.

    Raises:
        HTTPException: it comes from elsewhere, or doesn't say.
    """
    if request.method in {"GET", "HEAD"}:
        return
    site = request.headers.get("sec-fetch-site")
    origin = urlsplit(request.headers.get("origin", "")).netloc.lower()
    if site != "same-origin" if site is not None else origin != request.headers.get("host", "").lower():
        raise HTTPException(403, "this form was not sent by the page")


def _failed(request: Request, error: Exception) -> Response:
    told = _problem(request, error)
    if is_part(request) or EVENTS_TYPE in request.headers.get("accept", ""):
        return part("parts/problem.html", status=told.status, problem=told)
    return page(request, "problem.html", status=told.status, problem=told)


def _problem(request: Request, error: Exception) -> Problem:
    if isinstance(error, HTTPException):
        if error.status_code == 404:
            return problem(404, "there is no such page", hint="go back to where you came from")
        return problem(error.status_code, str(error.detail), hint="go back to where you came from")
    if isinstance(error, RequestValidationError):
        what = "; ".join(f"{item['loc'][-1]}: {item['msg']}".replace("Value error, ", "") for item in error.errors())
        return problem(422, what, hint="choose among what the page offers")
    return problem_of(error)
