"""The page about the server: its requests, sent by curl to a real one, are answered as it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(shutil.which("curl") is None or shutil.which("bash") is None, reason="needs curl and bash"),
]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "server.md"
_EXAMPLE = re.compile(r"^```bash\n(curl .*?)^```\n\n```(?:json|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("BACKREAD_EMBEDDER", "none")
    command = [sys.executable, "-m", "backread", "serve", "--path", str(tmp_path / "m.db"), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stderr.readline())
        assert found is not None
        yield found[1]
        process.terminate()


def test_the_requests_are_answered_as_shown(port: str) -> None:
    examples = _EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(examples) == 8
    for command, shown in examples:
        done = subprocess.run(
            ["bash", "-c", command.replace("127.0.0.1:8765", f"127.0.0.1:{port}")],
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=True,
        )
        pattern = ".*".join(re.escape(part) for part in shown.strip().split("…"))
        assert re.fullmatch(pattern, done.stdout.strip(), re.DOTALL), f"{command}\nprints:\n{done.stdout}"
