from __future__ import annotations

import doctest

import numpy as np
import pytest

from backread.errors import ModelRequestError
from backread.testing import fake_rerankers
from backread.testing.fake_rerankers import FakeReranker, HashSparseEncoder


def test_examples_run() -> None:
    assert doctest.testmod(fake_rerankers).failed == 0


def test_requests_are_kept_also_those_that_fail() -> None:
    reranker = FakeReranker(error=ModelRequestError("down"))
    with pytest.raises(ModelRequestError):
        reranker.rerank("q", ["a"])
    reranker.error = None
    assert reranker.rerank("q", ["a", "q"]).tolist() == [0, 1]
    assert reranker.requests == [("q", ("a",)), ("q", ("a", "q"))]


def test_texts_that_share_stems_share_terms() -> None:
    walk, walked, other = HashSparseEncoder().encode(["a dog walks", "walked the dogs", "compound interest"])
    np.testing.assert_array_equal(walk.terms, walked.terms)
    assert not set(walk.terms.tolist()) & set(other.terms.tolist())
