"""Vectors over HTTP: tied to their texts, checked one by one; what goes out is asserted on the request."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from typing import Any

import httpx2
import numpy as np
import pytest
from numpy.typing import NDArray

from backread.errors import (
    ContextWindowError,
    InvalidInputError,
    ModelError,
    ModelNotAvailableError,
    ModelOutputError,
    ModelRequestError,
)
from backread.models.base import Embedder
from backread.models.embed_each import embed_each
from backread.models.openai_embeddings import OpenAIEmbedder
from backread.testing.contracts_models import EmbedderContract

TURNS = ["alpha cat", "beta dog", "gamma bird", "delta fish"]
SIZE = 8


def vector(text: str) -> list[float]:
    digest = hashlib.sha256(text.encode()).digest()
    return [byte / 255 - 0.5 for byte in digest[:SIZE]]


def data(texts: list[str]) -> list[dict[str, Any]]:
    return [{"object": "embedding", "index": place, "embedding": vector(text)} for place, text in enumerate(texts)]


class Server:
    """An endpoint that keeps the requests; `change` may spoil what it answers to the texts of one."""

    def __init__(self, change: Callable[[list[str], list[dict[str, Any]]], Any] | None = None) -> None:
        self.change = change
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        texts = json.loads(request.content)["input"]
        answer = data(texts) if self.change is None else self.change(texts, data(texts))
        if isinstance(answer, httpx2.Response):
            return answer
        body = json.dumps({"object": "list", "data": answer})
        return httpx2.Response(200, content=body, headers={"Content-Type": "application/json"})

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests]

    def embedder(self, model: str = "m", **options: Any) -> OpenAIEmbedder:
        client = httpx2.Client(transport=httpx2.MockTransport(self))
        return OpenAIEmbedder(model, http_client=client, **({"base_url": "http://server:8000"} | options))


def unit(text: str) -> NDArray[np.float64]:
    values = np.array(vector(text))
    length: float = np.linalg.norm(values).item()
    return values / length


class TestContract(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return Server().embedder(max_tokens=64)


def test_what_goes_out() -> None:
    server = Server()
    server.embedder(api_key="secret", dimension=SIZE).embed(["one", ""])
    request = server.requests[0]
    assert str(request.url) == "http://server:8000/v1/embeddings"
    assert request.headers["Authorization"] == "Bearer secret"
    assert server.bodies == [{"model": "m", "input": ["one", "."]}]


def test_without_a_key_none_is_sent_and_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    # CFG-01
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "trap")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://trap")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Trap: trap")
    server = Server()
    server.embedder().embed(["one"])
    assert {request.url.host for request in server.requests} == {"server"}
    assert all("trap" not in value for request in server.requests for value in request.headers.values())
    assert "Authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("base_url", "called"),
    [
        ("http://host", "http://host/v1/embeddings"),
        ("http://host/v1/", "http://host/v1/embeddings"),
        ("http://host/v1/embeddings", "http://host/v1/embeddings"),
        ("https://host:1/proxy/openai", "https://host:1/proxy/openai/embeddings"),
    ],
)
def test_addresses(base_url: str, called: str) -> None:
    server = Server()
    server.embedder(base_url=base_url).embed(["one"])
    assert str(server.requests[0].url) == called


@pytest.mark.parametrize("base_url", ["ftp://host", "host:80", "", "http://[broken"])
def test_an_address_that_is_none(base_url: str) -> None:
    with pytest.raises(InvalidInputError, match="embedder 'openai:m'"):
        OpenAIEmbedder("m", base_url=base_url or "x")


def test_the_hosted_endpoint_is_not_called_without_a_key() -> None:
    server = Server()
    embedder = server.embedder("text-embedding-3-small", base_url=None)
    assert embedder.dimension == 1536
    with pytest.raises(ModelNotAvailableError, match="embedder 'openai:text-embedding-3-small' has no endpoint"):
        embedder.embed(["one"])
    assert server.requests == []


def test_the_dimension_is_asked_for_once() -> None:
    server = Server()
    embedder = server.embedder()
    assert server.requests == []
    assert embedder.fingerprint == f"openai:m:{SIZE}"
    assert embedder.dimension == SIZE
    assert len(server.requests) == 1


def test_a_known_model_can_be_shortened() -> None:
    server = Server(lambda texts, items: [item | {"embedding": [1.0] * 256} for item in items])
    embedder = server.embedder("text-embedding-3-small", dimension=256)
    assert embedder.embed(["one"]).shape == (1, 256)
    assert server.bodies[0]["dimensions"] == 256


def test_a_stated_dimension_is_checked_not_sent() -> None:
    server = Server()
    with pytest.raises(ModelOutputError, match="8 dimensions, expected 5") as caught:
        server.embedder(dimension=5).embed(["one"])
    assert "another model" in (caught.value.hint or "")
    assert "dimensions" not in server.bodies[0]


def test_the_prompt_is_for_queries_and_part_of_the_fingerprint() -> None:
    server = Server()
    embedder = server.embedder(query_prompt="Query:", dimension=SIZE)
    embedder.embed(["one"], kind="query")
    embedder.embed(["one"])
    assert [body["input"] for body in server.bodies] == [["Query:one"], ["one"]]
    assert embedder.fingerprint != server.embedder(dimension=SIZE).fingerprint


def test_many_texts_are_several_requests_in_order() -> None:
    server = Server()
    texts = [f"turn {number}" for number in range(70)]
    vectors = server.embedder(dimension=SIZE).embed(texts)
    assert [len(body["input"]) for body in server.bodies] == [32, 32, 6]
    np.testing.assert_allclose(vectors, np.stack([unit(text) for text in texts]), atol=1e-6)


# EMB-01, variants 2 and 6: order by index, and without one as it comes
@pytest.mark.parametrize(
    "change",
    [
        lambda texts, items: items[::-1],
        lambda texts, items: [{"embedding": item["embedding"]} for item in items],
    ],
)
def test_every_text_is_its_own_neighbour(change: Callable[..., Any]) -> None:
    vectors = Server(change).embedder().embed(TURNS)
    np.testing.assert_allclose(vectors, np.stack([unit(text) for text in TURNS]), atol=1e-6)


def spoiled(text: str, embedding: Any) -> Callable[..., Any]:
    def change(texts: list[str], items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            item | {"embedding": embedding} if given == text else item for given, item in zip(texts, items, strict=True)
        ]

    return change


def nan_500(texts: list[str], items: list[dict[str, Any]]) -> Any:
    if "gamma bird" in texts:
        return httpx2.Response(500, json={"error": {"message": "failed to encode response: unsupported value: NaN"}})
    return items


# EMB-01, variants 1, 4 and 5, and what else a vector can be; variant 3 is below
@pytest.mark.parametrize(
    ("change", "bad", "said"),
    [
        (nan_500, 2, "NaN"),
        (spoiled("beta dog", [math.nan] * SIZE), 1, "not finite"),
        (spoiled("beta dog", [math.inf] + [0.0] * (SIZE - 1)), 1, "not finite"),
        (spoiled("beta dog", [None] * SIZE), 1, "not a vector"),
        (spoiled("beta dog", None), 1, "not a vector"),
        (spoiled("beta dog", []), 1, "not a vector"),
        (spoiled("beta dog", [1.0] * (SIZE + 1)), 1, "9 dimensions, expected 8"),
        (spoiled("delta fish", [0.0] * SIZE), 3, "all zero"),
    ],
)
def test_one_bad_text_costs_only_itself(change: Callable[..., Any], bad: int, said: str) -> None:
    embedder = Server(change).embedder(dimension=SIZE)
    with pytest.raises(ModelError, match=said):
        embedder.embed(TURNS)
    made = embed_each(embedder, TURNS)
    assert list(made.failed) == [bad]
    assert said in str(made.failed[bad])
    for place, text in enumerate(TURNS):
        np.testing.assert_allclose(made.vectors[place], 0 if place == bad else unit(text), atol=1e-6)


def test_too_few_vectors_are_never_shifted() -> None:
    # EMB-01, variant 3
    server = Server(lambda texts, items: items[1:] if len(texts) == 4 else items)
    with pytest.raises(ModelOutputError, match="3 vectors for 4 texts"):
        server.embedder(dimension=SIZE).embed(TURNS)
    made = embed_each(server.embedder(dimension=SIZE), TURNS)
    assert not made.failed
    np.testing.assert_allclose(made.vectors, np.stack([unit(text) for text in TURNS]), atol=1e-6)


@pytest.mark.parametrize("indexes", [[0, 1, 1, 2], [0, 1, 2, 4], [0, None, 2, 3], [1, 2, 3, 4], [True, 0, 2, 3]])
def test_indexes_that_are_not_those_of_the_texts(indexes: list[object]) -> None:
    def change(texts: list[str], items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [item | {"index": index} for item, index in zip(items, indexes, strict=True)]

    with pytest.raises(ModelOutputError, match="the vectors are for"):
        Server(change).embedder(dimension=SIZE).embed(TURNS)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (
            httpx2.Response(200, json={"error": {"message": "model not loaded", "code": 503}}),
            ModelRequestError,
            "loaded",
        ),
        (httpx2.Response(200, json={"message": "hello"}), ModelOutputError, "holds no vectors: hello"),
        (httpx2.Response(200, json=[1]), ModelOutputError, "holds no vectors"),
        (httpx2.Response(200, text="<html>"), ModelOutputError, "not JSON"),
        (httpx2.Response(401, json={"error": {"message": "no"}}), ModelRequestError, "HTTP 401: no"),
        (httpx2.Response(302, headers={"Location": "http://trap/"}), ModelRequestError, "HTTP 302"),
        (httpx2.Response(503, text="busy"), ModelRequestError, "HTTP 503: busy"),
        (httpx2.Response(400, json={"error": "maximum context length is 512 tokens"}), ContextWindowError, "512"),
    ],
)
def test_answers_that_are_errors(answer: httpx2.Response, kind: type[ModelError], said: str) -> None:
    server = Server(lambda texts, items: answer)
    with pytest.raises(kind, match=said) as caught:
        server.embedder(dimension=SIZE).embed(["one"])
    assert "embedder 'openai:m' at http://server:8000/v1/embeddings" in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpx2.ConnectError("refused"), ModelNotAvailableError),
        (httpx2.ReadTimeout("slow"), ModelRequestError),
        (httpx2.ReadError("reset"), ModelRequestError),
    ],
)
def test_a_server_that_is_not_there(error: Exception, kind: type[ModelError]) -> None:
    def fail(request: httpx2.Request) -> httpx2.Response:
        raise error

    client = httpx2.Client(transport=httpx2.MockTransport(fail))
    embedder = OpenAIEmbedder("m", base_url="http://server", http_client=client)
    with pytest.raises(kind) as caught:
        embedder.embed(["one"])
    assert kind is ModelNotAvailableError or getattr(caught.value, "retryable", None)


def test_waiting_is_said() -> None:
    server = Server(lambda texts, items: httpx2.Response(429, text="later", headers={"Retry-After": "7"}))
    with pytest.raises(ModelRequestError) as caught:
        server.embedder(dimension=SIZE).embed(["one"])
    assert (caught.value.status, caught.value.retry_after, caught.value.retryable) == (429, 7.0, True)


def test_long_text_is_cut_before_it_is_sent() -> None:
    server = Server()
    embedder = server.embedder(max_tokens=5, dimension=SIZE)
    embedder.embed(["abcd efgh!! ijklmnop", "abcdefghijklmnopqrstuvwxyz", "東京は大きい。"])
    assert server.bodies[0]["input"] == ["abcd efgh!! ijkl", "abcdefghijklmnopqrst", "東京は大き"]
    assert [embedder.count_tokens(text) for text in server.bodies[0]["input"]] == [5, 5, 5]


@pytest.mark.parametrize("options", [{"dimension": 0}, {"max_tokens": 0}])
def test_numbers_below_one(options: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError, match="at least 1"):
        OpenAIEmbedder("m", base_url="http://server", **options)  # type: ignore[arg-type]
