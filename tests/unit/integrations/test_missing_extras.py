"""An integration whose library is missing says what to install; the others don't need it."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from backread.errors import MissingExtraError

PYPROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"
LIBRARIES = {
    "langchain": "langchain_core.retrievers",
    "langgraph": "langgraph.store",
    "llama_index": "llama_index.core.retrievers",
    "openai_agents": "agents",
}


@pytest.mark.parametrize("name", sorted(LIBRARIES))
def test_it_names_the_command_that_installs_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [module for module in sys.modules if module.split(".")[0] == LIBRARIES[name].split(".")[0]]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, LIBRARIES[name].split(".")[0], None)
    monkeypatch.delitem(sys.modules, f"backread.integrations.{name}", raising=False)
    with pytest.raises(MissingExtraError) as caught:
        importlib.import_module(f"backread.integrations.{name}")
    extra = name.replace("_", "-")
    assert caught.value.hint == f"pip install 'backread[{extra}]'"
    assert caught.value.hint in str(caught.value)
    assert extra in tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def test_the_stand_in_for_mem0_needs_nothing() -> None:
    names = ("agents", "langchain_core", "langgraph", "llama_index", "mem0")
    code = f"import sys, backread.integrations.mem0; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stdout == "[]\n"
