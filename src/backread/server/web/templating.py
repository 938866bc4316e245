"""Templates to responses. Whatever a template shows is made safe and escaped; no filter lets anything through."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

import jinja2
from fastapi import Request, Response
from markupsafe import Markup

import backread
from backread.server.keys import Principal
from backread.server.web import paths
from backread.server.web.wording import counted, day_of, duration, month_name, number, pretty, score, size, time_of
from backread.text.fencing import safe
from backread.text.times import format_time

__all__ = ["HEADERS", "fragment", "is_part", "page", "part", "static_version"]

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; {frames}"
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY.format(frames=""),
    "Referrer-Policy": "same-origin",  # else forms would say that they come from nowhere
    "Vary": "HX-Request",
}
"""Sent with every response of the page: no script, style or request of anyone else's, and nobody frames it."""

_FRAMING: Final = {**HEADERS, "Content-Security-Policy": _POLICY.format(frames="frame-src 'self'; ")}


def is_part(request: Request) -> bool:
    """True when the script asks for a part of a page, and not a person for all of it."""
    return request.headers.get("hx-request") == "true" and request.headers.get("hx-history-restore-request") != "true"


def page(request: Request, template: str, *, status: int = 200, frames: bool = False, **values: object) -> Response:
    """A whole page.

    Args:
        request: what is answered.
        template: name of the template.
        status: of the response.
        frames: whether it shows another page of ours in a frame.
        values: what the template is given.
    """
    principal: Principal | None = request.state.principal
    frame = {
        "version": backread.__version__,
        "admin": principal is not None and principal.is_admin,
        "own_id": None if principal is None else principal.user_id,
        "signed": request.app.state.page.keys is not None and principal is not None,
        "reported": request.app.state.page.reports is not None,
        "user_id": None,
        "view": None,
        "query": "",
    }
    return _response(fragment(template, **{**frame, **values}), status, _FRAMING if frames else HEADERS)


def part(template: str, *, status: int = 200, **values: object) -> Response:
    """A part of a page, for a page that is there already."""
    return _response(fragment(template, **values), status, HEADERS)


def fragment(template: str, **values: object) -> str:
    """A template filled in: HTML that holds nothing but our own markup."""
    return _environment().get_template(template).render(values)


def _response(text: str, status: int, headers: Mapping[str, str]) -> Response:
    return Response(text, status, headers, media_type="text/html")


@functools.cache
def static_version() -> str:
    """Names the bytes of all static files, so that browsers may keep them."""
    digest = hashlib.sha256()
    for item in sorted(files("backread.server.web").joinpath("static").iterdir(), key=lambda item: item.name):
        digest.update(item.name.encode() + item.read_bytes())
    return digest.hexdigest()[:12]


@functools.cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("backread.server.web"),
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    del made.filters["safe"]  # nothing stored is ever markup
    given = (counted, day_of, duration, format_time, month_name, number, pretty, score, size, time_of)
    made.filters.update({function.__name__: function for function in given})
    made.globals.update({name: getattr(paths, name) for name in paths.__all__}, static_version=static_version())
    return made


def _shown(value: Any) -> Any:  # noqa: ANN401 -- whatever a template shows
    """Text as it may be shown: what acts below the level of words is made visible."""
    return safe(value) if isinstance(value, str) and not isinstance(value, Markup) else value
