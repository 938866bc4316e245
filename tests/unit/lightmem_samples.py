"""What the tests of LightMem share: a model that writes messages down as facts, and histories to try it on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from backread.retrieval.bm25 import Bm25Retriever
from backread.store.base import TurnStore
from backread.store.history import History
from backread.strategies.base import Context
from backread.strategies.lightmem.batches import Book
from backread.strategies.lightmem.settings import Settings
from backread.strategies.lightmem.strategy import LightMem
from backread.testing.fakes import ChatRequest, FunctionChat, HashEmbedder
from backread.text.tokens import EstimateCounter
from backread.types import Entry, TurnDraft

__all__ = [
    "NOON",
    "book",
    "context",
    "facts_of",
    "keep",
    "lightmem",
    "messages_of",
    "notes_of",
    "reply_of",
    "said",
    "told",
]

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)

Reply = Callable[[ChatRequest], str]


def context(concurrency: int = 1) -> Context:
    return Context(counter=EstimateCounter(), concurrency=concurrency)


def said(session: str, minute: int | None, text: str, role: str = "user", speaker: str | None = None) -> TurnDraft:
    at = None if minute is None else NOON + timedelta(minutes=minute)
    return TurnDraft(session, role, text, speaker=speaker, said_at=at)


def messages_of(request: ChatRequest) -> list[tuple[int, str, str]]:
    """Number, name and text of each message in a request for facts."""
    inside = re.split(r'</?messages id="\w+">', request.question)[1]
    lines = re.sub(r"^#.*\n", "", inside, flags=re.MULTILINE)
    parts = re.split(r"^\[(\d+)\] ", lines, flags=re.MULTILINE)[1:]
    found = []
    for number, line in zip(parts[::2], parts[1::2], strict=True):
        name, text = line.strip().split(": ", 1)
        found.append((int(number), name, text))
    return found


def notes_of(request: ChatRequest) -> list[str]:
    """The old note and the newer ones of a request for an update; () where facts are asked for."""
    if "<notes" not in request.question:
        return []
    inside = re.split(r'</?notes id="\w+">', request.question)[1]
    return [line.split(": ", 1)[1] for line in inside.strip().splitlines()]


def facts_of(request: ChatRequest) -> str:
    """Each message as one fact."""
    return reply_of(*((number, text) for number, _, text in messages_of(request)))


def reply_of(*told: tuple[object, str | None]) -> str:
    """A reply with facts, each with the number of its message."""
    return json.dumps({"messages": [{"source": source, "facts": [fact]} for source, fact in told]})


def lightmem(
    reply: Reply | None = facts_of,
    *,
    settings: Settings | None = None,
    embedder: HashEmbedder | None = None,
) -> LightMem:
    """The base design with a scripted model, and without one where `reply` is None."""
    chat = None if reply is None else FunctionChat(reply)
    return LightMem(Bm25Retriever(), chat, embedder, settings=settings)


def keep(store: TurnStore, drafts: Sequence[TurnDraft], user_id: str = "ann") -> History:
    for result in store.append(user_id, drafts):
        assert result.problem is None
    return History(store, user_id)


def told(strategy: LightMem, history: History) -> list[str]:
    """The facts of a strategy's entries, by time and arrival."""
    return [str(entry.data["fact"]) for entry in entries(strategy, history)]


def entries(strategy: LightMem, history: History) -> list[Entry]:
    return history.entries(strategy.shelf.strategy, strategy.shelf.kind)


def book(strategy: LightMem, history: History) -> Book:
    return strategy.shelf.book(history)[2]
