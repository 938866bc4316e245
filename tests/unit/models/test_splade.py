"""SPLADE on onnxruntime, on a tiny model whose arithmetic can be done by hand, and sparse encoders by name."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from backread.errors import (
    InvalidInputError,
    MissingExtraError,
    ModelNotAvailableError,
    ModelOutputError,
    NotFoundError,
)
from backread.models.base import SparseEncoder
from backread.models.splade import OnnxSplade, open_sparse_encoder
from backread.testing.contracts_models import TEXTS, SparseEncoderContract
from backread.testing.tiny_models import write_cross_encoder, write_splade

WORDS = ["dog", "cat", "pet", "ferry"]
DOG, CAT, PET = 5, 6, 7
EXPANSIONS = {"dog": {"dog": 2.0, "pet": 1.0, "cat": 0.5}, "cat": {"cat": 2.0, "pet": 1.5}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_splade(tmp_path / "tiny", WORDS, EXPANSIONS)


class TestContract(SparseEncoderContract):
    @pytest.fixture
    def encoder(self, tmp_path: Path) -> SparseEncoder:
        words = sorted({word.lower() for text in TEXTS for word in text.replace(".", "").replace(",", "").split()})
        return OnnxSplade(write_splade(tmp_path / "tiny", words, {word: {word: 2.0} for word in words}))


def test_weights_are_those_of_the_formula(folder: Path) -> None:
    """max over tokens of log(1 + relu(logit)): of "dog cat", 2 for both and 1.5 for the pet."""
    dog, both, none, blank = OnnxSplade(folder).encode(["dog", "a dog, a cat", "zebra", ""])
    assert dog.terms.tolist() == [DOG, CAT, PET]
    np.testing.assert_allclose(dog.weights, [math.log(3), math.log(1.5), math.log(2)], atol=1e-6)
    assert both.terms.tolist() == [DOG, CAT, PET]
    np.testing.assert_allclose(both.weights, [math.log(3), math.log(3), math.log(2.5)], atol=1e-6)
    assert len(none.terms) == len(blank.terms) == 0


def test_padding_adds_nothing(folder: Path) -> None:
    """Short and long texts in one call: the logits of [PAD] are 100 in this model."""
    short, _ = OnnxSplade(folder).encode(["dog", "so " * 40])
    assert float(short.weights.max()) < 2


def test_many_texts_keep_their_order(folder: Path) -> None:
    texts = ["dog " + "so " * (number % 50) if number % 3 else "ferry" for number in range(600)]
    vectors = OnnxSplade(folder).encode(texts)
    assert [bool(len(vector.terms)) for vector in vectors] == ["dog" in text for text in texts]


def test_tokens_are_counted_beyond_the_window(folder: Path) -> None:
    encoder = OnnxSplade(folder)
    assert encoder.max_tokens == 510
    assert encoder.count_tokens("dog " * 2000) == 2000


def test_a_graph_without_logits(tmp_path: Path) -> None:
    with pytest.raises(ModelOutputError, match="not logits"):
        OnnxSplade(write_cross_encoder(tmp_path, WORDS)).encode(["dog"])


def test_by_name(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening connects to nothing (CFG-01; the network is blocked in tests)."""
    encoder = open_sparse_encoder(f"onnx:{folder}", directory=tmp_path)
    assert encoder.encode(["dog"])[0].terms.tolist() == [DOG, CAT, PET]
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    for name in ("splade-v3", "st:org/name"):
        with pytest.raises(MissingExtraError, match="pip install"):
            open_sparse_encoder(name, directory=tmp_path)
    with pytest.raises(ModelNotAvailableError) as caught:
        open_sparse_encoder("onnx:org/name@abc", directory=tmp_path)
    assert caught.value.hint == "backread models fetch org/name@abc"
    with pytest.raises(InvalidInputError, match="no ONNX model"):
        open_sparse_encoder("onnx:nowhere", directory=tmp_path)
    for name in ("splade", "onnx:", ""):
        with pytest.raises(NotFoundError, match="splade-v3"):
            open_sparse_encoder(name, directory=tmp_path)
