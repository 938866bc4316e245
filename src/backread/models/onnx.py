"""The local embedder: all-MiniLM-L6-v2, float32, on onnxruntime.

The arithmetic is `minilm.onnx` in this package (made by `scripts/build_minilm_graph.py`); the weights are the
publisher's `model.safetensors`, which the graph names by byte ranges. No torch, no conversion, no second copy.

Papers: Reimers and Gurevych 2019, Sentence-BERT, section 3 (mean pooling), arXiv 1908.10084; the distilled transformer
is MiniLM, Wang et al. 2020, arXiv 2002.10957.
"""

from __future__ import annotations

import importlib.resources
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from backread import forking
from backread.arrays import NDArray, np
from backread.errors import ModelOutputError
from backread.models.fetch import find, not_available
from backread.models.onnx_session import open_session
from backread.models.specs import MODELS
from backread.text.fencing import safe

__all__ = ["OnnxEmbedder"]

NAME = "minilm"
GRAPH_VERSION = 1
DIMENSION = 384
WINDOW = 256
SPECIAL_TOKENS = 2
BATCH = 32
BATCH_TOKENS = 4096
TOKENIZE_AT_ONCE = 1024
PIECE = 1 << 16
_BREAK = re.compile(r"[ \t\r\n]")


class OnnxEmbedder:
    """all-MiniLM-L6-v2 as an `Embedder`: 384 dimensions, 254 tokens of a text are read, no query prefix.

    Threads may share one object. The session is created at the first call of `embed`, the tokenizers at the first use.

    Args:
        folder: holds the checked `model.safetensors` and `tokenizer.json`; use `open` to find it.
        threads: that onnxruntime uses for one call; None takes min(4, CPUs).
    """

    def __init__(self, folder: Path, *, threads: int | None = None) -> None:
        self._folder = folder
        self._threads = threads if threads is not None else min(4, os.cpu_count() or 1)
        self._lock = forking.Lock()
        self._session: Any = None
        self._tokenizers: tuple[Any, Any] | None = None
        forking.in_child(self._renew)

    def _renew(self) -> None:
        forking.abandon(self._session)  # its threads are the parent's
        self._session = None

    @classmethod
    def open(cls, directory: Path, *, threads: int | None = None) -> OnnxEmbedder:
        """The embedder with the weights under `directory` (see `backread.models.fetch.models_dir`). Never downloads.

        Raises:
            ModelNotAvailableError: the weights are missing, or are not the pinned bytes.
        """
        folder = find(NAME, directory)
        if folder is None:
            raise not_available(NAME, f"they are not in {directory}")
        return cls(folder, threads=threads)

    @property
    def name(self) -> str:
        """Always "minilm"."""
        return NAME

    @property
    def fingerprint(self) -> str:
        """Weights (first 16 hex digits of their sha256), version of the graph, dimension."""
        return f"minilm-f32:{MODELS[NAME].sha256[:16]}:g{GRAPH_VERSION}:{DIMENSION}"

    @property
    def dimension(self) -> int:
        """Columns of a vector, 384."""
        return DIMENSION

    @property
    def max_tokens(self) -> int:
        """254: the window of 256 holds two special tokens."""
        return WINDOW - SPECIAL_TOKENS

    def count_tokens(self, text: str) -> int:
        """Word pieces of `text`, special tokens not counted, not cut at the window."""
        counter = self._load_tokenizers()[1]
        return sum(len(counter.encode(piece, add_special_tokens=False).ids) for piece in _pieces(safe(text)))

    def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        """Unit vectors, float32, shape (len(texts), 384), row i for texts[i]; `kind` makes no difference.

        Texts of like length are run together, so that short ones don't pay for long ones; a vector depends on the
        others of the call only by float rounding (below 1e-5). Text beyond `max_tokens` is not read.

        Raises:
            ModelNotAvailableError: the weights can't be loaded.
            ModelOutputError: the model gave another shape, or values that are not finite.
        """
        vectors = np.empty((len(texts), DIMENSION), np.float32)
        if not texts:
            return vectors
        session, (tokenizer, _) = self._load_session(), self._load_tokenizers()
        for start in range(0, len(texts), TOKENIZE_AT_ONCE):
            block = [safe(text) for text in texts[start : start + TOKENIZE_AT_ONCE]]
            ids = [encoding.ids for encoding in tokenizer.encode_batch(block)]
            for rows in _batches([len(row) for row in ids]):
                vectors[[start + row for row in rows]] = _run(session, [ids[row] for row in rows])
        return vectors

    def _load_session(self) -> Any:  # noqa: ANN401 -- onnxruntime has no types
        with self._lock:
            if self._session is None:
                self._session = _open_session(self._folder, self._threads)
            return self._session

    def _load_tokenizers(self) -> tuple[Any, Any]:
        """One that cuts at the window, one that only counts; neither pads."""
        with self._lock:
            if self._tokenizers is None:
                from tokenizers import Tokenizer

                try:
                    source = (self._folder / "tokenizer.json").read_text(encoding="utf-8")
                except OSError as error:
                    raise not_available(NAME, str(error)) from error
                cutting, counting = Tokenizer.from_str(source), Tokenizer.from_str(source)
                for tokenizer in (cutting, counting):  # the shipped file pads to 128 and cuts at 128
                    tokenizer.no_padding()
                    tokenizer.no_truncation()
                cutting.enable_truncation(WINDOW)
                self._tokenizers = (cutting, counting)
            return self._tokenizers


def _open_session(folder: Path, threads: int) -> Any:  # noqa: ANN401
    graph = importlib.resources.files("backread.models").joinpath("minilm.onnx").read_bytes()
    entries = {"session.model_external_initializers_file_folder_path": str(folder.resolve())}
    try:
        return open_session(graph, threads, entries)
    except Exception as error:  # onnxruntime's errors have no common base
        raise not_available(NAME, f"onnxruntime: {error}") from error


def _run(session: Any, ids: list[list[int]]) -> NDArray[np.float32]:  # noqa: ANN401
    """Checked vectors of one batch of token ids."""
    lengths = np.array([len(row) for row in ids])
    mask = np.arange(lengths.max()) < lengths[:, None]
    padded = np.zeros(mask.shape, np.int64)
    padded[mask] = np.concatenate([np.array(row, np.int64) for row in ids])
    feed = {"input_ids": padded, "attention_mask": mask.astype(np.int64)}
    try:
        output = session.run(["sentence_embedding"], feed)[0]
    except Exception as error:  # onnxruntime's errors have no common base
        raise ModelOutputError(f"onnxruntime failed on a batch of {mask.shape} tokens: {error}") from error
    vectors: NDArray[np.float32] = np.asarray(output, np.float32)
    if vectors.shape != (len(ids), DIMENSION):
        raise ModelOutputError(f"{NAME} gave vectors of shape {vectors.shape}, expected {(len(ids), DIMENSION)}")
    if not np.isfinite(vectors).all():
        raise ModelOutputError(f"{NAME} gave values that are not finite")
    return vectors


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Row numbers, shortest first, in batches of at most 32 rows and 4096 padded tokens."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row]):
        if batch and (len(batch) == BATCH or (len(batch) + 1) * lengths[row] > BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _pieces(text: str) -> Iterator[str]:
    """The text cut at white space every 64k characters or later; BERT's words end there, so counts add up exactly."""
    start = 0
    while len(text) - start > PIECE and (found := _BREAK.search(text, start + PIECE)):
        yield text[start : found.start()]
        start = found.start()
    yield text[start:]
