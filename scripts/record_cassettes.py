"""Record the exchanges of `tests/unit/models/test_cassettes.py` with a real server: SmolLM2 on xllamacpp.

    backread models fetch smollm2 && python scripts/record_cassettes.py

Each test of that file runs against the server with a transport that keeps what goes both ways.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import httpx2

from backread.models.fetch import find, models_dir
from backread.models.local_server import LocalServer

FOLDER = Path(__file__).resolve().parents[1] / "tests/unit/models"
sys.path.insert(0, str(FOLDER))

import cassette  # noqa: E402 - a module of the tests
import test_cassettes  # noqa: E402


class _Towards(httpx2.BaseTransport):
    """Sends to the server what is addressed to the place the tests name."""

    def __init__(self, server: LocalServer) -> None:
        self._server, self._inner = httpx2.URL(server.base_url), httpx2.HTTPTransport()
        self._key = server.api_key

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.url = request.url.copy_with(host=self._server.host, port=self._server.port)
        request.headers["authorization"] = f"Bearer {self._key}"
        return self._inner.handle_request(request)


def main() -> int:
    folder = find("smollm2", models_dir())
    if folder is None:
        print("no SmolLM2 weights: run `backread models fetch smollm2`", file=sys.stderr)
        return 5
    cassette.FOLDER.mkdir(exist_ok=True)
    with LocalServer.start(next(folder.glob("*.gguf")), context=1024) as server:

        @contextmanager
        def recorded(name: str) -> Iterator[httpx2.Client]:
            recorder = cassette.Recorder(_Towards(server))
            with httpx2.Client(transport=recorder) as client:
                yield client
            exchanges = [asdict(exchange) for exchange in recorder.exchanges]
            # The server names its model by path, which is nobody's business.
            text = json.dumps(exchanges, indent=1, ensure_ascii=False).replace(str(folder), "/models")
            (cassette.FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")
            print(f"{name}: {len(exchanges)} exchanges")

        vars(test_cassettes)["played"] = recorded
        for name in sorted(vars(test_cassettes)):
            if name.startswith("test_"):
                getattr(test_cassettes, name)()
    return 0


if __name__ == "__main__":
    sys.exit(main())
