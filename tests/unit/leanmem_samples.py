"""What the tests of LeanMem share: a chat that answers by kind of request, a small store, and turns to keep in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from backread.errors import ModelError
from backread.models.base import ChatReply
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Context
from backread.strategies.leanmem.asking import prompt
from backread.testing.fakes import ChatRequest, FunctionChat
from backread.text.tokens import EstimateCounter
from backread.types import Turn, TurnDraft

__all__ = [
    "NAMES",
    "calls",
    "context",
    "draft",
    "event",
    "kind_of",
    "opened",
    "plan",
    "record",
    "said",
    "scripted",
    "texts_by_id",
    "turn",
]

NAMES = ("schedule", "event", "gist", "summary", "evolve", "plan")
"""The prompts, by which requests are told apart."""

Answer = Mapping[str, Any] | str | ChatReply | ModelError
Script = Answer | Callable[[ChatRequest], Answer]


def kind_of(request: ChatRequest) -> str:
    """Which prompt a request was made with."""
    return next(name for name in NAMES if prompt(name).rules == request.messages[0].content)


def said(request: ChatRequest) -> list[str]:
    """The lines in the fence of a request, without headings and labels."""
    block = re.search(r'<(\w+) id="(\w+)">\n(.*?)\n</\1 id="\2">', request.question, re.DOTALL)
    lines = block[3].split("\n") if block else []
    return [line.partition("] ")[2] for line in lines if line.startswith("[")]


def scripted(**script: Script) -> FunctionChat:
    """A chat that answers each kind of request with a value, or what a function of the request gives."""

    def reply(request: ChatRequest) -> str | ChatReply:
        given = script[kind_of(request)]
        answer = given(request) if callable(given) else given
        if isinstance(answer, ModelError):
            raise answer
        return answer if isinstance(answer, str | ChatReply) else json.dumps(answer)

    return FunctionChat(reply)


def calls(chat: FunctionChat) -> list[str]:
    """The kinds of requests so far, in order."""
    return [kind_of(request) for request in chat.requests]


def record(request: ChatRequest) -> Answer:
    """Keeps all lines as a record."""
    return {"action": "record", "source_indices": [], "attributes": []}


def event(request: ChatRequest) -> Answer:
    """Keeps all lines as an event."""
    return {"action": "event", "source_indices": [], "attributes": []}


def plan(*kinds: str, detail: bool = False, **given: Any) -> dict[str, Any]:
    """A plan over some kinds of entry, all alike."""
    return {
        "constraints": {"entity": [], "attribute": [], "temporal": [], "relational": []},
        "evidence_demand": "what is asked",
        "detail": detail,
        "memory_types": list(kinds),
        "weights": dict.fromkeys(kinds, 1 / len(kinds)),
        "depths": dict.fromkeys(kinds, 5),
    } | given


def turn(place: int, text: str, **given: Any) -> Turn:
    """A turn of Ann's, said on 10 March 2021."""
    fields: dict[str, Any] = {
        "turn_id": f"t{place}",
        "session_id": "s",
        "position": place,
        "role": "user",
        "speaker": "Ann",
        "said_at": datetime(2021, 3, 10, 18, place, tzinfo=UTC),
        "stored_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return Turn(**(fields | {"text": text} | given))


def draft(session: str, day: str, text: str, role: str = "user", **given: Any) -> TurnDraft:
    """A turn of Ann's, or of the assistant's, said at noon of a day."""
    at = datetime.fromisoformat(f"{day}T12:00:00+00:00")
    speaker = "Ann" if role == "user" else None
    return TurnDraft(session, role, text, **({"speaker": speaker, "said_at": at} | given))


def opened(folder: Path) -> tuple[SqliteStore, History]:
    """An empty store and the history of a user in it."""
    store = SqliteStore(folder / "m.db")
    return store, History(store, "ann")


def context(**given: Any) -> Context:
    """What a call may use."""
    return Context(counter=EstimateCounter(), **given)


def texts_by_id(history: History) -> dict[str, str]:
    """The text of each turn."""
    return {item.turn_id: item.text for item in history.turns()}
