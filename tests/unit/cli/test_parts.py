"""What can be chosen by name, and a package for one more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from backread.cli import app
from backread.memory import Memory
from backread.strategies.registry import STRATEGIES

RUN = CliRunner()


def test_strategies_lists_every_one_with_what_it_does() -> None:
    rows = json.loads(RUN.invoke(app, ["strategies", "--json"]).stdout)
    assert [row["name"] for row in rows] == list(STRATEGIES)
    builds = {row["name"] for row in rows if row["builds"]}
    assert {"t2mem", "leanmem", "lightmem", "trailmem"} <= builds
    assert not {"naive_rag", "full_context", "lazymem", "search_o1", "t2mem:no_metadata"} & builds
    assert "the best turns, as said" in RUN.invoke(app, ["strategies"]).stdout


def test_plugins_says_that_there_are_none() -> None:
    assert json.loads(RUN.invoke(app, ["plugins", "--json"]).stdout) == []


@pytest.mark.parametrize("name", ["My_memory", "1st", "my-memory", "", "../x", "naive_rag", "backread", "a_"])
def test_a_name_that_is_none_or_taken_is_refused(tmp_path: Path, name: str) -> None:
    result = RUN.invoke(app, ["new", "strategy", name, "--in", str(tmp_path)])
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert RUN.invoke(app, ["new", "strategy", "mine", "--in", str(tmp_path)]).exit_code == 2
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.integration
@pytest.mark.timeout(120)
def test_the_package_keeps_the_contract_and_answers(tmp_path: Path) -> None:
    assert RUN.invoke(app, ["new", "strategy", "newest_first", "--in", str(tmp_path)]).exit_code == 0
    root = tmp_path / "newest_first"
    environment = os.environ | {"PYTHONPATH": str(root / "src"), "BACKREAD_EMBEDDER": "none"}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)

    tested = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly")
    assert tested.returncode == 0, tested.stdout
    assert " passed" in tested.stdout
    path = str(tmp_path / "memory.db")
    with Memory.open(path, embedder="none") as memory:
        memory.add({"role": "user", "content": "The boat is blue."}, user_id="ann")
    command = ["recall", "--path", path, "--user", "ann", "--strategy", "newest_first:NewestFirst", "--json", "boat"]
    told = run(sys.executable, "-m", "backread", *command)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["strategy"] == "newest_first"
    assert "The boat is blue." in told.stdout
