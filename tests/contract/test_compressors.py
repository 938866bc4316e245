"""The compressor contract on what leaves out words."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from backread.construction.compression import LeaveOutWords, WholeText
from backread.models.base import Compressor
from backread.models.llmlingua import LlmLingua2, Word
from backread.testing.contracts_models import CompressorContract


class LongWords:
    """Stands for the encoder: long words are probable."""

    def words(self, text: str) -> list[list[Word]]:
        return [[Word(*match.span(), min(1.0, len(match.group()) / 20)) for match in re.finditer(r"\w+|[^\w\s]", text)]]

    def attention(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        return np.zeros((0, 0), np.float32), np.zeros(0, np.int64)


class TestLeaveOutWords(CompressorContract):
    @pytest.fixture
    def compressor(self) -> Compressor:
        return LeaveOutWords(lambda stems: {stem: float(len(stem)) for stem in stems})


class TestWholeText(CompressorContract):
    @pytest.fixture
    def compressor(self) -> Compressor:
        return WholeText()


class TestLlmLingua2(CompressorContract):
    @pytest.fixture
    def compressor(self) -> Compressor:
        return LlmLingua2(LongWords, identity=lambda: "long words")
