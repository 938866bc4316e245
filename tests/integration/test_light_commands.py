"""Commands that need no vectors load nothing that makes or compares them, nor what talks to a model."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from backread import Memory

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(120)]

HEAVY = (
    *("fastapi", "httpx2", "huggingface_hub", "jinja2", "json_repair", "matplotlib", "mcp", "numpy", "onnxruntime"),
    *("openai", "pydantic", "scipy", "snowballstemmer", "tokenizers", "torch", "transformers", "urllib.request"),
)
RUN = """
import sys
from backread.cli import main
try:
    main()
except SystemExit as exit_:
    code = exit_.code
print("|", code, *(name for name in {heavy!r} if name in sys.modules), file=sys.stderr)
"""


def loaded(program: str, *args: str) -> list[str]:
    """The exit code of a program and what it loaded of `HEAVY`."""
    command = [sys.executable, "-c", program.format(heavy=HEAVY), *args]
    environment = os.environ | {"BACKREAD_EMBEDDER": "minilm"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, input="")
    return done.stderr.rpartition("|")[2].split()


@pytest.fixture
def _record() -> None:
    with Memory.open(embedder="none") as memory:
        for number in range(2):
            message = {"role": "user", "content": f"Kettle {number} is red.", "id": f"m{number}"}
            memory.add(message, user_id="ann", session_id="s1")


@pytest.mark.usefixtures("_record")
@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("--version", []),
        ("--help", []),
        ("users", []),
        ("users --json", []),
        ("sessions --user ann", ["numpy"]),
        ("sessions --user nobody", ["numpy"]),
        ("entries --user ann --strategy leanmem", []),
        ("delete --user ann --turn m0 --yes", ["numpy", "snowballstemmer"]),  # the words of what goes
        ("stats", ["urllib.request"]),  # it opens the embedder, to count what is pending
        ("show --user ann m1", ["numpy"]),  # turns are in memory as arrays
        ("show --user ann --session s1", ["numpy"]),
        ("export --user ann", ["numpy"]),
        ("add --user ann --session s2 kettles", ["snowballstemmer"]),
        ("verify", ["numpy", "snowballstemmer"]),
    ],
)
def test_what_a_command_loads(command: str, needed: list[str]) -> None:
    assert loaded(RUN, *command.split()) == ["0", *needed]


def test_what_the_package_loads() -> None:
    program = RUN.replace("from backread.cli import main", "import backread\nmain = sys.exit")
    assert loaded(program) == ["None"]
