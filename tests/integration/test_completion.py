"""Completion: scripts for every shell, and names as a shell asks for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from backread import Memory

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(120)]

PROGRAM = [sys.executable, "-c", "import sys; sys.argv[0] = 'backread'; from backread.cli import main; main()"]


def run(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {name: value for name, value in os.environ.items() if name != "SHELL"} | environment
    return subprocess.run([*PROGRAM, *args], env=given, capture_output=True, text=True, timeout=100)


def completed(line: str) -> list[str]:
    """What bash offers at the end of a line."""
    words = line.split(" ")
    done = run(_BACKREAD_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("shell", "said"), [("bash", "complete -o default"), ("zsh", "#compdef backread"), ("fish", "complete --command")]
)
def test_the_script_of_a_shell(shell: str, said: str) -> None:
    done = run("--show-completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout
    assert f"complete_{shell}" in done.stdout


def test_it_is_installed() -> None:
    for _ in range(2):
        assert run("--install-completion", "bash").returncode == 0
    home = Path(os.environ["HOME"])
    assert "complete -o default" in (home / ".bash_completions" / "backread.sh").read_text(encoding="utf-8")
    assert (home / ".bashrc").read_text(encoding="utf-8").count("source ") == 1


@pytest.mark.parametrize("option", ["--show-completion", "--install-completion"])
def test_a_shell_that_there_is_nothing_for(option: str) -> None:
    done = run(option, "tcsh")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: there is no completion for the shell 'tcsh'\nhint: name one: backread --")


@pytest.fixture
def _record() -> None:
    with Memory.open(embedder="none") as memory:
        for user, session in (("ann", "garden"), ("ann", "boiler"), ("anton", "s1"), ("bo", "s2")):
            memory.add({"role": "user", "content": "hello"}, user_id=user, session_id=session)


@pytest.mark.usefixtures("_record")
def test_names_of_the_store_and_of_parts() -> None:
    assert completed("backread search --user an") == ["ann", "anton"]
    assert completed("backread show --user ann --session ") == ["garden", "boiler"]
    assert completed("backread show --session ") == []
    assert completed("backread ask --user ann --strategy t2mem:s") == ["t2mem:summary"]
    assert completed("backread import --format lo") == ["locomo", "longmemeval"]
    assert completed("backread search --user ann --mode b") == ["bm25"]
    assert "minilm" in completed("backread models fetch mini")
    assert completed("backread exp") == ["export"]


def test_without_a_store_nothing_is_offered(tmp_path: Path) -> None:
    assert completed("backread search --user an") == []
    (tmp_path / "broken.db").write_bytes(b"no store at all" * 100)
    assert completed(f"backread search --path {tmp_path / 'broken.db'} --user an") == []
    assert not (Path(os.environ["HOME"]) / "memory.db").exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
def test_bash_reads_its_script(tmp_path: Path) -> None:
    file = tmp_path / "script"
    file.write_text(run("--show-completion", "bash").stdout, encoding="utf-8")
    done = subprocess.run(["bash", "-n", str(file)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
