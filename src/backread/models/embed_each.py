"""Embedding many texts when one of them may be bad: the bad one is named, the others have their vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from backread.arrays import NDArray, np
from backread.errors import ContextWindowError, ModelError, ModelOutputError, ModelRequestError
from backread.models.base import Embedder

__all__ = ["Embedded", "embed_each"]

PROBE = "ok"
TEXT_STATUSES = (400, 413, 422, 500)
"""HTTP statuses that may be the fault of one text. Any other one is the endpoint's or the caller's."""
NORM_TOLERANCE = 1e-2


class Embedded(NamedTuple):
    """What became of each text.

    Attributes:
        vectors: float32 (len(texts), dimension), row i for texts[i]; zeros for a text that failed.
        failed: place of a text in the call -> why it has no vector.
    """

    vectors: NDArray[np.float32]
    failed: Mapping[int, ModelError]


def embed_each(
    embedder: Embedder, texts: Sequence[str], *, kind: Literal["document", "query"] = "document"
) -> Embedded:
    """A vector for every text that can have one.

    A call that fails in a way that may be the fault of one text is halved and tried again, down to single texts: about
    2 log2(n) more calls for each bad one. Before the first text is held to be bad with none embedded yet, a harmless
    word is embedded: when that fails too it is the model that is down, and nothing is said of the texts.

    Raises:
        ModelError: the model can't be used at all; no text is to blame.
    """
    vectors = np.zeros((len(texts), embedder.dimension), np.float32)
    failed: dict[int, ModelError] = {}
    works = False
    spans = [(0, len(texts))]
    while spans:
        start, end = spans.pop()
        try:
            if end > start:
                vectors[start:end] = _checked(embedder, texts[start:end], kind)
                works = True
        except ModelError as error:
            if not _may_be_a_text(error):
                raise
            if end - start > 1:
                middle = (start + end) // 2
                spans += [(middle, end), (start, middle)]
                continue
            if not works:
                try:
                    _checked(embedder, [PROBE], kind)
                except ModelError:
                    raise error from None
                works = True
            failed[start] = error
    return Embedded(vectors, dict(sorted(failed.items())))


def _checked(embedder: Embedder, texts: Sequence[str], kind: Literal["document", "query"]) -> NDArray[np.float32]:
    """What the embedder gives, held to its contract, whoever wrote it."""
    vectors = embedder.embed(texts, kind=kind)
    if vectors.shape != (len(texts), embedder.dimension):
        expected = (len(texts), embedder.dimension)
        raise ModelOutputError(f"{embedder.name} gave vectors of shape {vectors.shape}, expected {expected}")
    norms = np.linalg.norm(vectors, axis=1)
    if not (np.abs(norms - 1) <= NORM_TOLERANCE).all():  # also False for what is not finite
        raise ModelOutputError(f"{embedder.name} gave vectors that are not finite or not of length 1")
    return vectors


def _may_be_a_text(error: ModelError) -> bool:
    if isinstance(error, ModelOutputError | ContextWindowError):
        return True
    return isinstance(error, ModelRequestError) and error.status in TEXT_STATUSES
