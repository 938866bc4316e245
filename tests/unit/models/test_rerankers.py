"""Rerankers by name: opening one never connects or downloads."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from backread.errors import InvalidInputError, ModelNotAvailableError, NotFoundError
from backread.models.rerankers import RERANKERS, open_reranker
from backread.testing.fakes import FunctionChat
from backread.testing.tiny_models import write_cross_encoder


def test_endpoints_open_without_a_connection(tmp_path: Path) -> None:
    # CFG-01; the network is blocked in tests
    for name, base_url, url in (
        ("cohere:rerank-v3.5", None, "https://api.cohere.com/v2/rerank"),
        ("jina:jina-reranker-v2-base-multilingual", None, "https://api.jina.ai/v1/rerank"),
        ("cohere:rerank-v3.5", "http://127.0.0.1:9903/v2", "http://127.0.0.1:9903/v2/rerank"),
        ("vllm:BAAI/bge-reranker-v2-m3", "http://127.0.0.1:9903", "http://127.0.0.1:9903/v1/rerank"),
        ("tei", "http://127.0.0.1:9903", "http://127.0.0.1:9903/rerank"),
    ):
        reranker = open_reranker(name, directory=tmp_path, base_url=base_url)
        assert reranker.name == name
        assert url in reranker.fingerprint


def test_a_key_of_another_part_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # CFG-01
    for variable in ("OPENAI_API_KEY", "CO_API_KEY", "COHERE_API_KEY", "JINA_API_KEY"):
        monkeypatch.setenv(variable, "trap")
    for name in ("cohere:m", "jina:m"):
        with pytest.raises(ModelNotAvailableError, match=f"reranker '{name}' has no key"):
            open_reranker(name, directory=tmp_path).rerank("q", ["t"])


def test_a_proxy_of_a_hosted_endpoint_needs_no_key(tmp_path: Path) -> None:
    answer = {"results": [{"index": 0, "relevance_score": 0.5}]}
    client = httpx2.Client(transport=httpx2.MockTransport(lambda request: httpx2.Response(200, json=answer)))
    reranker = open_reranker("cohere:m", directory=tmp_path, base_url="http://proxy/v2", http_client=client)
    assert reranker.rerank("q", ["t"]).tolist() == [0.5]


def test_local_cross_encoders(tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path / "tiny", ["dog"])
    reranker = open_reranker(f"onnx:{folder}", directory=tmp_path / "models", threads=1)
    assert reranker.name == f"onnx:{folder}"
    assert reranker.rerank("dog", ["dog", "cat"]).tolist() == [1, 0]
    for name in ("ms-marco-minilm", "onnx:org/name@abc"):
        with pytest.raises(ModelNotAvailableError) as caught:
            open_reranker(name, directory=tmp_path / "models")
        assert caught.value.hint == f"backread models fetch {name.removeprefix('onnx:')}"


def test_the_chat_model(tmp_path: Path) -> None:
    chat = FunctionChat(lambda request: "1: 0.5", name="judge")
    assert open_reranker("llm", directory=tmp_path, chat=chat).name == "llm:judge"
    with pytest.raises(ModelNotAvailableError, match="'llm' needs a chat model"):
        open_reranker("llm", directory=tmp_path)


@pytest.mark.parametrize("name", ["", "cohere", "cohere:", "vllm:", "onnx:", "bge", "openai:x"])
def test_names_that_name_nothing(name: str, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=", ".join(RERANKERS)) as caught:
        open_reranker(name, directory=tmp_path)
    assert "vllm:MODEL" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["vllm:m", "tei", "tei:m"])
def test_a_server_of_ones_own_needs_an_address(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="has no address"):
        open_reranker(name, directory=tmp_path)
