"""Signing in with a key that is typed once, and out."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from backread.server.web.paths import SIGN_IN, own_path
from backread.server.web.routing import OpenRoute, form_of
from backread.server.web.shared import PageState
from backread.server.web.templating import HEADERS, page
from backread.server.web.visits import COOKIE, LASTS_S

__all__ = ["router"]

router = APIRouter(route_class=OpenRoute)

_ATTRIBUTES: Final = "HttpOnly; SameSite=Strict; Path=/"


@router.get(SIGN_IN)
def sign_in_form(request: Request, wanted: Annotated[str, Query(alias="next")] = "/") -> Response:
    """The form for a key; whoever needs none, or is signed in, goes on."""
    if request.state.principal is not None:
        return _led(own_path(wanted))
    return page(request, "signin.html", wanted=own_path(wanted), wrong=False)


@router.post(SIGN_IN)
async def sign_in(request: Request, state: PageState) -> Response:
    """A visit for whoever types a good key."""
    fields = await form_of(request)
    wanted = own_path(fields.get("next", "/"))
    owner = state.keys.owner(fields.get("key", "").strip()) if state.keys is not None else None
    if owner is None:
        return page(request, "signin.html", status=401, wanted=wanted, wrong=True)
    response = _led(wanted)
    token = state.visits.begin(owner)
    response.headers["Set-Cookie"] = f"{COOKIE}={token}; Max-Age={LASTS_S}; {_ATTRIBUTES}{_secure(request)}"
    return response


@router.post(f"{SIGN_IN}/end")
def sign_out(request: Request, state: PageState) -> Response:
    """End the visit."""
    state.visits.end(request.cookies.get(COOKIE))
    response = _led(SIGN_IN)
    response.headers["Set-Cookie"] = f"{COOKIE}=; Max-Age=0; {_ATTRIBUTES}{_secure(request)}"
    return response


def _secure(request: Request) -> str:
    """The cookie goes over TLS only, where the browser came over TLS; a proxy in front says so."""
    over = request.headers.get("x-forwarded-proto", request.url.scheme)
    return "; Secure" if over == "https" else ""


def _led(to: str) -> Response:
    return Response(None, 303, {**HEADERS, "Location": to})
