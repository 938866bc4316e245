"""Conventions of the source that no linter checks."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "backread"
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.py"))


def _listed(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                names = ast.literal_eval(node.value)
                assert isinstance(names, list)
                return names
    return None


def _defined(tree: ast.Module) -> Iterator[str]:
    """Names a module binds at its top level, imports included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


@pytest.mark.parametrize("module", MODULES)
def test_every_module_lists_its_names(module: str) -> None:
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "a module says what it is for"
    if len(tree.body) == 1:
        return  # a package that is only its docstring
    names = _listed(tree)
    assert names is not None, "no __all__"
    assert len(set(names)) == len(names)
    assert set(names) <= set(_defined(tree)), "names in __all__ that the module doesn't have"


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_left_for_later(module: str) -> None:
    marks = re.compile("|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)))
    assert not marks.search((ROOT / module).read_text(encoding="utf-8"))


def test_no_file_names_the_place_it_was_written_in() -> None:
    try:
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    places = (("/wo", "rk/"), ("../sha", "red"), ("/ro", "ot/"))
    forbidden = tuple(f"{before}{name}".encode() for before, name in places)
    found = [
        name
        for name in listed
        if (ROOT / name).is_file() and any(place in (ROOT / name).read_bytes() for place in forbidden)
    ]
    assert not found


def test_every_strategy_is_in_the_contract_that_keeps_them_apart() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    contracts = tools["importlinter"]["contracts"]
    named = next(item["modules"] for item in contracts if item["type"] == "independence")
    there = sorted(f"backread.strategies.{path.parent.name}" for path in PACKAGE.glob("strategies/*/strategy.py"))
    assert named == there
    for name in there:
        assert (ROOT / "src" / name.replace(".", "/") / "PAPER.md").is_file(), f"{name} has no PAPER.md"
