"""JSON over a real connection on loopback, with the client that is made when none is given."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from backread.errors import InvalidInputError, ModelNotAvailableError
from backread.models.http_rerank import HttpReranker
from backread.models.json_endpoint import JsonEndpoint, address
from backread.models.openai_embeddings import OpenAIEmbedder


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer: object = [{"index": 0, "score": 0.5}]
        if self.path.endswith("/embeddings"):
            answer = {"data": [{"index": place, "embedding": [3.0, 4.0]} for place, _ in enumerate(body["input"])]}
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.mark.integration
def test_over_a_connection(server: str) -> None:
    embedder = OpenAIEmbedder("m", base_url=server)
    assert embedder.embed(["one", "two"]).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]] * 2
    embedder.close()
    embedder.close()
    assert embedder.embed(["again"]).shape == (1, 2)
    embedder.close()
    reranker = HttpReranker(None, base_url=server, shape="tei")
    assert reranker.rerank("q", ["t"]).tolist() == [0.5]
    reranker.close()


@pytest.mark.integration
def test_nothing_answers(server: str) -> None:
    port = int(server.rpartition(":")[2])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as taken:
        free = taken.server_port
    assert free != port
    embedder = OpenAIEmbedder("m", base_url=f"http://127.0.0.1:{free}")
    with pytest.raises(ModelNotAvailableError, match=f"embedder 'openai:m' at http://127.0.0.1:{free}") as caught:
        embedder.embed(["one"])
    assert "is a server running" in (caught.value.hint or "")
    embedder.close()


@pytest.mark.parametrize(
    ("base_url", "whole"),
    [
        ("http://h", "http://h/v1/x"),
        (" http://h/ ", "http://h/v1/x"),
        ("http://h/a/", "http://h/a/x"),
        ("http://h/x", "http://h/x"),
        ("http://h/a?key=1", "http://h/a/x?key=1"),
    ],
)
def test_addresses(base_url: str, whole: str) -> None:
    assert address(base_url, "/x", bare="/v1") == whole


@pytest.mark.parametrize("url", ["", "h:80", "ftp://h", "http://", "http://h:port", "http://[h", "http://h:0"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(InvalidInputError, match="part 'p': not an http"):
        JsonEndpoint(address(url, "/x"), what="part 'p'")
