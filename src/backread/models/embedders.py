"""Embedders by the names users give."""

from __future__ import annotations

from pathlib import Path

from backread.errors import NotFoundError
from backread.models.base import Embedder
from backread.models.onnx import OnnxEmbedder

__all__ = ["EMBEDDERS", "open_embedder"]

EMBEDDERS: tuple[str, ...] = ("minilm",)
"""The names `open_embedder` knows, sorted."""


def open_embedder(name: str, *, directory: Path, threads: int | None = None) -> Embedder:
    """The embedder called `name`, with weights under `directory`; never downloads.

    Args:
        name: one of `EMBEDDERS`.
        directory: see `backread.models.fetch.models_dir`.
        threads: for one call; None takes min(4, CPUs).

    Raises:
        NotFoundError: no embedder has this name; the message lists the names.
        ModelNotAvailableError: its weights are missing or damaged; the hint says how to fetch them.
    """
    if name == "minilm":
        return OnnxEmbedder.open(directory, threads=threads)
    raise NotFoundError(f"no embedder is called {name!r}; there is: {', '.join(EMBEDDERS)}")
