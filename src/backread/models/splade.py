"""SPLADE: a text as weighted terms of a masked language model's vocabulary, and sparse encoders by name.

Formal, Piwowarski & Clinchant, "SPLADE", SIGIR 2021, equation 1, with the max over tokens of "SPLADE v2", 2021,
arXiv 2109.10086, equation 6: the weight of term j is max over tokens i of log(1 + relu(logit_ij)), padding left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from backread import forking
from backread.arrays import NDArray, np
from backread.errors import ModelOutputError, NotFoundError
from backread.models.base import SparseEncoder, SparseVector
from backread.models.onnx_hub import find_onnx
from backread.models.onnx_text import OnnxText
from backread.models.sentence_transformers import SentenceTransformersSparseEncoder
from backread.text.fencing import safe

__all__ = ["SPARSE_ENCODERS", "OnnxSplade", "open_sparse_encoder", "sparse_vector"]

WINDOW = 512
SPECIAL_TOKENS = 2
TOKENIZE_AT_ONCE = 256
BATCH_TOKENS = 1024  # each has a logit for every word of the vocabulary: 125 MB

SPARSE_ENCODERS: tuple[str, ...] = ("splade-v3",)
"""The short names `open_sparse_encoder` knows; it also takes "onnx:…" and "st:…"."""

SPLADE_V3 = "naver/splade-v3"  # CC-BY-NC-SA-4.0, and the hub asks for an account: not for commercial use


def sparse_vector(weights: NDArray[np.float32]) -> SparseVector:
    """The terms of a dense row whose weight is above 0."""
    terms = np.flatnonzero(weights > 0)
    return SparseVector(terms.astype(np.int64), weights[terms].astype(np.float32))


class OnnxSplade:
    """A masked language model in ONNX as a `SparseEncoder`. Threads may share one object.

    The graph's first output are the logits, (texts, tokens, vocabulary), as `optimum-cli export onnx --task fill-mask`
    writes it. Queries are read as documents are.

    Args:
        folder: holds model.onnx (or onnx/model.onnx) and tokenizer.json.
        name: what it is called.
        threads: that onnxruntime uses for one call; None takes min(4, CPUs).

    Raises:
        ModelNotAvailableError: the folder lacks one of the files.
    """

    def __init__(self, folder: Path, *, name: str = "splade", threads: int | None = None) -> None:
        self._name = name
        self._model = OnnxText(folder, name=name, threads=threads)
        self._cutting: Any = None
        self._lock = forking.Lock()

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Of the files; they are read for it once."""
        return f"onnx-splade-max:{self._model.sha256}"

    @property
    def max_tokens(self) -> int:
        """510: the window of 512 holds two special tokens."""
        return WINDOW - SPECIAL_TOKENS

    def count_tokens(self, text: str) -> int:
        """By the model's own tokenizer."""
        return self._model.count_tokens(text)

    def encode(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> list[SparseVector]:
        """A vector for each text, in order; `kind` makes no difference.

        Raises:
            ModelNotAvailableError: the files can't be opened.
            ModelOutputError: the graph gives no logits over a vocabulary, or values that are not finite.
        """
        vectors: list[SparseVector] = []
        tokenizer = self._tokenizer()
        for start in range(0, len(texts), TOKENIZE_AT_ONCE):
            block = [safe(text) for text in texts[start : start + TOKENIZE_AT_ONCE]]
            found: dict[int, SparseVector] = {}
            for rows, logits, mask in self._model.run(tokenizer.encode_batch(block), batch_tokens=BATCH_TOKENS):
                if logits.ndim != 3 or logits.shape[:2] != mask.shape:
                    raise ModelOutputError(f"{self._name} gives {logits.shape}, not logits for {mask.shape} tokens")
                pooled = np.log1p(np.where(mask[..., None], logits, 0).max(axis=1).clip(min=0))
                found |= {row: sparse_vector(weights) for row, weights in zip(rows, pooled, strict=True)}
            vectors += [found[row] for row in range(len(block))]
        return vectors

    def _tokenizer(self) -> Any:  # noqa: ANN401 -- an object of the tokenizers library
        with self._lock:
            if self._cutting is None:
                self._cutting = self._model.tokenizer(lambda made: made.enable_truncation(WINDOW))
            return self._cutting


def open_sparse_encoder(name: str, *, directory: Path, threads: int | None = None) -> SparseEncoder:
    """The sparse encoder called `name`. Opening never downloads, loads torch, or makes a connection.

    Args:
        name: "splade-v3" (Lassance et al. 2024, arXiv 2403.06789; through sentence-transformers, its licence forbids
            commercial use); "st:ORG/NAME[@REVISION]" or "st:FOLDER" likewise; "onnx:FOLDER" for a masked language model
            in ONNX, or "onnx:ORG/NAME@REVISION" once it was fetched. PromptReps (Zhuang et al., EMNLP 2024) is not
            offered: it needs the next-token logits of a chat model, which an endpoint does not give.
        directory: where fetched models are.
        threads: of an ONNX model, for one call; None takes min(4, CPUs).

    Raises:
        NotFoundError: no sparse encoder has this name.
        ModelNotAvailableError: its weights are not on this machine; the hint says how to fetch them.
        MissingExtraError: it needs a package that is not installed.
    """
    if name == "splade-v3":
        return SentenceTransformersSparseEncoder.open(SPLADE_V3, name=name)
    kind, colon, rest = name.partition(":")
    if colon and rest and kind == "st":
        return SentenceTransformersSparseEncoder.open(rest)
    if colon and rest and kind == "onnx":
        folder = Path(rest).expanduser()
        if not folder.is_dir():
            folder = find_onnx(rest, directory)
        return OnnxSplade(folder, name=name, threads=threads)
    raise NotFoundError(
        f"no sparse encoder is called {name!r}; there is: {', '.join(SPARSE_ENCODERS)}",
        hint="other models: onnx:FOLDER, onnx:ORG/NAME@REVISION, st:ORG/NAME[@REVISION]",
    )
