"""`scripts/audit.sh` against a service that is played: what is found fails, and what could not be asked is no pass."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOUND = {"id": "GHSA-made-up", "modified": "2024-01-01T00:00:00Z"}

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not (ROOT / ".venv" / "bin" / "uv").is_file(), reason="no uv beside this Python"),
]


class Service(http.server.ThreadingHTTPServer):
    """Knows one vulnerability, of one package or of none, or is out of order."""

    affected, status = "", 200
    asked = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(http.server.BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        self.server.asked += len(queries)
        names = [item["package"]["name"] for item in queries]
        self._answer({"results": [{"vulns": [FOUND]} if name == self.server.affected else {} for name in names]})

    def do_GET(self) -> None:
        self._answer({**FOUND, "published": FOUND["modified"], "summary": "made up", "affected": []})

    def _answer(self, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def audited(port: int) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "AUDIT_SERVICE_URL": f"http://127.0.0.1:{port}", "HOME": os.path.expanduser("~")}
    command = ["bash", str(ROOT / "scripts" / "audit.sh")]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def test_everything_locked_is_asked_for(service: Service) -> None:
    done = audited(service.server_address[1])
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "audit: passed"), done.stderr
    assert service.asked > 100


def test_a_known_vulnerability_fails(service: Service) -> None:
    service.affected = "jinja2"
    done = audited(service.server_address[1])
    assert done.returncode == 1
    assert "jinja2" in done.stdout
    assert "passed" not in done.stdout


@pytest.mark.parametrize("status", [503, None])
def test_a_service_that_can_t_be_asked_is_no_pass(service: Service, status: int | None) -> None:
    service.status = status or 200
    done = audited(9 if status is None else service.server_address[1])
    assert done.returncode == 0
    assert done.stdout.splitlines() == [done.stdout.strip()]
    assert "is not reachable: skipped, nothing was checked" in done.stdout
