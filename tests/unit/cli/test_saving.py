"""`backread backup` and `rescue`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from backread import Memory
from backread.cli import app

Run = Callable[..., Result]
Data = Callable[..., Any]

pytestmark = pytest.mark.usefixtures("filled")


def rescued(*args: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["rescue", *map(str, args)])
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result


def users_of(path: Path) -> list[str]:
    with Memory.open(path) as memory:
        return memory.users()


def test_backup(run: Run, data: Data, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    made = data("backup", str(copy))
    assert (made["path"], made["users"], made["turns"]) == (str(copy), 2, 4)
    assert made["sha256"] == hashlib.sha256(copy.read_bytes()).hexdigest()
    assert copy.stat().st_mode & 0o777 == 0o600
    assert users_of(copy) == ["ann", "bob"]
    assert "there already" in run("backup", str(copy), code=2).stderr
    told = run("backup", str(copy), "--force").stdout
    assert "turns     4" in told
    assert "no fault" in told


def test_the_store_is_not_its_own_backup(run: Run, store: Path) -> None:
    assert "the store itself" in run("backup", str(store), "--force", code=2).stderr


def test_rescue_of_a_sound_store(store: Path, tmp_path: Path) -> None:
    told = rescued(store, tmp_path / "saved.db").stdout
    assert [line.split() for line in told.split("\n")[1:4]] == [["turns", "known", "4"], ["saved", "4"], ["lost", "0"]]
    assert users_of(tmp_path / "saved.db") == ["ann", "bob"]


def test_rescue_of_a_damaged_store_lists_what_is_lost(run: Run, data: Data, store: Path, tmp_path: Path) -> None:
    lost = data("show", "--user", "ann", "--session", "boiler")[0]
    assert store.read_bytes().count(lost["text"].encode()) == 1
    store.write_bytes(store.read_bytes().replace(lost["text"].encode(), lost["text"][::-1].encode()))
    assert "backread rescue" in run("export", "--user", "ann", code=4).stderr
    result = rescued(store, tmp_path / "saved.db", "--json", code=6)
    report = json.loads(result.stdout)
    assert (report["known"], report["saved"]) == (4, 3)
    assert [(turn["turn_id"], turn["user_id"]) for turn in report["lost"]] == [(lost["turn_id"], "ann")]
    told = rescued(store, tmp_path / "saved.db", "--force", code=6).stdout
    assert lost["turn_id"] in told


def test_rescue_of_nothing(tmp_path: Path) -> None:
    assert "there is no file" in rescued(tmp_path / "absent.db", tmp_path / "saved.db", code=3).stderr
    (tmp_path / "text").write_text("no store " * 2000)
    assert "not one turn" in rescued(tmp_path / "text", tmp_path / "saved.db", code=4).stderr
    assert not (tmp_path / "saved.db").exists()
