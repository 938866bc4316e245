"""Reports of the bench: files of a folder, each shown in a frame that can do nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from backread.server.guard import PAGE_PREFIX
from backread.server.requests import PathText
from backread.server.service import AdminOnly
from backread.server.web.routing import PageRoute
from backread.server.web.shared import PageState
from backread.server.web.templating import page

__all__ = ["router"]

router = APIRouter(prefix=f"{PAGE_PREFIX}reports", route_class=PageRoute, dependencies=[AdminOnly])

NAME: Final = "report.html"
_DEEPEST: Final = 4
_MOST: Final = 500

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'self'"


@dataclass(frozen=True, slots=True)
class Report:
    """A report: its folder below the one that was named, and when it was written."""

    name: str
    path: Path
    written_at: datetime
    bytes: int


@router.get("")
def reports(request: Request, state: PageState) -> Response:
    """All reports, the latest first."""
    found = _reports(state.reports)
    return page(request, "reports.html", view="reports", reports=found, folder=state.reports)


@router.get("/{name}")
def report(request: Request, name: PathText, state: PageState) -> Response:
    """One report in its frame."""
    found = _report(state.reports, name)
    return page(request, "report.html", view="reports", frames=True, report=found)


@router.get("/{name}/file")
def report_file(name: PathText, state: PageState) -> Response:
    """The report itself: no script of it runs, and it reaches nothing, the page around it included."""
    found = _report(state.reports, name)
    headers = {"Content-Security-Policy": _POLICY}
    return Response(found.path.read_bytes(), headers=headers, media_type="text/html; charset=utf-8")


def _report(folder: Path | None, name: str) -> Report:
    """A report that the list has: no name leads anywhere else.

    Raises:
        HTTPException: there is none of that name.
    """
    for found in _reports(folder):
        if found.name == name:
            return found
    raise HTTPException(404)


def _reports(folder: Path | None) -> Sequence[Report]:
    if folder is None:
        return []
    top = folder.resolve()
    found = []
    for path in _files(top, _DEEPEST):
        stat = path.stat()
        name = path.parent.relative_to(top).as_posix()
        written = datetime.fromtimestamp(stat.st_mtime, UTC)
        found.append(Report(top.name if name == "." else name, path, written, stat.st_size))
    return sorted(found, key=lambda item: (item.written_at, item.name), reverse=True)[:_MOST]


def _files(folder: Path, deepest: int) -> list[Path]:
    """Reports in a folder and below, without following links out of it."""
    try:
        inside = sorted(folder.iterdir())
    except OSError:
        return []  # gone, or not for us to read: it has no report that could be shown
    found = [path for path in inside if path.name == NAME and path.is_file() and not path.is_symlink()]
    for path in inside if deepest else ():
        if path.is_dir() and not path.is_symlink():
            found += _files(path, deepest - 1)
    return found
