"""What the views share, besides the service."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from backread.server.keys import Keys
from backread.server.web.visits import Visits

__all__ = ["Page", "PageState"]


@dataclass(frozen=True, slots=True)
class Page:
    """What the views share.

    Attributes:
        keys: whose page it is; None lets everyone who reaches it see everything.
        reports: folder of bench reports; None shows none.
        visits: who is signed in.
    """

    keys: Keys | None
    reports: Path | None
    visits: Visits = field(default_factory=Visits)


async def _page(request: Request) -> Page:
    page: Page = request.app.state.page
    return page


PageState = Annotated[Page, Depends(_page)]
