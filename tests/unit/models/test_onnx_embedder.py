from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from backread.errors import ModelNotAvailableError, ModelOutputError, NotFoundError
from backread.models import onnx
from backread.models.base import Embedder
from backread.models.embedders import EMBEDDERS, open_embedder
from backread.models.fetch import find, models_dir
from backread.models.onnx import OnnxEmbedder
from backread.models.specs import MODELS

weights = pytest.mark.weights
needs_weights = pytest.mark.skipif(
    find("minilm", models_dir()) is None, reason="the MiniLM weights are not here: backread models fetch minilm"
)

TEXTS = [
    "The dentist moved my appointment to Thursday.",
    "",
    "Basil wants sun, and a pot with holes!",
    "e\u0301tude für Æsop 東京 🎉 naïve",
    "word " * 100,
]


class Reference:
    """BERT's forward pass in numpy, straight from the safetensors; the yardstick for the graph."""

    def __init__(self, folder: Path) -> None:
        with (folder / "model.safetensors").open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
            data = file.read()
        self.weights = {
            name: np.frombuffer(data[slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
            for name, entry in header.items()
            if name != "__metadata__" and entry["dtype"] == "F32"
        }

    def linear(self, x: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        # einsum stays on one thread; BLAS takes all of them, which is ten times slower on a busy machine
        product: NDArray[np.float32] = np.einsum("ij,kj->ik", x, self.weights[f"{name}.weight"])
        return product + self.weights[f"{name}.bias"]

    def norm(self, x: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        result: NDArray[np.float32] = scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
        return result

    def layer(self, x: NDArray[np.float32], name: str) -> NDArray[np.float32]:
        n = len(x)
        q, k, v = (
            self.linear(x, f"{name}.attention.self.{part}").reshape(n, 12, 32).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = q @ k.swapaxes(1, 2) / np.float32(32**0.5)
        attention = np.exp(scores - scores.max(-1, keepdims=True))
        attention /= attention.sum(-1, keepdims=True)
        context = (attention @ v).swapaxes(0, 1).reshape(n, 384)
        x = self.norm(self.linear(context, f"{name}.attention.output.dense") + x, f"{name}.attention.output.LayerNorm")
        wide = self.linear(x, f"{name}.intermediate.dense")
        gelu = wide * 0.5 * (1 + _erf(wide / np.float32(2**0.5)))
        return self.norm(self.linear(gelu, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")

    def embed(self, ids: list[int]) -> NDArray[np.float32]:
        w = self.weights
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + w["embeddings.position_embeddings.weight"][: len(ids)] + w["embeddings.token_type_embeddings.weight"][0]
        x = self.norm(x, "embeddings.LayerNorm")
        for index in range(6):
            x = self.layer(x, f"encoder.layer.{index}")
        mean = x.mean(0)
        unit: NDArray[np.float32] = mean / np.linalg.norm(mean)
        return unit


def _erf(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Error below 1.2e-7: Numerical Recipes, 2nd edition, section 6.2 (erfcc)."""
    t = 1 / (1 + 0.5 * np.abs(x))
    powers = (
        -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223,
        0.17087277,
    )  # fmt: skip
    tail = t * np.exp(-x * x + np.polyval(powers[::-1], t))
    result: NDArray[np.float32] = np.where(x >= 0, 1 - tail, tail - 1)
    return result


def _ids(text: str) -> list[int]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(models_dir() / "minilm" / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    ids: list[int] = tokenizer.encode(text).ids
    return ids


@pytest.fixture(scope="module")
def minilm() -> OnnxEmbedder:
    return OnnxEmbedder.open(models_dir())


@weights
@needs_weights
@pytest.mark.slow
def test_the_graph_is_bert_with_mean_pooling(minilm: OnnxEmbedder) -> None:
    reference = Reference(models_dir() / "minilm")
    expected = np.stack([reference.embed(_ids(text)) for text in TEXTS])
    cosines = (minilm.embed(TEXTS) * expected).sum(1)
    assert cosines.min() >= 0.99999


@weights
@needs_weights
def test_paraphrases_are_nearer_than_strangers(minilm: OnnxEmbedder) -> None:
    question, near, far = minilm.embed(["How do I look after basil?", TEXTS[2], TEXTS[0]])
    assert float(question @ near) > float(question @ far) + 0.2


@weights
@needs_weights
def test_reads_254_tokens_and_no_more(minilm: OnnxEmbedder) -> None:
    assert minilm.max_tokens == 254
    base = ["river"] * 253
    inside, outside = [*base, "telescope"], [*base, "river", "telescope"]
    plain, changed, unchanged = minilm.embed([" ".join(words) for words in ([*base, "river"], inside, outside)])
    assert float(plain @ changed) < 0.9999
    np.testing.assert_allclose(plain, unchanged, atol=1e-5)


@weights
@needs_weights
def test_threads_and_order_do_not_change_vectors(minilm: OnnxEmbedder) -> None:
    many = [text[: 17 * number + 3] for number in range(14) for text in TEXTS]
    one = OnnxEmbedder.open(models_dir(), threads=1)
    np.testing.assert_allclose(minilm.embed(many), one.embed(many[::-1])[::-1], atol=1e-5)


@weights
@needs_weights
def test_counts_of_a_long_text_are_those_of_one_pass(minilm: OnnxEmbedder) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(models_dir() / "minilm" / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    text = ("Ünïted e\u0301tats, don't-stop 東京 3.14\n\tand\u00a0so on " * 5000)[:200_000]
    assert minilm.count_tokens(text) == len(tokenizer.encode(text, add_special_tokens=False).ids)
    assert minilm.count_tokens("x" * 200_000) == 1  # one word above 100 characters is one unknown token


@weights
@needs_weights
def test_lone_surrogates_and_nul_reach_the_tokenizer_as_safe_text(minilm: OnnxEmbedder) -> None:
    marked, plain = minilm.embed(["good\x00 morning \ud800 to you", "good morning to you"])
    assert float(marked @ plain) > 0.8


def test_describes_itself_without_weights(tmp_path: Path) -> None:
    embedder = OnnxEmbedder(tmp_path)
    assert isinstance(embedder, Embedder)
    assert (embedder.name, embedder.dimension, embedder.max_tokens) == ("minilm", 384, 254)
    assert embedder.fingerprint == f"minilm-f32:{MODELS['minilm'].sha256[:16]}:g1:384"


def test_missing_weights_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(ModelNotAvailableError, match="not in") as caught:
        open_embedder("minilm", directory=tmp_path)
    assert caught.value.hint == "backread models fetch minilm"
    assert str(tmp_path) in str(caught.value)


def test_weights_that_vanish_after_open_are_a_model_error(tmp_path: Path) -> None:
    embedder = OnnxEmbedder(tmp_path)
    with pytest.raises(ModelNotAvailableError) as caught:
        embedder.embed(["text"])
    assert caught.value.hint == "backread models fetch minilm"
    with pytest.raises(ModelNotAvailableError):
        embedder.count_tokens("text")
    assert embedder.embed([]).shape == (0, 384)


def test_unknown_name_lists_the_names(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"'hash'.*minilm"):
        open_embedder("hash", directory=tmp_path)
    assert list(EMBEDDERS) == sorted(EMBEDDERS)


class Session:
    """An onnxruntime session that gives what it is told."""

    def __init__(self, output: object) -> None:
        self.output = output

    def run(self, names: list[str], feed: dict[str, Any]) -> list[object]:
        if isinstance(self.output, Exception):
            raise self.output
        return [self.output]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (np.zeros((3, 384), np.float32), "shape"),
        (np.zeros((2, 383), np.float32), "shape"),
        (np.full((2, 384), np.nan, np.float32), "not finite"),
        (np.full((2, 384), np.inf, np.float32), "not finite"),
        (RuntimeError("out of memory"), "out of memory"),
    ],
)
def test_output_that_cannot_be_used_is_an_error(output: object, message: str) -> None:
    with pytest.raises(ModelOutputError, match=message):
        onnx._run(Session(output), [[101, 102], [101, 7592, 102]])


def test_batches_are_bounded_and_cover_every_row_once() -> None:
    lengths = [(7 * number) % 257 or 2 for number in range(500)]
    batches = list(onnx._batches(lengths))
    assert sorted(row for batch in batches for row in batch) == list(range(500))
    for batch in batches:
        assert len(batch) <= onnx.BATCH
        assert len(batch) * max(lengths[row] for row in batch) <= onnx.BATCH_TOKENS
    assert list(onnx._batches([])) == []
    assert list(onnx._batches([9999])) == [[0]]


def test_importing_the_models_loads_no_heavy_module() -> None:
    heavy = ("onnxruntime", "tokenizers", "openai", "huggingface_hub", "httpx", "httpx2")
    code = (
        "import sys; import backread.models.embedders, backread.models.openai, backread.models.fetch;"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
