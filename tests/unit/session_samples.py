"""What tests of building by session share: a way to say things, and a maker that counts what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from backread.construction.sessions import Made, build_sessions
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.strategies.base import Context
from backread.types import BuildReport, EntryDraft, Session, Source, Turn, TurnDraft, Usage

__all__ = ["ALL", "NOON", "Maker", "build", "say", "texts"]

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def say(store: SqliteStore, session: str, day: int, *texts: str, supersedes: str | None = None) -> list[str]:
    at = NOON + timedelta(days=day)
    drafts = [
        TurnDraft(session, "user", f"{session} {text}", said_at=at + timedelta(minutes=place), supersedes=supersedes)
        for place, text in enumerate(texts)
    ]
    return [appended.turn_id or "" for appended in store.append("ann", drafts)]


class Maker:
    """Makes one entry a session out of its texts, counts what it is asked, and may do something meanwhile."""

    def __init__(self, meanwhile: Callable[[Session, Sequence[Turn]], None] | None = None, parts: int = 1) -> None:
        self.asked: list[str] = []
        self.meanwhile, self.parts = meanwhile, parts

    def __call__(self, session: Session, turns: Sequence[Turn]) -> Made:
        self.asked.append(session.session_id)
        text = "; ".join(turn.text for turn in turns)
        if self.meanwhile is not None:
            self.meanwhile(session, turns)
        sources = tuple(Source(turn.turn_id, 0, len(turn.text)) for turn in turns)
        drafts = [
            EntryDraft(f"{session.session_id}-{part}", "mine", "page", {}, text, sources, session.started_at)
            for part in range(self.parts)
        ]
        return Made(tuple(drafts), (Usage("build", "m", input_tokens=len(turns), output_tokens=1),))


def build(history: History, make: Callable[[Session, Sequence[Turn]], Made], flush: bool = True) -> BuildReport:
    return build_sessions(history, Context(concurrency=1), make, strategy="mine", flush=flush)


def texts(history: History) -> list[str]:
    return [entry.index_text for entry in history.entries("mine")]


ALL = ["a first; a second", "b first; b second", "c first; c second"]
