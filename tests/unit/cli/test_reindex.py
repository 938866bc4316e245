"""`backread reindex`: changing the embedder, going back, and freeing what was kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from backread import Memory
from backread.errors import NotFoundError
from backread.models.base import Embedder
from backread.testing.fakes import HashEmbedder

Run = Callable[..., Result]
Data = Callable[..., Any]
EMBEDDERS: dict[str, Embedder] = {"one": HashEmbedder(32, name="one"), "two words": HashEmbedder(48, name="two")}


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two embedders by name, the first one set."""

    def open_embedder(name: str, **_: Any) -> Embedder:
        if name not in EMBEDDERS:
            raise NotFoundError(f"no embedder is called {name!r}")
        return EMBEDDERS[name]

    monkeypatch.setattr("backread.models.embedders.open_embedder", open_embedder)
    monkeypatch.setenv("BACKREAD_EMBEDDER", "one")


@pytest.fixture
def fingerprints(filled: Path, run: Run) -> tuple[str, str]:
    """Of the two; the store is embedded with the first."""
    assert "4 turns embedded" in run("reindex").stdout
    return EMBEDDERS["one"].fingerprint, EMBEDDERS["two words"].fingerprint


def test_changing_over_says_what_to_set_and_what_is_kept(
    run: Run, data: Data, fingerprints: tuple[str, str], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = fingerprints
    done = run("reindex", "--to", "two words")
    assert "4 turns embedded" in done.stdout
    assert f"the vectors of {one} are kept: `backread reindex --rollback --path {store}`" in done.stdout
    assert "set BACKREAD_EMBEDDER='two words': as long as it is one, search goes by words only" in done.stderr
    assert data("stats")["embedder"] == two
    again = run("reindex", "--to", "two words")
    assert "are kept" not in again.stdout
    monkeypatch.setenv("BACKREAD_EMBEDDER", "two words")
    assert data("reindex", "--to", "two words") == {
        "embedded": 0, "pending": 0, "text": False, "embedder": two, "previous": one,
    }  # fmt: skip
    assert run("reindex", "--to", "two words").stderr == ""
    assert run("search", "--user", "ann", "--mode", "dense", "boiler").stderr == ""


def test_going_back(run: Run, data: Data, fingerprints: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = fingerprints
    run("reindex", "--to", "two words")
    run("add", "--user", "ann", "The lamp is new.")
    back = run("reindex", "--rollback")
    assert f"the vectors of {one} are in use again, those of {two} are kept" in back.stdout
    assert back.stderr == ""
    assert data("stats")["pending"] == 0  # the new turn was embedded on the way
    forward = run("reindex", "--rollback", "--json")
    assert json.loads(forward.stdout) == {"pending": 1, "embedder": two, "previous": one}
    assert f"set BACKREAD_EMBEDDER to the embedder of {two}" in forward.stderr
    monkeypatch.setenv("BACKREAD_EMBEDDER", "none")
    run("add", "--user", "ann", "The stove is old.")
    assert "1 turn added since pending" in run("reindex", "--rollback").stdout


def test_freeing(run: Run, data: Data, fingerprints: tuple[str, str]) -> None:
    one, two = fingerprints
    assert "no vectors" in run("reindex", "--drop-previous").stdout
    assert data("reindex", "--drop-previous") == {"dropped": None}
    assert "no vectors" in run("reindex", "--rollback", code=3).stderr
    run("reindex", "--to", "two words")
    assert f"the vectors of {one} are gone" in run("reindex", "--drop-previous").stdout
    assert data("reindex", "--to", "one", "--drop-previous")["previous"] is None
    run("reindex", "--to", "two words")
    assert data("reindex", "--drop-previous") == {"dropped": one}
    assert (data("stats")["embedder"], data("stats")["vectors"]) == (two, 4)
    assert data("verify")["ok"]


@pytest.mark.parametrize(
    "options",
    [
        ("--rollback", "--to", "one"),
        ("--rollback", "--drop-previous"),
        ("--rollback", "--text"),
        ("--text", "--to", "one"),
        ("--text", "--drop-previous"),
    ],
)
def test_what_does_not_go_together(run: Run, options: tuple[str, ...], fingerprints: tuple[str, str]) -> None:
    assert "alone" in run("reindex", *options, code=2).stderr


def test_an_unknown_embedder_and_a_missing_store(run: Run, store: Path) -> None:
    for options in (("--to", "two words"), ("--rollback",), ("--drop-previous",)):
        assert "there is no store" in run("reindex", *options, code=3).stderr
        assert not store.exists()
    run("add", "--user", "ann", "The lamp is new.")
    assert "'three'" in run("reindex", "--to", "three", code=3).stderr
    assert run("reindex", "--to", "none", code=5).stderr.startswith("error: ")


def test_turns_that_came_meanwhile_keep_the_change_open(
    run: Run, fingerprints: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Memory.reindex
    monkeypatch.setattr(Memory, "reindex", lambda self, **given: 2)
    told = run("reindex", "--to", "two words")
    assert "2 pending" in told.stdout
    assert "stay in use until none is pending: `backread reindex --to 'two words' --path" in told.stderr
    monkeypatch.setattr(Memory, "reindex", real)

    def interrupted(self: Memory, **given: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(Memory, "reindex", interrupted)
    assert "stopped; `backread reindex --to 'two words' --path" in run("reindex", "--to", "two words", code=130).stderr


def test_no_index_for_a_small_history(run: Run, filled: Path) -> None:
    assert run("reindex", "--ann").stdout == "no history is large enough to need one\n"
    assert json.loads(run("reindex", "--ann", "--json").stdout) == {"built": 0}
    assert "go alone" in run("reindex", "--ann", "--text", code=2).stderr
