from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from backread.cli import app
from backread.cli.output import counted, plain, size
from backread.models.fetch import MODELS
from backread.settings import ENVIRONMENT

Run = Callable[..., Result]
Data = Callable[..., Any]


def checks(found: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["status"] for check in found["checks"]}


def test_doctor_on_a_fresh_machine(run: Run, data: Data, store: Path) -> None:
    found = data("doctor")
    assert found["ok"] is True
    assert checks(found) == dict.fromkeys(
        ("python", "sqlite", "settings", "store", "embedder", "chat model", "tokens"), "ok"
    )
    assert not store.exists()
    told = run("doctor").stdout
    assert "not there yet" in told
    assert "answers quote the record" in told


@pytest.mark.usefixtures("filled")
def test_doctor_counts_the_store_and_warns_of_readers(data: Data, store: Path) -> None:
    assert "4 turns in 3 sessions of 2 users" in data("doctor")["checks"][3]["detail"]
    store.chmod(0o644)
    found = data("doctor")
    assert (found["ok"], checks(found)["store"]) == (True, "warning")


def test_doctor_without_weights_warns_and_says_how_to_fetch_them(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BACKREAD_EMBEDDER")
    found = data("doctor")
    embedder = next(check for check in found["checks"] if check["name"] == "embedder")
    assert embedder["status"] == "warning"
    assert "backread models fetch minilm" in embedder["hint"]


def test_doctor_never_shows_the_key(run: Run, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("BACKREAD_MODEL", "gpt-x")
    result = run("doctor")
    assert "sk-secret" not in result.stdout + result.stderr
    assert "gpt-x at OpenAI's own endpoint, key set" in result.stdout
    listed = {item["name"]: item for item in data("doctor")["settings"]}
    assert listed["api_key"] == {"name": "api_key", "value": "set", "origin": "OPENAI_API_KEY"}


@pytest.mark.parametrize(
    ("environment", "status", "code"),
    [
        ({"BACKREAD_MODEL": "gpt-x"}, "error", 6),
        ({"OPENAI_API_KEY": "k"}, "warning", 0),
        ({"BACKREAD_MODEL": "m", "OPENAI_BASE_URL": "http://localhost:1"}, "ok", 0),
    ],
)
def test_doctor_on_the_chat_model(
    data: Data, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], status: str, code: int
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert checks(data("doctor", code=code))["chat model"] == status


@pytest.mark.parametrize(("name", "value"), [("BACKREAD_BUDGET", "many"), ("BACKREAD_ZONE", "Mars/Base")])
def test_doctor_on_settings_that_cannot_be_read(
    data: Data, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    found = data("doctor", code=6)
    assert checks(found)["settings"] == "error"


def test_doctor_on_a_damaged_store(data: Data, store: Path) -> None:
    store.write_bytes(b"nothing of the kind" * 100)
    assert checks(data("doctor", code=6))["store"] == "error"


def test_doctor_says_who_set_what(data: Data, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('zone = "Europe/Paris"\nbudget = 500\n', encoding="utf-8")
    monkeypatch.setenv("BACKREAD_CONFIG", str(config))
    monkeypatch.setenv("BACKREAD_BUDGET", "700")
    origins = {item["name"]: (item["value"], item["origin"]) for item in data("doctor")["settings"]}
    assert origins["zone"] == ("Europe/Paris", "configuration file")
    assert origins["budget"] == ("700", "BACKREAD_BUDGET")
    assert origins["path"][1] == "--path"
    assert origins["strategy"][1] == "default"
    assert set(origins) == set(ENVIRONMENT)


def test_models_are_listed_with_their_origin(run: Run, data: Data) -> None:
    found = run("models", "list").stdout
    spec = MODELS["minilm"]
    for part in (spec.publisher, spec.licence, spec.sha256, spec.homepage, "91.3 MB", "not fetched"):
        assert part in found
    model = next(m for m in json.loads(run("models", "list", "--json").stdout) if m["name"] == "minilm")
    assert (model["name"], model["status"], model["bytes"]) == ("minilm", "not fetched", spec.size)


def test_models_path(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BACKREAD_MODELS_DIR", str(tmp_path / "m"))
    assert run("models", "path").stdout == f"{tmp_path / 'm'}\n"
    assert run("models", "path", "minilm").stdout == f"{tmp_path / 'm' / 'minilm'}\n"
    assert "minilm" in run("models", "path", "nope", code=3).stderr


@pytest.mark.parametrize("option", ["--from", "--path"])
def test_fetch_from_a_place_that_has_other_bytes(run: Run, tmp_path: Path, option: str) -> None:
    for file in MODELS["minilm"].files:
        (tmp_path / file.name).write_bytes(b"other")
    result = run("models", "fetch", "minilm", option, str(tmp_path), code=5)
    assert "expected" in result.stderr
    run("models", "fetch", "nope", code=3)


@pytest.mark.weights
def test_fetch_says_where_the_weights_came_from(run: Run) -> None:
    told = run("models", "fetch", "minilm").stdout
    for part in ("already there", MODELS["minilm"].sha256, MODELS["minilm"].licence, MODELS["minilm"].publisher):
        assert part in told
    assert "ready" in run("models", "list").stdout


def test_demo_without_vectors_is_told_and_quick_to_repeat(run: Run, data: Data, store: Path) -> None:
    first = run("demo")
    assert "no vectors" in first.stderr
    assert "backread models fetch minilm" in first.stderr
    assert first.stdout.count("Q: ") == 5
    assert first.stdout.count("The question shares no word") == 2
    assert f"-p {store} -u marta" in first.stdout
    turns = data("stats")["turns"]
    again = data("demo")
    assert data("stats")["turns"] == turns > 800
    assert again["questions"][0]["question"] == "How do I feel about elevators?"
    assert len(again["questions"]) == 5


def test_the_commands_the_demo_suggests_work(run: Run) -> None:
    told = run("demo").stdout
    suggested = told[told.index("What to try next:") :].split("\n")[1:]
    commands = [shlex.split(line) for line in suggested if line.strip()]
    assert len(commands) == 5
    for words in commands:
        assert words[0] == "backread"
        result = CliRunner().invoke(app, [os.path.expanduser(word) for word in words[1:]])
        assert result.exit_code == 0, (words, result.stderr)
        assert result.stdout.strip(), words


def test_the_demo_has_a_store_of_its_own(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0
    assert list((tmp_path / "share").rglob("demo.db"))
    assert "-p ~/" in result.stdout or f"-p {tmp_path}" in result.stdout


def test_sizes_and_counts() -> None:
    assert [size(number) for number in (0, 999, 1000, 91_334_623)] == ["0 bytes", "999 bytes", "1.0 kB", "91.3 MB"]
    assert [counted(number, "turn") for number in (0, 1, 1200)] == ["0 turns", "1 turn", "1,200 turns"]


def test_plain_knows_paths_and_nested_values() -> None:
    assert plain({"a": (Path("/x"), {1: {2.5}})}) == {"a": ["/x", {"1": [2.5]}]}
