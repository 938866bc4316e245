"""The public names, as a list: a new one is a visible change."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import backread

ROOT = Path(__file__).resolve().parents[2]

PUBLIC = [
    "AddReceipt",
    "Answer",
    "AsyncMemory",
    "BackreadError",
    "Citation",
    "ConflictError",
    "Degradation",
    "DeleteReceipt",
    "Evidence",
    "Hit",
    "Hits",
    "InvalidInputError",
    "Memory",
    "MissingExtraError",
    "ModelError",
    "NotFoundError",
    "Recall",
    "Session",
    "Settings",
    "Source",
    "StoreError",
    "Turn",
    "__version__",
]


def test_the_public_names_are_these() -> None:
    assert backread.__all__ == PUBLIC == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(backread, name) is not None
    assert name in dir(backread)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Memry"):
        getattr(backread, "Memry")  # noqa: B009 - the type checker knows there is none


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, backread; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "onnxruntime", "openai", "tokenizers", "huggingface_hub", "typer", "rich", "platformdirs"}
    assert not heavy & set(done.stdout.split())


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changelog, re.MULTILINE)
    assert project["version"] == backread.__version__
    assert newest is not None
    assert newest[1] == backread.__version__
    assert f'version: "{backread.__version__}"' in citation


def test_the_changelog_uses_the_headings_of_keep_a_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^### (.+)$", changelog, re.MULTILINE)
    assert headings
    assert set(headings) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
