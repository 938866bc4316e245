"""A text model as ONNX with its tokenizer: what the cross-encoder and SPLADE share.

A folder holds `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json`, as exporters write them and hub repositories
have them. Texts of like length are run together.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from backread import forking
from backread.arrays import NDArray, np
from backread.errors import ModelNotAvailableError, ModelOutputError
from backread.models.onnx_session import open_session
from backread.text.fencing import safe

__all__ = ["OnnxText"]

BATCH = 16
BATCH_TOKENS = 4096
PAD_TOKENS = ("[PAD]", "<pad>", "<|endoftext|>")
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class OnnxText:
    """Session and tokenizer of one folder; both are opened at the first use. Threads may share one object.

    Args:
        folder: see the module.
        name: for messages.
        threads: that onnxruntime uses for one call; None takes min(4, CPUs).

    Raises:
        ModelNotAvailableError: the folder lacks one of the files.
    """

    def __init__(self, folder: Path, *, name: str, threads: int | None = None) -> None:
        candidates = [path for path in (folder / "model.onnx", folder / "onnx" / "model.onnx") if path.is_file()]
        if not candidates or not (folder / "tokenizer.json").is_file():
            raise ModelNotAvailableError(
                f"{folder} is not the folder of an ONNX model",
                hint="it must hold model.onnx (or onnx/model.onnx) and tokenizer.json",
            )
        self._graph, self._tokens = candidates[0], folder / "tokenizer.json"
        self._name = name
        self._threads = threads if threads is not None else min(4, os.cpu_count() or 1)
        self._lock = forking.Lock()
        self._opened: tuple[Any, tuple[str, ...]] | None = None
        forking.in_child(self._renew)

    def _renew(self) -> None:
        forking.abandon(self._opened)  # the threads of its session are the parent's
        self._opened = None

    @cached_property
    def sha256(self) -> str:
        """Hash over graph, weights beside it and tokenizer, 16 hex digits; the files are read for it once."""
        digest = hashlib.sha256()
        beside = sorted(path for path in self._graph.parent.glob("model.onnx*") if path.is_file())
        for path in (*beside, self._tokens):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()[:16]

    def tokenizer(self, prepare: Callable[[Any], None]) -> Any:  # noqa: ANN401 -- an object of the tokenizers library
        """A tokenizer of its own, without padding, after `prepare` has set its truncation.

        Raises:
            ModelNotAvailableError: the file can't be read as a tokenizer.
        """
        from tokenizers import Tokenizer

        try:
            made = Tokenizer.from_str(self._tokens.read_text(encoding="utf-8"))
        except Exception as error:  # the library raises plain Exception
            raise ModelNotAvailableError(f"{self._tokens} is no tokenizer: {error}") from error
        made.no_padding()
        made.no_truncation()
        prepare(made)
        return made

    @cached_property
    def counter(self) -> Any:  # noqa: ANN401
        """The tokenizer without truncation."""
        return self.tokenizer(lambda made: None)

    def count_tokens(self, text: str) -> int:
        """Tokens of `text`, special tokens not counted."""
        return len(self.counter.encode(safe(text), add_special_tokens=False).ids)

    def run(
        self, encodings: Sequence[Any], *, batch_tokens: int = BATCH_TOKENS
    ) -> Iterator[tuple[list[int], NDArray[np.float32], NDArray[np.bool_]]]:
        """The first output for batches of encodings: their places, the output, the mask; every place comes once.

        Args:
            encodings: of the tokenizer, in any order of length.
            batch_tokens: of one run, padding counted; one text alone may have more.

        Raises:
            ModelNotAvailableError: the graph can't be opened.
            ModelOutputError: it can't be run on these tokens, or the output has values that are not finite.
        """
        session, inputs = self._open()
        pad = next((self.counter.token_to_id(token) for token in PAD_TOKENS if self.counter.token_to_id(token)), 0)
        for rows in _batches([len(encoding.ids) for encoding in encodings], batch_tokens):
            chosen = [encodings[row] for row in rows]
            lengths = np.array([len(encoding.ids) for encoding in chosen])
            mask = np.arange(max(1, int(lengths.max()))) < lengths[:, None]
            feed = {"input_ids": np.full(mask.shape, pad, np.int64), "attention_mask": mask.astype(np.int64)}
            feed["token_type_ids"] = np.zeros(mask.shape, np.int64)
            feed["input_ids"][mask] = [token for encoding in chosen for token in encoding.ids]
            feed["token_type_ids"][mask] = [kind for encoding in chosen for kind in encoding.type_ids]
            try:
                output = np.asarray(session.run(None, {name: feed[name] for name in inputs})[0], np.float32)
            except Exception as error:  # onnxruntime's errors have no common base
                raise ModelOutputError(f"{self._name}: onnxruntime failed on {mask.shape} tokens: {error}") from error
            if not len(output) == len(rows) or not np.isfinite(output).all():
                raise ModelOutputError(f"{self._name} gave {output.shape} for {len(rows)} texts, or values not finite")
            yield rows, output, mask

    def _open(self) -> tuple[Any, tuple[str, ...]]:
        with self._lock:
            if self._opened is None:
                try:
                    session = open_session(str(self._graph), self._threads)
                except Exception as error:  # onnxruntime's errors have no common base
                    raise ModelNotAvailableError(f"{self._graph} can't be opened: {error}") from error
                names = tuple(item.name for item in session.get_inputs())
                if unknown := set(names) - set(INPUTS):
                    raise ModelNotAvailableError(
                        f"{self._graph} wants the inputs {sorted(unknown)}", hint=f"known are {', '.join(INPUTS)}"
                    )
                self._opened = (session, names)
            return self._opened


def _batches(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Places, shortest first, in batches of at most 16 rows and `tokens` padded tokens."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: lengths[row]):
        if batch and (len(batch) == BATCH or (len(batch) + 1) * lengths[row] > tokens):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
