"""What the tests of `Memory` share: a small talk, an embedder that counts, and a memory that is open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from backread import Memory
from backread.errors import ModelRequestError
from backread.messages import draft_from_message
from backread.models.base import Embedder
from backread.settings import Settings
from backread.testing.fakes import HashEmbedder
from backread.text.tokens import EstimateCounter

__all__ = ["MODES", "TALK", "Counting", "keep_old", "opened", "texts"]

MODES: tuple[str, ...] = ("hybrid", "interpolation", "rrf", "bm25", "dense")
TALK = [
    {
        "role": "user",
        "name": "Ann",
        "content": "I bought a copper kettle.",
        "id": "m1",
        "timestamp": "2024-05-01T09:00Z",
    },
    {"role": "assistant", "content": "Descale it with vinegar.", "id": "m2", "timestamp": "2024-05-01T09:01Z"},
    {
        "role": "user",
        "name": "Ann",
        "content": "The ferry leaves at seven.",
        "id": "m3",
        "timestamp": "2024-06-01T09:00Z",
    },
    {"role": "user", "name": "Bob", "content": "My lamp is green.", "id": "m4"},
]


class Counting(HashEmbedder):
    """Counts what it embeds, and fails once `budget` texts are done."""

    def __init__(self, dimension: int = 64, *, seed: int = 0, budget: int | None = None) -> None:
        super().__init__(dimension, seed=seed)
        self.texts: list[str] = []
        self.queries: list[str] = []
        self.budget = budget

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[Any]:
        (self.queries if kind == "query" else self.texts).extend(texts)
        if self.budget is not None and len(self.texts) > self.budget:
            raise ModelRequestError("the embedder is down")
        return super().embed(texts, kind=kind)


def keep_old(memory: Memory, messages: Sequence[dict[str, Any]], session_id: str, *, user_id: str = "ann") -> list[str]:
    """Keep messages as an importer does: of those without a time it stays unknown. Their turn ids."""
    drafts = [draft_from_message(message, session_id=session_id) for message in messages]
    return list(memory.add_turns(drafts, user_id=user_id).turn_ids)


def opened(path: Path, embedder: Embedder | None = None, **settings: Any) -> Memory:
    values: dict[str, Any] = {"path": path / "m.db", "embedder": "none", **settings}
    return Memory.open(embedder=embedder, counter=EstimateCounter(), settings=Settings(**values))


def texts(memory: Memory, user_id: str = "ann") -> list[str]:
    return [turn.text for turn in memory.turns(user_id=user_id)]
