from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from backread.cli import app


@pytest.fixture(autouse=True)
def _words_only(own_user_directories: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No embedder, no colours, and the width of a pipe."""
    monkeypatch.setenv("BACKREAD_EMBEDDER", "none")
    for name in ("FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def run(store: Path) -> Callable[..., Result]:
    """Run a command on the test's store; `code` is the exit code it must end with."""

    def run(*args: str, code: int = 0, stdin: str | bytes | None = None) -> Result:
        given = list(args)
        if given and given[0] != "models":
            given[1:1] = ["--path", str(store)]
        result = CliRunner().invoke(app, given, input=stdin)
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        return result

    return run


@pytest.fixture
def data(run: Callable[..., Result]) -> Callable[..., Any]:
    """Run a command with --json and read what it printed."""

    def data(*args: str, code: int = 0, stdin: str | bytes | None = None) -> Any:
        return json.loads(run(args[0], "--json", *args[1:], code=code, stdin=stdin).stdout)

    return data


@pytest.fixture
def filled(run: Callable[..., Result], store: Path) -> Path:
    """A store with two sessions of ann and one of bob."""
    for session, speaker, time, text in (
        ("garden", "Ann", "2025-03-01T10:00:00Z", "The spare key is under the blue pot."),
        ("garden", "Tom", "2025-03-01T10:01:00Z", "I shall water the roses on Monday."),
        ("boiler", "Ann", "2025-04-17T09:00:00Z", "The boiler was inspected today, all is well."),
    ):
        run("add", "--user", "ann", "--session", session, "--speaker", speaker, "--time", time, text)
    run("add", "--user", "bob", "--session", "b", "My key is at home.")
    return store
