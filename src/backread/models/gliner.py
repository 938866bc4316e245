"""Names in texts by GLiNER, when its package and weights are there; nothing is downloaded here.

    tagger = GlinerTagger.open()      # "pip install gliner" and "hf download urchade/gliner_small-v2.1" came before

Paper: Zaratiana et al., "GLiNER: Generalist Model for Named Entity Recognition using Bidirectional Transformer",
NAACL 2024. LeanMem names neither labels nor threshold nor weights; these are ours.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from backread import forking
from backread.errors import MissingExtraError, ModelNotAvailableError, ModelOutputError
from backread.text.fencing import safe
from backread.text.passages import split_passages

__all__ = ["LABELS", "GlinerTagger"]

LABELS = (
    *("person", "location", "organization", "date", "time"),
    *("event", "product", "work of art", "number", "activity"),
)
"""Kinds of names that are looked for."""

WEIGHTS = "urchade/gliner_small-v2.1"
INSTALL = "pip install gliner"
THRESHOLD = 0.5
_WORDS = 200  # of a text at a time; models read 384, and more is cut by them


class GlinerTagger:
    """A `Tagger` over a GLiNER model, loaded at its first use; threads take turns.

    Args:
        load: gives the model.
        name: what it is called in records.
        labels: kinds of names.
        threshold: from which score a name counts.
    """

    def __init__(
        self,
        load: Callable[[], Any],
        *,
        name: str = WEIGHTS,
        labels: Sequence[str] = LABELS,
        threshold: float = THRESHOLD,
    ) -> None:
        self._load, self._name, self._labels, self._threshold = load, name, list(labels), threshold
        self._model: Any = None
        self._lock = forking.Lock()

    @classmethod
    def open(cls, weights: str = WEIGHTS) -> Self:
        """The tagger of some weights: a repository in the hub's local cache, or a folder.

        Raises:
            MissingExtraError: the package is not installed.
        """
        if importlib.util.find_spec("gliner") is None:
            raise MissingExtraError(f"names by GLiNER need gliner, which is not installed: {INSTALL}", hint=INSTALL)

        def load() -> Any:  # noqa: ANN401 -- the library is an extra
            return importlib.import_module("gliner").GLiNER.from_pretrained(weights, local_files_only=True)

        return cls(load, name=weights)

    @property
    def name(self) -> str:
        """The weights with the threshold."""
        return f"gliner:{self._name}@{self._threshold}"

    def tag(self, texts: Sequence[str], around: Sequence[str] = ()) -> tuple[str, ...]:
        """See `models.base.Tagger`; `around` is ignored."""
        found: dict[str, str] = {}
        for text in texts:
            # Made safe before it is cut: `safe` may change how long a text is.
            clean = safe(text)
            for start, end in split_passages(clean, max_tokens=_WORDS, count=lambda part: len(part.split())):
                piece = clean[start:end]
                for span in sorted(self._spans(piece)):
                    found.setdefault(piece[slice(*span)].casefold(), piece[slice(*span)])
        return tuple(found.values())

    def _spans(self, text: str) -> list[tuple[int, int]]:
        with self._lock:
            if self._model is None:
                try:
                    self._model = self._load()
                except Exception as error:  # the library's and the hub's errors have no common base
                    reason = " ".join(str(error).split())[:300]
                    hint = f"run `hf download {self._name}`"
                    raise ModelNotAvailableError(f"{self._name} can't be loaded: {reason}", hint=hint) from error
            given: list[Mapping[str, Any]] = self._model.predict_entities(
                text, self._labels, threshold=self._threshold, flat_ner=True
            )
        spans = [(int(item["start"]), int(item["end"])) for item in given]
        if any(not 0 <= start < end <= len(text) for start, end in spans):
            raise ModelOutputError(f"{self._name} gave names that are not in the text")
        return spans
