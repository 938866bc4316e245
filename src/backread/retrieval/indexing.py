"""Embedding what is pending: vectors follow the text index in bounded pieces, which can stop anywhere and go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from backread.models.base import Embedder
from backread.store.base import PendingDoc, Progress, TurnStore
from backread.text.passages import split_passages

__all__ = ["embed_pending"]

_BATCH = 64  # passages a commit; a kill loses at most the work on these
_DOCS = 256  # units read at a time


def embed_pending(
    store: TurnStore,
    user_id: str,
    embedder: Embedder,
    *,
    seconds: float | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> int:
    """Embed pending passages of all corpora of a user; returns units that are still pending.

    Args:
        store: the record.
        user_id: whose units.
        embedder: makes the vectors.
        seconds: stop once this much time has passed, after the batch at hand; None goes to the end.
        on_progress: called after each batch with the number of units finished in it.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    for owner, corpus in store.corpora(user_id):
        while docs := store.pending(owner, corpus, embedder.fingerprint, _DOCS):
            if not _embed(store, owner, corpus, embedder, docs, deadline, on_progress):
                return store.pending_count(user_id, embedder.fingerprint)
    return store.pending_count(user_id, embedder.fingerprint)


def _embed(
    store: TurnStore,
    user_id: str,
    corpus: str,
    embedder: Embedder,
    docs: Sequence[PendingDoc],
    deadline: float | None,
    on_progress: Callable[[int], None] | None,
) -> bool:
    """Embed one page of units; False when the time is over."""
    reached = store.progress(user_id, corpus, embedder.fingerprint)
    if reached.doc > docs[0].doc:
        return True  # another process was faster; read the page again
    texts: list[str] = []
    owners: list[int] = []
    finished = 0

    def flush(until: Progress) -> bool:
        nonlocal reached, finished
        matrix = embedder.embed(texts) if texts else np.empty((0, embedder.dimension), np.float32)
        args = (reached, np.array(owners, dtype=np.int64), matrix, until)
        won = store.put_vectors(user_id, corpus, embedder.fingerprint, *args)
        texts.clear()
        owners.clear()
        reached = until
        if on_progress is not None and finished:
            on_progress(finished)
        finished = 0
        return won and (deadline is None or time.monotonic() < deadline)

    for unit in docs:
        passages = _passages(unit, embedder)
        for part, text in enumerate(passages, 1):
            if unit.doc == reached.doc and part <= reached.part:
                continue
            texts.append(text)
            owners.append(unit.doc)
            full = len(texts) >= _BATCH and part < len(passages)
            if full and not flush(Progress(unit.doc, part)):
                return deadline is None or time.monotonic() < deadline
        finished += 1
        # A unit without words still moves the mark, or it would be pending for ever.
        full = len(texts) >= _BATCH or unit is docs[-1]
        if full and not flush(Progress(unit.doc + 1, 0)):
            return deadline is None or time.monotonic() < deadline
    return True


def _passages(unit: PendingDoc, embedder: Embedder) -> list[str]:
    room = max(16, embedder.max_tokens - (embedder.count_tokens(unit.header) if unit.header else 0))
    spans = split_passages(unit.text, max_tokens=room, count=embedder.count_tokens)
    return [f"{unit.header}{unit.text[start:end]}" for start, end in spans]
