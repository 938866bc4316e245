"""`backread serve`: what keeps it from starting. That it serves is tested with real processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from backread.server.keys import hash_key

KEYS = f'{{"keys": [{{"sha256": "{hash_key("abc")}", "user": "ann"}}]}}'


@pytest.mark.parametrize(
    ("options", "variables", "said"),
    [
        (["--host", "0.0.0.0"], {}, "without keys everybody who reaches 0.0.0.0 could read and erase everything"),
        (["--keys", "none.toml"], {}, "none.toml: No such file or directory"),
        ([], {"BACKREAD_KEYS_FILE": "gone.toml"}, "gone.toml: No such file or directory"),
        ([], {"BACKREAD_KEYS": "abc"}, "BACKREAD_KEYS is not JSON"),
        ([], {"BACKREAD_KEYS": "{}"}, "BACKREAD_KEYS: keys: Field required"),
        (["--keys", "keys.json"], {"BACKREAD_KEYS": KEYS}, "keys are in BACKREAD_KEYS and in a file"),
        (["--port", "70000"], {"BACKREAD_KEYS": KEYS}, "70000 is no port"),
    ],
)
def test_what_keeps_it_from_starting(
    run: Callable[..., Result],
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    variables: dict[str, str],
    said: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = run("serve", *options, code=2)
    assert (result.stdout, said in result.stderr) == ("", True)
    assert not store.exists()


def test_without_its_packages_it_names_the_extra(
    run: Callable[..., Result], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = run("serve", code=2)
    assert "the server needs what is not installed (uvicorn)" in result.stderr
    assert "hint: pip install 'backread[server]'" in result.stderr
    assert not store.exists()
