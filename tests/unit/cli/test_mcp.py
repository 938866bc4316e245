"""`backread mcp`: what keeps it from starting. That it serves is tested with real processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--http", "--host", "0.0.0.0"], "without keys everybody who reaches 0.0.0.0 could read and erase everything"),
        (["--http", "--keys", "none.toml"], "none.toml: No such file or directory"),
        (["--http", "--port", "70000"], "70000 is no port"),
        (["--keys", "none.toml"], "--host and --keys are for --http"),
        (["--host", "0.0.0.0"], "--host and --keys are for --http"),
        (["--http", "--keys", "none.toml", "--user", "ann"], "each key says whose history it opens"),
        (["--user", " "], "--user is blank"),
    ],
    ids=str,
)
def test_what_keeps_it_from_starting(run: Callable[..., Result], store: Path, options: list[str], said: str) -> None:
    result = run("mcp", *options, code=2)
    assert (result.stdout, said in result.stderr) == ("", True)
    assert not store.exists()


@pytest.mark.parametrize(
    ("package", "options", "extras"),
    [("mcp", [], "mcp"), ("mcp", ["--http"], "mcp,server"), ("uvicorn", ["--http"], "mcp,server")],
)
def test_without_its_packages_it_names_the_extra(
    run: Callable[..., Result],
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    options: list[str],
    extras: str,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    result = run("mcp", *options, code=2)
    assert f"the MCP server needs what is not installed ({package})" in result.stderr
    assert f"hint: pip install 'backread[{extras}]'" in result.stderr
    assert not store.exists()
