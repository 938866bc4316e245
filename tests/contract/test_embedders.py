"""The embedder contract on every embedder of the package."""

from __future__ import annotations

import pytest

from backread.models.base import Embedder
from backread.models.fetch import find, models_dir
from backread.models.onnx import OnnxEmbedder
from backread.testing.contracts_models import EmbedderContract
from backread.testing.fakes import HashEmbedder


class TestHashEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return HashEmbedder()


class TestSmallHashEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return HashEmbedder(dimension=7, max_tokens=5, seed=-3)


@pytest.mark.weights
@pytest.mark.skipif(
    find("minilm", models_dir()) is None, reason="the MiniLM weights are not here: backread models fetch minilm"
)
class TestOnnxEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return OnnxEmbedder.open(models_dir())
