"""A reranker and a sparse encoder for tests: deterministic, offline. Part of the product; they follow its contracts."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from backread.errors import ModelError
from backread.models.base import SparseVector
from backread.text.analysis import ANALYZER, tokens

__all__ = ["FakeReranker", "HashSparseEncoder", "shared_stems"]


def shared_stems(question: str, text: str) -> float:
    """How many different stems of the question are in the text."""
    return float(len({word.stem for word in tokens(question)} & {word.stem for word in tokens(text)}))


class FakeReranker:
    """A `Reranker` that is a function of question and text.

    Args:
        score: gives the score of a text, NaN for "could not be scored".
        error: raised by every call instead; set it to None to recover.
        name: what it is called.

    Attributes:
        requests: question and texts of every call so far, those that raised included.

    Example:
        >>> FakeReranker().rerank("red kettle", ["a kettle", "a red kettle"]).tolist()
        [1.0, 2.0]
    """

    def __init__(
        self,
        score: Callable[[str, str], float] = shared_stems,
        *,
        error: ModelError | None = None,
        name: str = "fake",
    ) -> None:
        self._score, self._name = score, name
        self.error = error
        self.requests: list[tuple[str, tuple[str, ...]]] = []

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Names the function."""
        return f"fake-reranker:{self._name}:{getattr(self._score, '__qualname__', 'score')}"

    def rerank(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """What the function says of each text, float32 (len(texts),)."""
        self.requests.append((question, tuple(texts)))
        if self.error is not None:
            raise self.error
        return np.array([self._score(question, text) for text in texts], np.float32)


class HashSparseEncoder:
    """A `SparseEncoder` without a model: the stems of a text, hashed, weighted by log(1 + count).

    Args:
        name: what it is called.
        max_tokens: words of a text that are read; the rest is ignored, as with a real model.
    """

    def __init__(self, *, name: str = "hash-sparse", max_tokens: int = 254) -> None:
        self._name, self._max_tokens = name, max_tokens

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Names the rules that make stems."""
        return f"hash-sparse:{self._name}:{self._max_tokens}:{ANALYZER}"

    @property
    def max_tokens(self) -> int:
        """As given."""
        return self._max_tokens

    def count_tokens(self, text: str) -> int:
        """Words of `text`, as search sees them."""
        return sum(1 for _ in tokens(text))

    def encode(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> list[SparseVector]:
        """A vector for each text, in order; `kind` makes no difference, a text without words has no term."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> SparseVector:
        words = list(itertools.islice(tokens(text), self._max_tokens))
        stems = Counter([word.stem for word in words if not word.stop] or [word.stem for word in words])
        weights = {_place(stem): math.log1p(count) for stem, count in stems.items()}
        terms = sorted(weights)
        return SparseVector(np.array(terms, np.int64), np.array([weights[term] for term in terms], np.float32))


def _place(stem: str) -> int:
    digest = hashlib.blake2b(stem.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
