"""Tiny ONNX models with their tokenizers, written into a folder: what tests of local models run on.

    folder = write_cross_encoder(tmp_path / "reranker", ["dog", "cat"])
    OnnxCrossEncoder(folder).rerank("dog", ["a dog", "a cat"])       # [1., 0.]

Their arithmetic can be done by hand. They say nothing of what trained models are worth. The graphs are encoded here, in
the wire format of protocol buffers, so that no package is needed to make them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["write_cross_encoder", "write_splade"]

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
OPSET, IR_VERSION = 17, 8
FLOAT, INT64 = 1, 7
INTS = ("input_ids", "attention_mask", "token_type_ids")


def write_cross_encoder(
    folder: Path, words: Sequence[str], *, outputs: int = 1, graph: str = "onnx/model.onnx"
) -> Path:
    """A cross-encoder whose logit is the number of pairs of equal words of `words` in question and text.

    Args:
        folder: is made.
        words: of the vocabulary, lower case; all other words are one word that never matches.
        outputs: numbers of one text; rerankers have one.
        graph: where in the folder the graph is.
    """
    tokens = _write_tokenizer(folder, words)
    one_hot = np.eye(len(tokens), dtype=np.float32)
    one_hot[: len(SPECIAL)] = 0
    nodes = [
        _node("Gather", ["E", "input_ids"], "tokens"),
        _node("Cast", ["attention_mask"], "mask", to=FLOAT),
        _node("Cast", ["token_type_ids"], "kind", to=FLOAT),
        _node("Mul", ["mask", "kind"], "second"),
        _node("Sub", ["mask", "second"], "first"),
    ]
    for part in ("first", "second"):
        nodes += [
            _node("Unsqueeze", [part, "last"], f"{part}_column"),
            _node("Mul", ["tokens", f"{part}_column"], f"{part}_tokens"),
            _node("ReduceSum", [f"{part}_tokens", "one"], f"{part}_words", keepdims=0),
        ]
    nodes += [
        _node("Mul", ["first_words", "second_words"], "pairs"),
        _node("ReduceSum", ["pairs", "one"], "count", keepdims=1),
        _node("Expand", ["count", "shape"], "logits"),
    ]
    constants: dict[str, NDArray[Any]] = {
        "E": one_hot,
        "last": np.array([2], np.int64),
        "one": np.array([1], np.int64),
        "shape": np.array([1, outputs], np.int64),
    }
    _write(folder / graph, nodes, constants, INTS, ["n", "outputs"])
    return folder


def write_splade(folder: Path, words: Sequence[str], expansions: Mapping[str, Mapping[str, float]]) -> Path:
    """A masked language model whose logits for a token are those of `expansions`, and -1 elsewhere.

    Args:
        folder: is made.
        words: of the vocabulary, lower case; word i has the number i + 5.
        expansions: word -> word -> logit.
    """
    tokens = _write_tokenizer(folder, words)
    logits = np.full((len(tokens), len(tokens)), -1, np.float32)
    for word, others in expansions.items():
        for other, value in others.items():
            logits[tokens[word], tokens[other]] = value
    logits[tokens["[PAD]"]] = 100  # shows when padding is not left out
    _write(
        folder / "model.onnx",
        [_node("Gather", ["W", "input_ids"], "logits")],
        {"W": logits},
        INTS[:2],
        ["n", "tokens", "vocabulary"],
    )
    return folder


def _write_tokenizer(folder: Path, words: Sequence[str]) -> dict[str, int]:
    """Words by white space and signs, lower case, [CLS] and [SEP] around them as in BERT, cut and padded as shipped."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return vocabulary


def _write(
    path: Path,
    nodes: Sequence[bytes],
    constants: Mapping[str, NDArray[Any]],
    inputs: Sequence[str],
    output: Sequence[str],
) -> None:
    """A model of one graph: ModelProto of the ONNX format."""
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"tiny")
    graph += b"".join(_field(5, _tensor(name, array)) for name, array in constants.items())
    graph += b"".join(_field(11, _value(name, INT64, ["n", "tokens"])) for name in inputs)
    graph += _field(12, _value("logits", FLOAT, output))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_number(1, IR_VERSION) + _field(7, graph) + _field(8, _field(1, b"") + _number(2, OPSET)))


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: int) -> bytes:
    """A NodeProto; all attributes are integers."""
    node = b"".join(_field(1, name.encode()) for name in inputs) + _field(2, output.encode()) + _field(4, kind.encode())
    for name, value in attributes.items():
        node += _field(5, _field(1, name.encode()) + _number(3, value) + _number(20, 2))
    return node


def _tensor(name: str, array: NDArray[Any]) -> bytes:
    """A TensorProto with raw data."""
    kind = INT64 if array.dtype == np.int64 else FLOAT
    dims = b"".join(_number(1, size) for size in array.shape)
    return dims + _number(2, kind) + _field(8, name.encode()) + _field(9, array.tobytes())


def _value(name: str, kind: int, dims: Sequence[str]) -> bytes:
    """A ValueInfoProto whose dimensions have names and no sizes."""
    shape = b"".join(_field(1, _field(2, dim.encode())) for dim in dims)
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, kind) + _field(2, shape)))


def _field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
