"""A cross-encoder on onnxruntime, on a tiny one whose arithmetic can be done by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backread.errors import ModelNotAvailableError, ModelOutputError
from backread.models.cross_encoder import OnnxCrossEncoder
from backread.testing.tiny_models import write_cross_encoder, write_splade

WORDS = ["dog", "cat", "red", "kettle"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_cross_encoder(tmp_path / "tiny", WORDS)


def test_scores_are_those_of_the_arithmetic(folder: Path) -> None:
    """Pairs of equal words; the padding of the tokenizer's file and its limit of 8 tokens make no difference."""
    texts = ["a dog", "a cat", "red red dog", "", "nothing of it", "the dog and the dog and the dog and the dog"]
    scores = OnnxCrossEncoder(folder).rerank("A red dog", texts)
    np.testing.assert_array_equal(scores, [1, 0, 3, 0, 0, 4])


def test_a_long_text_has_the_score_of_its_best_window(folder: Path) -> None:
    reranker = OnnxCrossEncoder(folder)
    filler = "so " * 505
    # 512 tokens less [CLS] dog [SEP] and [SEP]: 508 a window, of which 64 are the end of the one before
    assert reranker.rerank("dog", [filler + filler + "dog dog"]).tolist() == [2]
    assert reranker.rerank("dog", ["dog " * 3 + filler + "dog dog"]).tolist() == [3]
    assert reranker.rerank("dog", [filler * 3 + "dog"]).tolist() == [1]
    assert reranker.rerank("dog", [filler * 5 + "dog"]).tolist() == [0]  # beyond the fourth window


def test_a_long_question_is_cut_not_refused(folder: Path) -> None:
    reranker = OnnxCrossEncoder(folder)
    assert reranker.rerank("so " * 127 + "dog cat", ["dog", "cat"]).tolist() == [1, 0]
    assert reranker.rerank("dog " * 5000, ["dog"]).tolist() == [128]


def test_the_company_of_a_text_does_not_matter(folder: Path) -> None:
    reranker = OnnxCrossEncoder(folder)
    texts = [f"{'dog ' * (number % 7)}{'so ' * number}" for number in range(80)]
    together = reranker.rerank("dog", texts)
    alone = [reranker.rerank("dog", [text])[0] for text in texts]
    np.testing.assert_array_equal(together, alone)


def test_the_fingerprint_is_that_of_the_bytes(tmp_path: Path, folder: Path) -> None:
    first = OnnxCrossEncoder(folder).fingerprint
    assert OnnxCrossEncoder(folder, name="other", threads=1).fingerprint == first
    assert OnnxCrossEncoder(write_cross_encoder(tmp_path / "other", ["cat"])).fingerprint != first


def test_both_layouts_are_found(tmp_path: Path) -> None:
    for number, graph in enumerate(("model.onnx", "onnx/model.onnx")):
        folder = write_cross_encoder(tmp_path / str(number), WORDS, graph=graph)
        assert OnnxCrossEncoder(folder).rerank("dog", ["dog"]).tolist() == [1]


def test_folders_that_hold_no_model(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ModelNotAvailableError, match="not the folder of an ONNX model") as caught:
        OnnxCrossEncoder(tmp_path / "nowhere")
    assert "model.onnx" in (caught.value.hint or "")
    (folder / "onnx" / "model.onnx").write_bytes(b"not a graph")
    with pytest.raises(ModelNotAvailableError, match="can't be opened"):
        OnnxCrossEncoder(folder).rerank("dog", ["dog"])
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelNotAvailableError, match="no tokenizer"):
        OnnxCrossEncoder(folder).rerank("dog", ["dog"])


def test_models_that_are_no_rerankers(tmp_path: Path) -> None:
    with pytest.raises(ModelOutputError, match="no reranker"):
        OnnxCrossEncoder(write_cross_encoder(tmp_path / "two", WORDS, outputs=2)).rerank("dog", ["dog", "cat"])
    with pytest.raises(ModelOutputError, match="no reranker"):
        OnnxCrossEncoder(write_splade(tmp_path / "splade", WORDS, {})).rerank("dog", ["dog", "cat"])


def test_values_that_are_not_finite(tmp_path: Path) -> None:
    folder = write_splade(tmp_path / "nan", ["dog"], {"dog": {"dog": float("nan")}})
    with pytest.raises(ModelOutputError, match="not finite"):
        OnnxCrossEncoder(folder).rerank("dog", ["dog"])
