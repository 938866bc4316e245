"""Small histories to rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backread.models.base import Embedder
from backread.retrieval.indexing import embed_pending
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.types import TurnDraft


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "memory.db")
    yield opened
    opened.close()


@pytest.fixture
def keep(store: SqliteStore) -> Callable[..., History]:
    """Store texts (one session, no time) or drafts, embed them when an embedder is given; returns the history."""

    def made(*turns: str | TurnDraft, embedder: Embedder | None = None, user_id: str = "ann") -> History:
        store.append(user_id, [TurnDraft("s", "user", turn) if isinstance(turn, str) else turn for turn in turns])
        if embedder is not None:
            embed_pending(store, user_id, embedder)
        return History(store, user_id)

    return made
