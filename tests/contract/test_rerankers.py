"""The reranker contract on every reranker of the package."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx2
import pytest

from backread.models.base import Reranker, SparseEncoder
from backread.models.cross_encoder import OnnxCrossEncoder
from backread.models.http_rerank import HttpReranker
from backread.models.llm_rerank import LLMReranker
from backread.testing.contracts_models import TEXTS, RerankerContract, SparseEncoderContract
from backread.testing.fake_rerankers import FakeReranker, HashSparseEncoder, shared_stems
from backread.testing.fakes import ChatRequest, FunctionChat
from backread.testing.tiny_models import write_cross_encoder


class TestFakeReranker(RerankerContract):
    @pytest.fixture
    def reranker(self) -> Reranker:
        return FakeReranker()


class TestOnnxCrossEncoder(RerankerContract):
    @pytest.fixture
    def reranker(self, tmp_path: Path) -> Reranker:
        words = sorted(set(re.findall(r"[a-z]+", " ".join(TEXTS).lower())))
        return OnnxCrossEncoder(write_cross_encoder(tmp_path, words))


@pytest.mark.parametrize("shape", ["results", "tei"])
class TestHttpReranker(RerankerContract):
    @pytest.fixture
    def reranker(self, shape: str) -> Reranker:
        def answer(request: httpx2.Request) -> httpx2.Response:
            body = json.loads(request.content)
            texts = body.get("texts") or body["documents"]
            items = [
                {"index": place, "score": score, "relevance_score": score}
                for place, score in enumerate(shared_stems(body["query"], text) for text in texts)
            ]
            return httpx2.Response(200, json=items[::-1] if shape == "tei" else {"results": items[::-1]})

        client = httpx2.Client(transport=httpx2.MockTransport(answer))
        return HttpReranker(
            "m", base_url="http://server", shape="tei" if shape == "tei" else "results", http_client=client
        )


class TestLLMReranker(RerankerContract):
    @pytest.fixture
    def reranker(self) -> Reranker:
        def reply(request: ChatRequest) -> str:
            asked = request.question.partition("<passages")[0]
            passages = re.findall(r"^\[(\d+)\] (.*(?:\n    .*)*)", request.question, re.MULTILINE)
            return "\n".join(f"{number}: {shared_stems(asked, text) / 100}" for number, text in passages)

        return LLMReranker(FunctionChat(reply))


class TestHashSparseEncoder(SparseEncoderContract):
    @pytest.fixture
    def encoder(self) -> SparseEncoder:
        return HashSparseEncoder()
