"""Reranking over HTTP: both shapes, what goes out, and scores tied to texts by index."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import numpy as np
import pytest

from backread.errors import InvalidInputError, ModelError, ModelNotAvailableError, ModelOutputError, ModelRequestError
from backread.models.http_rerank import HttpReranker
from backread.testing.fake_rerankers import shared_stems

TEXTS = ["a red kettle", "a red dog", "nothing"]


class Server:
    """A rerank endpoint of either shape, best first as they answer; `change` may spoil the items."""

    def __init__(self, change: Callable[[list[dict[str, Any]]], Any] = lambda items: items) -> None:
        self.change = change
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        body = json.loads(request.content)
        tei = "texts" in body
        scores = [shared_stems(body["query"], text) for text in body["texts" if tei else "documents"]]
        items = [
            {"index": place, ("score" if tei else "relevance_score"): scores[place]}
            for place in sorted(range(len(scores)), key=lambda place: -scores[place])
        ]
        answer = self.change(items)
        if isinstance(answer, httpx2.Response):
            return answer
        content = json.dumps(answer if tei else {"id": "1", "results": answer, "meta": {}})
        return httpx2.Response(200, content=content)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests]

    def reranker(self, model: str | None = "m", **options: Any) -> HttpReranker:
        client = httpx2.Client(transport=httpx2.MockTransport(self))
        return HttpReranker(model, http_client=client, **({"base_url": "http://server:8000"} | options))


def test_the_shape_of_cohere_jina_and_vllm() -> None:
    server = Server()
    scores = server.reranker(api_key="secret").rerank("red kettle", TEXTS)
    np.testing.assert_array_equal(scores, [2, 1, 0])
    assert server.bodies == [{"model": "m", "query": "red kettle", "documents": TEXTS, "top_n": 3}]
    assert str(server.requests[0].url) == "http://server:8000/v1/rerank"
    assert server.requests[0].headers["Authorization"] == "Bearer secret"


def test_the_shape_of_tei() -> None:
    server = Server()
    scores = server.reranker(None, shape="tei").rerank("red kettle", TEXTS[::-1])
    np.testing.assert_array_equal(scores, [0, 1, 2])
    assert server.bodies == [{"query": "red kettle", "texts": TEXTS[::-1], "truncate": True}]
    assert str(server.requests[0].url) == "http://server:8000/rerank"
    assert "Authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("base_url", "called"),
    [
        ("https://api.cohere.com/v2", "https://api.cohere.com/v2/rerank"),
        ("http://host/rerank", "http://host/rerank"),
        ("http://host/v1/rerank/", "http://host/v1/rerank"),
        ("http://host/", "http://host/v1/rerank"),
    ],
)
def test_addresses(base_url: str, called: str) -> None:
    server = Server()
    server.reranker(base_url=base_url).rerank("q", ["t"])
    assert str(server.requests[0].url) == called


def test_an_address_that_is_none() -> None:
    with pytest.raises(InvalidInputError, match="reranker 'm': not an http"):
        HttpReranker("m", base_url="host:80")


def test_many_texts_are_several_requests() -> None:
    server = Server()
    texts = [f"red {'kettle ' * (number % 3)}{number}" for number in range(70)]
    scores = server.reranker(None, shape="tei").rerank("kettle", texts)
    assert [len(body["texts"]) for body in server.bodies] == [32, 32, 6]
    np.testing.assert_array_equal(scores, [float("kettle" in text) for text in texts])


def test_text_is_made_safe_and_never_blank() -> None:
    server = Server()
    server.reranker().rerank("q\ud800", ["", "a\x00b"])
    assert server.bodies[0]["documents"] == [".", "a\ufffdb"]
    assert server.bodies[0]["query"] == "q\ufffd"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda items: items[:-1], "no score for 2"),
        (lambda items: [*items, items[0]], "two scores for 0"),
        (lambda items: [*items[:-1], items[-1] | {"index": 3}], "indexes of no text: 3; no score for 2"),
        (lambda items: [*items[:-1], items[-1] | {"index": -1}], "indexes of no text: -1; no score for 2"),
        (lambda items: [*items[:-1], items[-1] | {"index": True}], "indexes of no text: True; no score for 2"),
        (lambda items: [*items[:-1], "text"], "indexes of no text: None; no score for 2"),
        (lambda items: [items[0] | {"relevance_score": float("nan")}, *items[1:]], "no usable score for 0"),
        (lambda items: [items[0] | {"relevance_score": "0.9"}, *items[1:]], "no usable score for 0"),
        (lambda items: [], "no score for 0, 1, 2"),
    ],
)
def test_scores_that_can_not_be_tied_to_texts(change: Callable[..., Any], said: str) -> None:
    with pytest.raises(ModelOutputError, match=said) as caught:
        Server(change).reranker().rerank("red kettle", TEXTS)
    assert "reranker 'm' at http://server:8000/v1/rerank: 3 texts, but" in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (httpx2.Response(200, json={"message": "invalid api token"}), ModelOutputError, "holds no scores: invalid"),
        (httpx2.Response(200, json={"error": {"message": "down", "code": 503}}), ModelRequestError, "down"),
        (httpx2.Response(200, json="x"), ModelOutputError, "holds no scores"),
        (httpx2.Response(500, text="oops"), ModelRequestError, "HTTP 500: oops"),
        (
            httpx2.Response(413, json={"error": "batch size 40 > maximum", "error_type": "Validation"}),
            ModelRequestError,
            "40",
        ),
    ],
)
def test_answers_that_are_errors(answer: httpx2.Response, kind: type[ModelError], said: str) -> None:
    server = Server(lambda items: answer)
    with pytest.raises(kind, match=said):
        server.reranker().rerank("q", TEXTS)
    assert len(server.requests) == 1


def test_a_hosted_endpoint_is_not_called_without_a_key() -> None:
    server = Server()
    with pytest.raises(ModelNotAvailableError, match="reranker 'm' has no key"):
        server.reranker(needs_key=True).rerank("q", TEXTS)
    assert server.requests == []


def test_fingerprints_tell_endpoints_apart() -> None:
    made = [
        Server().reranker().fingerprint,
        Server().reranker("other").fingerprint,
        Server().reranker(base_url="http://other").fingerprint,
        Server().reranker(shape="tei").fingerprint,
    ]
    assert len(set(made)) == len(made)
