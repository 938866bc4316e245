"""The vectors of a store: which embedder they are of, and how they follow the record."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backread import forking
from backread.errors import ModelError, ModelMismatchError, ModelNotAvailableError
from backread.models.base import Embedder
from backread.parts import named_embedder
from backread.retrieval.indexing import embed_pending
from backread.retrieval.switching import roll_back, switch_to
from backread.settings import Settings
from backread.store.base import TurnStore
from backread.types import Degradation

__all__ = ["Vectors", "stale_index"]

Progress = Callable[[int], None]


class Vectors:
    """Keeps vectors in step with the record; thread-safe. `Memory`'s methods of the same names document them.

    Args:
        store: where they are.
        settings: name folders, endpoints and limits.
        embedder: makes them; None is search by text only.
        missing: why there is none.
    """

    def __init__(
        self, store: TurnStore, settings: Settings, embedder: Embedder | None, missing: Degradation | None
    ) -> None:
        self._store = store
        self._settings = settings
        self._missing = missing
        self._replaced: Embedder | None = None  # the one before `reindex(to)`
        self._catching_up = forking.Lock()
        self.embedder = embedder

    @property
    def mismatch(self) -> ModelMismatchError | None:
        """What to raise when the stored vectors are of another embedder than the open one."""
        stored = self._store.active_embedder
        if self.embedder is None or stored in (None, self.embedder.fingerprint):
            return None
        return ModelMismatchError(
            f"the stored vectors are of {stored!r}, the open embedder is {self.embedder.fingerprint!r}:"
            " they can't be compared, search is by text only; run `backread reindex`",
            hint="run `backread reindex` to embed the record with the open embedder, or name the stored one in"
            " BACKREAD_EMBEDDER",
        )

    @property
    def usable(self) -> Embedder | None:
        """The embedder, None when there is none or the stored vectors are of another."""
        return None if self.embedder is None or self.mismatch else self.embedder

    def pending(self, user_id: str | None) -> int:
        """Turns without a vector of the open embedder; 0 when there is no embedder."""
        return 0 if self.embedder is None else self._store.pending_count(user_id, self.embedder.fingerprint)

    def catch_up(self, user_id: str, *, by_words: bool) -> tuple[tuple[Degradation, ...], int]:
        """Embed what is pending as far as a search may; what a search has to do without, and what stays pending."""
        if by_words:
            try:
                return (), self.pending(user_id)
            except ModelError as error:  # a hosted embedder that is down says nothing, and words need no vectors
                return (Degradation("dense", f"what is pending is unknown: {error}"),), 0
        embedder = self.usable
        if embedder is None:
            mismatch = self.mismatch
            reason = Degradation("dense", str(mismatch)) if mismatch else self._missing
            return (reason,) if reason else (), self.pending(user_id)
        # One thread embeds; the others search what is there instead of embedding the same turns again.
        if not self._catching_up.acquire(blocking=False):
            return (), self.pending(user_id)
        try:
            return (), embed_pending(self._store, user_id, embedder, seconds=self._settings.catch_up_seconds)
        finally:
            self._catching_up.release()

    def index(self, users: Sequence[str], *, on_progress: Progress | None) -> int:
        """Embed everything that is pending; returns turns still pending."""
        embedder = self._required(self.embedder)
        if mismatch := self.mismatch:
            raise mismatch
        return sum(embed_pending(self._store, user, embedder, on_progress=on_progress) for user in users)

    def reindex(self, to: str | None, *, keep_previous: bool, on_progress: Progress | None) -> int:
        """Embed the whole record anew, then search by those vectors; returns turns still pending."""
        embedder = self._required(self.embedder if to is None else named_embedder(self._settings, to))
        left = switch_to(self._store, embedder, keep_previous=keep_previous, on_progress=on_progress)
        if not left:
            self._go_on_with(embedder)
        return left

    def roll_back(self, *, on_progress: Progress | None) -> int:
        """Search by the vectors before the last change; returns turns pending for them."""
        embedder, left = roll_back(self._store, (self.embedder, self._replaced), on_progress=on_progress)
        if embedder is not None:
            self._go_on_with(embedder)
        return left

    def build_ann(self, user_id: str | None, *, newer: float, on_progress: Progress | None) -> int:
        """Build the nearest-neighbour indexes that are worth it; returns how many were built."""
        fingerprint = self._store.active_embedder
        if fingerprint is None:
            return 0
        built = [
            self._store.build_ann(owner, corpus, fingerprint, newer=newer, on_progress=on_progress)
            for owner, corpus in self._store.corpora(user_id)
        ]
        return sum(index is not None for index in built)

    def _required(self, embedder: Embedder | None) -> Embedder:
        if embedder is None:
            missing = self._missing
            raise ModelNotAvailableError(missing.reason if missing else "search is by text only: no embedder is set")
        return embedder

    def _go_on_with(self, embedder: Embedder) -> None:
        if embedder is not self.embedder:
            self.embedder, self._replaced = embedder, self.embedder


def stale_index(analyzer: str | None) -> tuple[Degradation, ...]:
    """What a search lacks whose text index an earlier analyzer made; nothing when there is none."""
    if analyzer is None:
        return ()
    reason = f"the index was made by {analyzer!r}, so words may be missed: run `backread reindex --text`"
    return (Degradation("text", reason),)
