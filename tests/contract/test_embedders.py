"""The embedder contract on every embedder of the package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backread.models.base import Embedder
from backread.models.cached_embedder import CachedEmbedder
from backread.models.fetch import find, models_dir
from backread.models.onnx import OnnxEmbedder
from backread.testing.contracts_models import ODD, TEXTS, EmbedderContract
from backread.testing.fakes import HashEmbedder


class TestHashEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return HashEmbedder()


class TestSmallHashEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return HashEmbedder(dimension=7, max_tokens=5, seed=-3)


class TestCachedEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self, tmp_path: Path) -> Iterator[Embedder]:
        with CachedEmbedder(HashEmbedder(), tmp_path / "vectors.db") as opened:
            yield opened


class TestCachedEmbedderAgain(EmbedderContract):
    """A file in which half of the texts are, so that hits and misses meet in a call."""

    @pytest.fixture
    def embedder(self, tmp_path: Path) -> Iterator[Embedder]:
        with CachedEmbedder(HashEmbedder(), tmp_path / "vectors.db") as before:
            before.embed([*TEXTS[::2], *ODD[::2]])
        with CachedEmbedder(HashEmbedder(), tmp_path / "vectors.db") as opened:
            yield opened


@pytest.mark.weights
@pytest.mark.skipif(
    find("minilm", models_dir()) is None, reason="the MiniLM weights are not here: backread models fetch minilm"
)
class TestOnnxEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return OnnxEmbedder.open(models_dir())
