"""A cross-encoder on onnxruntime: reads question and text as one input and gives one number.

Nogueira & Cho, "Passage Re-ranking with BERT", 2019, arXiv 1901.04085. Differs from the paper in that a text longer
than the window is read in overlapping windows and scored by the best one (MaxP, Dai & Callan, SIGIR 2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from backread import forking
from backread.arrays import NDArray, np
from backread.errors import ModelOutputError
from backread.models.onnx_text import OnnxText
from backread.text.fencing import safe

__all__ = ["OnnxCrossEncoder"]

WINDOW = 512
OVERLAP = 64
WINDOWS = 4
QUESTION_TOKENS = 128
_PLACES = 4


class OnnxCrossEncoder:
    """An ONNX cross-encoder with one output as a `Reranker`. Threads may share one object.

    Scores are the model's raw logits, rounded to four places, so that equal texts tie. Of a question 128 tokens are
    read, of a text four windows of 512 tokens, question counted, that overlap by 64; what comes after is not read.

    Args:
        folder: holds model.onnx (or onnx/model.onnx) and tokenizer.json; see `rerankers.open_reranker` for names.
        name: what it is called.
        threads: that onnxruntime uses for one call; None takes min(4, CPUs).

    Raises:
        ModelNotAvailableError: the folder lacks one of the files.
    """

    def __init__(self, folder: Path, *, name: str = "cross-encoder", threads: int | None = None) -> None:
        self._name = name
        self._model = OnnxText(folder, name=name, threads=threads)
        self._pairs: Any = None
        self._lock = forking.Lock()

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Of the files; they are read for it once."""
        return f"onnx-cross-encoder:{self._model.sha256}"

    def rerank(self, question: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Logits, float32 (len(texts),), score i for texts[i]; higher is better, never NaN.

        Raises:
            ModelNotAvailableError: the files can't be opened.
            ModelOutputError: the model gave more than one number a text, or none that is finite.
        """
        scores = np.full(len(texts), -np.inf, np.float32)
        if not texts:
            return scores
        tokenizer = self._tokenizer()
        asked = self._cut(question)
        windows: list[Any] = []
        owners: list[int] = []
        for place, encoding in enumerate(tokenizer.encode_batch([(asked, safe(text)) for text in texts])):
            found = [encoding, *encoding.overflowing][:WINDOWS]
            windows += found
            owners += [place] * len(found)
        for rows, output, _ in self._model.run(windows):
            if output.size != len(rows):
                raise ModelOutputError(f"{self._name} gives {output.shape[1:]} values a text: it is no reranker")
            np.maximum.at(scores, [owners[row] for row in rows], output.reshape(len(rows)))
        return scores.round(_PLACES)

    def _cut(self, question: str) -> str:
        encoding = self._model.counter.encode(safe(question), add_special_tokens=False)
        if len(encoding.ids) <= QUESTION_TOKENS:
            return safe(question)
        return safe(question)[: encoding.offsets[QUESTION_TOKENS - 1][1]]

    def _tokenizer(self) -> Any:  # noqa: ANN401 -- an object of the tokenizers library
        with self._lock:
            if self._pairs is None:
                self._pairs = self._model.tokenizer(
                    lambda made: made.enable_truncation(WINDOW, stride=OVERLAP, strategy="only_second")
                )
            return self._pairs
