"""The settings as they are in force, and what the store holds. Never a key."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fastapi import APIRouter, Request, Response

from backread.secret import HIDDEN, Secret
from backread.server.guard import PAGE_PREFIX
from backread.server.service import AdminOnly, Served
from backread.server.web.routing import PageRoute
from backread.server.web.templating import page
from backread.settings import ENVIRONMENT, Settings

__all__ = ["router"]

router = APIRouter(prefix=f"{PAGE_PREFIX}settings", route_class=PageRoute, dependencies=[AdminOnly])


@router.get("")
def settings(request: Request, served: Served) -> Response:
    """Every setting with its variable, and counts of the store."""
    memory = served.memory
    rows = [(item.name, ENVIRONMENT[item.name], *_value(memory.settings, item)) for item in fields(Settings)]
    return page(
        request,
        "settings.html",
        view="settings",
        rows=rows,
        stats=memory.stats(),
        embedder=None if memory.embedder is None else memory.embedder.name,
        chat=None if memory.chat is None else memory.chat.name,
    )


def _value(settings: Settings, item: Any) -> tuple[str, bool]:  # noqa: ANN401 -- a field of a dataclass
    """(what is shown of a setting, whether it is what it is without being set)."""
    value = getattr(settings, item.name)
    if value is None:
        return "not set", getattr(Settings(), item.name) is None
    if type(value) is Secret:
        return "set, not shown", False
    shown = str(value)
    return ("set, but no address" if shown == HIDDEN else shown), value == getattr(Settings(), item.name)
