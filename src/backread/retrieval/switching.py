"""Changing the embedder of a store: new vectors are made beside the old ones, which serve until those are complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from backread.errors import NotFoundError
from backread.models.base import Embedder
from backread.retrieval.indexing import embed_pending
from backread.store.base import TurnStore

__all__ = ["roll_back", "switch_to"]


def switch_to(
    store: TurnStore,
    embedder: Embedder,
    *,
    keep_previous: bool = True,
    on_progress: Callable[[int], None] | None = None,
) -> int:
    """Embed the whole record, then make those vectors the ones that are searched; returns units still pending.

    While some are pending, which turns that are added meanwhile can be, the old vectors stay in use. What was made
    before an interruption is not made again.

    Args:
        store: the record.
        embedder: whose vectors.
        keep_previous: keep those that were in use, for `roll_back`; False drops all but the new ones.
        on_progress: called with the number of units finished since the last call.
    """
    left = _embed_all(store, embedder, on_progress)
    active = store.active_embedder
    if left or active is None or (keep_previous and active == embedder.fingerprint):
        return left
    store.activate_embedder(embedder.fingerprint, dimension=embedder.dimension, keep_previous=keep_previous)
    return 0


def roll_back(
    store: TurnStore, embedders: Iterable[Embedder | None], *, on_progress: Callable[[int], None] | None = None
) -> tuple[Embedder | None, int]:
    """Make the previous vectors the ones that are searched; they and those that were in use change places.

    Args:
        store: the record.
        embedders: those that are open. When one of them made the previous vectors, it embeds what came since.
        on_progress: called with the number of units finished since the last call.

    Returns:
        The one of `embedders` that made the vectors now in use, None when it is not among them, and units pending.

    Raises:
        NotFoundError: no vectors of an embedder before this one are kept.
    """
    previous = store.previous_embedder
    if previous is None:
        raise NotFoundError(
            "no vectors of an embedder before this one are kept",
            hint="`backread reindex --to NAME` embeds the record with another embedder",
        )
    store.activate_embedder(previous, keep_previous=True)
    for embedder in embedders:
        if embedder is not None and embedder.fingerprint == previous:
            return embedder, _embed_all(store, embedder, on_progress)
    return None, store.pending_count(None, previous)


def _embed_all(store: TurnStore, embedder: Embedder, on_progress: Callable[[int], None] | None) -> int:
    for user in store.users():
        embed_pending(store, user, embedder, on_progress=on_progress)
    return store.pending_count(None, embedder.fingerprint)
