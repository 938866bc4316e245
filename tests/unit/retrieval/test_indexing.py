"""Embedding what is pending, in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from backread.errors import ModelRequestError
from backread.retrieval.indexing import embed_pending
from backread.store.base import TURNS
from backread.store.sqlite import SqliteStore
from backread.testing.fakes import FailingEmbedder, HashEmbedder
from backread.types import TurnDraft


class Batches(HashEmbedder):
    """Remembers the size of each call, and fails from call `until` on."""

    def __init__(self, until: int | None = None) -> None:
        super().__init__(16, max_tokens=16)
        self.sizes: list[int] = []
        self.until = until

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        if self.until is not None and len(self.sizes) >= self.until:
            raise ModelRequestError("down")
        self.sizes.append(len(texts))
        return super().embed(texts, kind=kind)


def keep(store: SqliteStore, *texts: str) -> None:
    store.append("ann", [TurnDraft("s", "user", text) for text in texts])


def rows(store: SqliteStore, embedder: HashEmbedder) -> int:
    return len(store.vectors("ann", TURNS, embedder.fingerprint)[0])


def test_nothing_pending_asks_no_model(store: SqliteStore) -> None:
    assert embed_pending(store, "nobody", FailingEmbedder()) == 0


def test_batches_and_progress(store: SqliteStore) -> None:
    keep(store, *(f"turn {place}" for place in range(150)))
    embedder, done = Batches(), list[int]()
    assert embed_pending(store, "ann", embedder, on_progress=done.append) == 0
    assert embedder.sizes == [64, 64, 22]
    assert done == [64, 64, 22]
    assert rows(store, embedder) == 150


def test_time_is_up_after_the_batch_at_hand(store: SqliteStore) -> None:
    keep(store, *(f"turn {place}" for place in range(150)))
    embedder = Batches()
    assert [embed_pending(store, "ann", embedder, seconds=0) for _ in range(3)] == [86, 22, 0]
    assert embedder.sizes == [64, 64, 22]


def test_a_long_turn_goes_on_in_the_middle(store: SqliteStore) -> None:
    keep(store, "before", " ".join(f"Sentence {n} has a few words in it." for n in range(300)), "after")
    embedder = Batches()
    left = [embed_pending(store, "ann", embedder, seconds=0) for _ in range(20)]
    assert left[0] == 2  # the first turn is done, the long one begun
    assert left[-1] == 0
    whole = Batches()
    keep_again = store.append(
        "bob", [TurnDraft("s", "user", turn.text) for turn in store.turns_by_doc("ann", [1, 2, 3])]
    )
    assert len(keep_again) == 3
    embed_pending(store, "bob", whole)
    assert sum(whole.sizes) == sum(embedder.sizes) == rows(store, embedder)


def test_an_error_loses_no_more_than_its_batch(store: SqliteStore) -> None:
    keep(store, *(f"turn {place}" for place in range(150)))
    embedder = Batches(until=1)
    with pytest.raises(ModelRequestError):
        embed_pending(store, "ann", embedder)
    assert rows(store, embedder) == 64
    embedder.until = None
    assert embed_pending(store, "ann", embedder) == 0
    assert embedder.sizes == [64, 64, 22]
    assert rows(store, embedder) == 150


def test_turns_without_words_are_not_pending_for_ever(store: SqliteStore) -> None:
    store.append("ann", [TurnDraft("s", "user", "", attachments=({"type": "image"},)) for _ in range(3)])
    embedder = Batches()
    assert embed_pending(store, "ann", embedder, seconds=0) == 0
    assert embedder.sizes == []
    keep(store, "words")
    assert embed_pending(store, "ann", embedder) == 0
    assert rows(store, embedder) == 1


def test_two_at_once_store_each_vector_once(store: SqliteStore) -> None:
    """Another process is faster by a batch: what it stored is not stored again."""
    keep(store, *(f"turn {place}" for place in range(100)))

    class Slow(Batches):
        def embed(
            self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document"
        ) -> NDArray[np.float32]:
            if not self.sizes:
                self.sizes.append(0)
                embed_pending(store, "ann", Batches(), seconds=0)
            return super().embed(texts, kind=kind)

    embedder = Slow()
    assert embed_pending(store, "ann", embedder) == 0
    assert rows(store, embedder) == 100
