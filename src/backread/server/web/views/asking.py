"""Ask, and watch how memory is made for the question."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from backread.errors import InvalidInputError
from backread.models.usage import by_purpose
from backread.server.guard import PAGE_PREFIX
from backread.server.limits import bounded, evidence_tokens
from backread.server.service import Served, Service, UserId
from backread.server.streams import EVENTS_TYPE, events, worked
from backread.server.web.routing import AskPageRoute, PageRoute, form_of
from backread.server.web.templating import HEADERS, fragment, page
from backread.server.web.tracing import answer_words, candidates, said, step_shown
from backread.strategies.registry import STRATEGIES
from backread.types import Step

__all__ = ["answering", "families", "router"]

router = APIRouter(prefix=f"{PAGE_PREFIX}users/{{user_id}}", route_class=PageRoute)
answering = APIRouter(prefix=f"{PAGE_PREFIX}users/{{user_id}}", route_class=AskPageRoute)

_FIELDS: Final = frozenset({"question", "strategy", "budget", "asked_at", "as_of"})


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as it was typed, and how its evidence is found; "" where nothing was typed.

    Attributes:
        limit: tokens of evidence at most, None for no limit.
    """

    question: str = ""
    strategy: str = ""
    budget: str = ""
    asked_at: str = ""
    as_of: str = ""

    @property
    def limit(self) -> int | Literal["default"] | None:
        """The budget, read.

        Raises:
            InvalidInputError: it is neither a number, nor "none", nor left out.
        """
        if not self.budget:
            return "default"
        if self.budget.lower() == "none":
            return None
        try:
            return int(self.budget)
        except ValueError:
            raise InvalidInputError(
                f"a budget is a number of tokens, not {self.budget!r}", hint='or "none", for no limit'
            ) from None


@router.get("/ask")
def form(request: Request, user_id: UserId, served: Served, question: str = "") -> Response:
    """The form for a question."""
    return _page(request, user_id, served, Asked(question.strip()))


@answering.post("/ask")
async def ask(request: Request, user_id: UserId, served: Served) -> Response:
    """Each step as it happens, the memory, the answer, each as HTML; without the script, a page with all of it."""
    fields = await form_of(request)
    asked = Asked(**{name: value.strip() for name, value in fields.items() if name in _FIELDS})
    if EVENTS_TYPE in request.headers.get("accept", ""):
        response = await events(request.receive, served.asking, partial(_work, served, user_id, asked))
        response.headers.update(HEADERS)
        return response
    told: dict[str, list[str]] = {"steps": [], "memory": [], "answer": []}
    work = partial(_work, served, user_id, asked, lambda item: told[item["part"]].append(item["html"]))
    outcome = await worked(request.receive, served.asking, work)
    told["answer"].append(outcome["html"])
    return await asyncio.to_thread(_page, request, user_id, served, asked, told)


def _page(
    request: Request, user_id: str, served: Service, asked: Asked, told: Mapping[str, list[str]] | None = None
) -> Response:
    memory = served.memory
    return page(
        request,
        "ask.html",
        user_id=user_id,
        view="ask",
        asked=asked,
        told=None if told is None else {name: list(map(Markup, parts)) for name, parts in told.items()},
        families=families(),
        settings=memory.settings,
        chat=None if memory.chat is None else memory.chat.name,
    )


def families() -> list[tuple[str, list[str]]]:
    """Names of strategies by family: ("t2mem", ["t2mem", "t2mem:graph", …])."""
    return [(family, list(names)) for family, names in groupby(sorted(STRATEGIES), lambda name: name.partition(":")[0])]


def _work(
    served: Service, user_id: str, asked: Asked, tell: Callable[[Any], None], cancel: threading.Event
) -> dict[str, str]:
    """Recall, then answer; `tell` gets the steps and the memory, what is returned is the answer."""
    memory = served.memory

    def told(step: Step) -> None:
        tell({"part": "steps", "html": fragment("parts/step.html", user_id=user_id, step=step_shown(step))})

    recall = memory.recall(
        bounded(asked.question, "the question", served.limits),
        user_id=user_id,
        budget=evidence_tokens("none" if asked.limit is None else asked.limit, served.limits),
        strategy=asked.strategy or None,
        asked_at=asked.asked_at or None,
        as_of=asked.as_of or None,
        on_step=told,
        cancel=cancel,
    )
    history = memory.history(user_id)
    limit = memory.settings.budget if asked.limit == "default" else asked.limit
    found = candidates(memory, history, recall)
    values: dict[str, Any] = {"user_id": user_id, "recall": recall, "limit": limit, "candidates": found}
    tell({"part": "memory", "html": fragment("parts/memory.html", **values)})
    answer = memory.answer(recall, user_id=user_id, cancel=cancel)
    served.metrics.used(answer.usage)
    html = fragment(
        "parts/answer.html",
        user_id=user_id,
        answer=answer,
        words=answer_words(answer),
        cited=said(answer, history),
        spent=by_purpose(answer.usage),
        degraded=[item for item in answer.degraded if item not in recall.degraded],
    )
    return {"part": "answer", "html": html}
