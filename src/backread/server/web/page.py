"""The page, put onto the app of the server."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI

from backread.server.keys import Keys
from backread.server.web.shared import Page
from backread.server.web.views import (
    asking,
    building,
    histories,
    overview,
    reading,
    reporting,
    searching,
    shelving,
    signing,
)

__all__ = ["add_page"]


def add_page(app: FastAPI, *, keys: Keys | None, reports: Path | None) -> None:
    """Put the page at `/`, with all its views below `PAGE_PREFIX`.

    Args:
        app: with a `Service` in its state, behind its guard.
        keys: those of the guard.
        reports: a folder; each report.html in it or below is shown.
    """
    app.state.page = Page(keys, reports)
    for view in (signing, histories, reading, searching, asking, building, reporting, overview, shelving):
        app.include_router(view.router, include_in_schema=False)
    app.include_router(asking.answering, include_in_schema=False)
