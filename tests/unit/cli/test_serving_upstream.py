"""`backread serve --upstream`: what keeps it from starting. That it serves is tested with real processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result


@pytest.mark.parametrize(
    ("options", "upstream", "said"),
    [
        (["--upstream", "localhost:8080"], None, "'localhost:8080' is no address of a chat server"),
        ([], "ftp://host", "'ftp://host' is no address of a chat server"),
        (["--user", "ann"], None, "--user is for --upstream"),
        (["--user", " ", "--upstream", "http://127.0.0.1:1"], None, "--user is blank"),
    ],
)
def test_what_keeps_it_from_starting(
    run: Callable[..., Result],
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    upstream: str | None,
    said: str,
) -> None:
    if upstream is not None:
        monkeypatch.setenv("BACKREAD_UPSTREAM", upstream)
    result = run("serve", *options, code=2)
    assert (result.stdout, said in result.stderr) == ("", True)
    assert not store.exists()
