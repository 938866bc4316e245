"""Embedding what is pending: vectors follow the text index in bounded pieces, which can stop anywhere and go on."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence

from backread.arrays import np
from backread.models.base import Embedder
from backread.models.embed_each import embed_each
from backread.store.base import TURNS, PendingDoc, Progress, TurnStore
from backread.store.indexing import passage_header, passage_text
from backread.text.passages import split_passages

__all__ = ["embed_missing", "embed_pending"]

_log = logging.getLogger(__name__)

_BATCH = 64  # passages a commit; a kill loses at most the work on these
_BATCH_CHARACTERS = 16_000  # long passages take long: a commit has about half a second of work
_WINDOW = 32_000  # characters of a text that are cut into passages at a time
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
        seconds: stop once this much time has passed, after the batch at hand; None goes to the end, and tries what
            was passed over before once more.
        on_progress: called after each batch with the number of units finished in it.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    for owner, corpus in store.corpora(user_id):
        while docs := store.pending(owner, corpus, embedder.fingerprint, _DOCS):
            if not _embed(store, owner, corpus, embedder, docs, deadline, on_progress):
                return store.pending_count(user_id, embedder.fingerprint)
    missing = embed_missing(store, user_id, embedder, on_progress=on_progress) if seconds is None else 0
    return store.pending_count(user_id, embedder.fingerprint) + missing


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
    batch = _Batch(store, user_id, corpus, embedder, reached)
    for unit in docs:
        start = reached.offset if unit.doc == reached.doc else 0
        for text, until in _steps(unit, start, embedder):
            batch.add(unit.doc, text, until)
            if batch.full and not (batch.write(on_progress) and _time_left(deadline)):
                return _time_left(deadline)  # another process was faster, or the time is over
    batch.write(on_progress)  # when another process was faster, the next page shows what is left
    return _time_left(deadline)


def _time_left(deadline: float | None) -> bool:
    return deadline is None or time.monotonic() < deadline


class _Batch:
    """Passages that are embedded and written together, with the progress they reach."""

    def __init__(self, store: TurnStore, user_id: str, corpus: str, embedder: Embedder, reached: Progress) -> None:
        self._store, self._user_id, self._corpus, self._embedder = store, user_id, corpus, embedder
        self._reached = self._until = reached
        self._texts: list[str] = []
        self._owners: list[int] = []
        self._finished = 0

    @property
    def full(self) -> bool:
        """True when there is enough for one piece of work."""
        return len(self._texts) >= _BATCH or sum(map(len, self._texts)) >= _BATCH_CHARACTERS

    def add(self, doc: int, text: str | None, until: Progress) -> None:
        """Take a passage of a unit, None for a unit without words, and the progress reached with it."""
        if text is not None:
            self._texts.append(text)
            self._owners.append(doc)
        self._until = until
        self._finished += until.doc > doc

    def write(self, on_progress: Callable[[int], None] | None) -> bool:
        """Embed and store; False when another process was faster and this work is lost."""
        made = embed_each(self._embedder, self._texts)
        bad = {self._owners[row]: error for row, error in made.failed.items()}
        for doc, error in bad.items():
            _log.warning("unit %d of %r was passed over: %s", doc, self._corpus, error)
        rows = [row for row, doc in enumerate(self._owners) if doc not in bad]
        owners, matrix = np.array([self._owners[row] for row in rows], dtype=np.int64), made.vectors[rows]
        place = (self._user_id, self._corpus, self._embedder.fingerprint)
        won = self._store.put_vectors(*place, self._reached, owners, matrix, self._until)
        self._reached = self._until
        self._texts, self._owners = [], []
        if on_progress is not None and self._finished:
            on_progress(self._finished)
        self._finished = 0
        return won


def _steps(unit: PendingDoc, start: int, embedder: Embedder) -> Iterator[tuple[str | None, Progress]]:
    """Passages of a unit from a character on, each with the progress it reaches; the last one reaches the next unit.

    A unit without words is one step too, or it would be pending for ever.
    """
    before: tuple[str | None, Progress] | None = None
    for text, offset in _passages(unit, start, embedder):
        if before is not None:
            yield before
        before = (text, Progress(unit.doc, offset))
    yield (None if before is None else before[0]), Progress(unit.doc + 1, 0)


def embed_missing(
    store: TurnStore, user_id: str, embedder: Embedder, *, on_progress: Callable[[int], None] | None = None
) -> int:
    """Embed what was passed over because the model could not read it; returns units that still have no vector.

    A unit is missing when it has words, stands before the mark that `embed_pending` reached, and has no vector.
    """
    left = 0
    for owner, corpus in store.corpora(user_id):
        reached = store.progress(owner, corpus, embedder.fingerprint)
        docs = store.layout(owner, corpus).docs
        have, _ = store.vectors(owner, corpus, embedder.fingerprint)
        for doc in docs[(docs < reached.doc) & ~np.isin(docs, have)].tolist():
            passages = [text for text, _ in _passages(_unit(store, owner, corpus, doc), 0, embedder)]
            if not passages:
                continue
            made = embed_each(embedder, passages)
            args = (reached, np.full(len(passages), doc, dtype=np.int64), made.vectors, reached)
            if made.failed or not store.put_vectors(owner, corpus, embedder.fingerprint, *args):
                left += 1
            elif on_progress is not None:
                on_progress(1)
    return left


def _unit(store: TurnStore, user_id: str, corpus: str, doc: int) -> PendingDoc:
    """A turn or entry as `TurnStore.pending` gives it; without text when it is gone."""
    if corpus != TURNS:
        return PendingDoc(doc, "", "".join(entry.index_text for entry in store.entries_by_doc(user_id, [doc])))
    for turn in store.turns_by_doc(user_id, [doc]):
        return PendingDoc(doc, passage_header(turn.speaker), passage_text(turn.text, turn.caption))
    return PendingDoc(doc, "", "")


def _passages(unit: PendingDoc, start: int, embedder: Embedder) -> Iterator[tuple[str, int]]:
    """Passages of a unit from a character on, each with its header, and the character it ends before.

    A long text is cut window by window, so that going on with a large message costs what is read of it, not the whole.
    """
    room = max(16, embedder.max_tokens - (embedder.count_tokens(unit.header) if unit.header else 0))
    while start < len(unit.text):
        window = unit.text[start : start + _WINDOW]
        spans = split_passages(window, max_tokens=room, count=embedder.count_tokens)
        if start + len(window) < len(unit.text) and len(spans) > 1:
            spans = spans[:-1]  # the last one may go on behind the window
        for first, last in spans:
            yield f"{unit.header}{window[first:last]}", start + last
        start += spans[-1][1] if spans else len(window)
