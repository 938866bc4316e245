"""Style, script and pictures of the page, and whatever is not there."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException

from backread.server.guard import PAGE_PREFIX
from backread.server.web.paths import STATIC
from backread.server.web.routing import OpenRoute, PageRoute

__all__ = ["router"]

_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
)


@functools.cache
def _static() -> Mapping[str, bytes]:
    folder = files("backread.server.web").joinpath("static")
    return {item.name: item.read_bytes() for item in folder.iterdir()}


def static(name: str) -> Response:
    """A file of the page; its address names its bytes, so browsers may keep it."""
    found = _static().get(name)
    if found is None:
        raise HTTPException(404)
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(found, headers=headers, media_type=_TYPES[name.rsplit(".", 1)[-1]])


def nothing() -> Response:
    """No view has this address."""
    raise HTTPException(404)


router = APIRouter()
router.add_api_route(f"{STATIC}/{{name}}", static, route_class_override=OpenRoute)
router.add_api_route(f"{PAGE_PREFIX}{{path:path}}", nothing, route_class_override=PageRoute)
