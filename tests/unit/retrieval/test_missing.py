"""EMB-01 from end to end: a bad text costs only itself, is found by its words, and is mended by embedding again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from backread.models.openai_embeddings import OpenAIEmbedder
from backread.retrieval.indexing import embed_missing, embed_pending
from backread.retrieval.registry import create_retriever
from backread.store.base import TURNS
from backread.store.history import History
from backread.store.sqlite import SqliteStore
from backread.testing.fakes import HashEmbedder
from backread.types import TurnDraft

TURNS_OF_THE_CASE = ["alpha cat", "beta dog", "gamma bird", "delta fish"]
SIZE = 64


class Server:
    def __init__(self) -> None:
        self.change: Callable[[list[str], list[dict[str, Any]]], Any] | None = None

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        texts = json.loads(request.content)["input"]
        vectors = HashEmbedder(SIZE).embed(texts).tolist()
        items: Any = [{"index": place, "embedding": vector} for place, vector in enumerate(vectors)]
        if self.change is not None:
            items = self.change(texts, items)
        if isinstance(items, httpx2.Response):
            return items
        return httpx2.Response(200, content=json.dumps({"data": items}))


def nan_500(texts: list[str], items: list[dict[str, Any]]) -> Any:
    return httpx2.Response(500, json={"error": "unsupported value: NaN"}) if "gamma bird" in texts else items


def with_vector(text: str, vector: list[float]) -> Callable[..., Any]:
    return lambda texts, items: [
        item | {"embedding": vector} if given == text else item for given, item in zip(texts, items, strict=True)
    ]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "memory.db")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("change", "bad"),
    [
        (nan_500, "gamma bird"),
        (lambda texts, items: items[::-1], None),
        (lambda texts, items: items[1:] if len(texts) == 4 else items, None),
        (with_vector("beta dog", [float("nan")] * SIZE), "beta dog"),
        (with_vector("delta fish", [0.0] * SIZE), "delta fish"),
        (lambda texts, items: [{"embedding": item["embedding"]} for item in items], None),
    ],
)
def test_a_server_that_spoils_vectors(store: SqliteStore, change: Callable[..., Any], bad: str | None) -> None:
    server = Server()
    client = httpx2.Client(transport=httpx2.MockTransport(server))
    embedder = OpenAIEmbedder("m", base_url="http://server", dimension=SIZE, http_client=client)
    store.append("ann", [TurnDraft("s", "user", text) for text in TURNS_OF_THE_CASE])
    server.change = change
    assert embed_pending(store, "ann", embedder) == (1 if bad else 0)

    def first(mode: str, text: str) -> tuple[str | None, tuple[int | None, ...]]:
        ranking = create_retriever(mode, embedder).search(History(store, "ann").corpus(), text, 4)
        found = History(store, "ann").turns_by_id([item.unit_id for item in ranking.items[:1]])
        assert all(np.isfinite(item.score) for item in ranking.items)
        return (found[0].text if found else None), tuple(item.count for item in ranking.degraded)

    for text in TURNS_OF_THE_CASE:
        if text == bad:
            assert first("bm25", text)[0] == text
            continue
        for mode in ("dense", "hybrid"):
            assert first(mode, text) == (text, (1,) if bad else ())
    assert embed_missing(store, "ann", embedder) == (1 if bad else 0)
    server.change = None
    assert embed_missing(store, "ann", embedder) == 0
    assert len(store.vectors("ann", TURNS, embedder.fingerprint)[0]) == 4
    for text in TURNS_OF_THE_CASE:
        assert first("dense", text) == (text, ())
