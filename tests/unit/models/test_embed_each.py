"""One bad text: named, and the others have their vectors; a model that is down blames no text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from backread.errors import (
    ContextWindowError,
    ModelError,
    ModelNotAvailableError,
    ModelOutputError,
    ModelRequestError,
)
from backread.models.embed_each import embed_each
from backread.testing.fakes import FailingEmbedder, HashEmbedder


class Picky(HashEmbedder):
    """Fails for a call with one of the bad texts in it."""

    def __init__(self, *bad: str, error: ModelError | None = None) -> None:
        super().__init__(16)
        self.bad, self.error = bad, error or ModelRequestError("NaN", status=500)
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        self.calls.append(list(texts))
        if any(text in self.bad for text in texts):
            raise self.error
        return super().embed(texts, kind=kind)


TEXTS = [f"turn {number}" for number in range(16)]


def test_no_texts() -> None:
    made = embed_each(FailingEmbedder(HashEmbedder(16)), [])
    assert made.vectors.shape == (0, 16)
    assert made.failed == {}


def test_all_is_well_in_one_call() -> None:
    embedder = Picky()
    made = embed_each(embedder, TEXTS)
    assert len(embedder.calls) == 1
    assert not made.failed
    np.testing.assert_array_equal(made.vectors, HashEmbedder(16).embed(TEXTS))


@pytest.mark.parametrize("bad", [[0], [15], [3, 4], [0, 7, 15], list(range(15)), list(range(16))])
def test_the_bad_ones_are_found(bad: list[int]) -> None:
    embedder = Picky(*(TEXTS[place] for place in bad))
    made = embed_each(embedder, TEXTS)
    assert list(made.failed) == bad
    good = [place for place in range(16) if place not in bad]
    if good:
        np.testing.assert_array_equal(made.vectors[good], HashEmbedder(16).embed([TEXTS[place] for place in good]))
    assert not made.vectors[bad].any()


def test_one_bad_text_takes_few_calls() -> None:
    embedder = Picky(TEXTS[5])
    embed_each(embedder, TEXTS)
    assert len(embedder.calls) <= 2 * 4 + 2


@pytest.mark.parametrize(
    "error",
    [ModelRequestError("", status=status) for status in (400, 413, 422, 500)]
    + [ModelOutputError(""), ContextWindowError("")],
)
def test_what_may_be_a_text(error: ModelError) -> None:
    assert list(embed_each(Picky(TEXTS[2], error=error), TEXTS[:4]).failed) == [2]


@pytest.mark.parametrize(
    "error",
    [ModelRequestError("", status=status) for status in (None, 401, 404, 429, 502, 503, 504)]
    + [ModelNotAvailableError("")],
)
def test_what_is_never_a_text(error: ModelError) -> None:
    embedder = Picky(TEXTS[2], error=error)
    with pytest.raises(type(error)):
        embed_each(embedder, TEXTS)
    assert len(embedder.calls) == 1


def test_a_model_that_always_fails_blames_no_text() -> None:
    embedder = Picky(*TEXTS, "ok")
    with pytest.raises(ModelRequestError, match="NaN"):
        embed_each(embedder, TEXTS)
    assert len(embedder.calls) == 6  # 16, 8, 4, 2 and 1 texts, and the harmless word


def test_embedders_of_others_are_held_to_the_contract() -> None:
    class Wrong(HashEmbedder):
        def __init__(self, what: str) -> None:
            super().__init__(4)
            self.what = what

        def embed(
            self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document"
        ) -> NDArray[np.float32]:
            vectors = super().embed(texts, kind=kind)
            for row, text in enumerate(texts):
                if text == "bad":
                    vectors[row] = {"nan": np.nan, "zero": 0.0, "long": 3.0, "few": vectors[row]}[self.what]
            return vectors[1:] if self.what == "few" and "bad" in texts else vectors

    for what in ("nan", "zero", "long", "few"):
        made = embed_each(Wrong(what), ["fine", "bad", "good"])
        assert list(made.failed) == [1], what
        assert np.isfinite(made.vectors).all()
