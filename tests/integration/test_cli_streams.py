"""Commands with a standard stream that is closed, or that nobody reads: a quiet end or a plain error, never a bug."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from backread import Memory
from backread.cli.failures import ExitCode

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

COMMANDS = {
    "add --user ann hello": "",
    "add --user ann -": "some text",
    "add --user ann --messages -": '{"role": "user", "content": "x"}',
    "import {folder}/turns.jsonl": "",
    "build --user ann": "",
    "delete --user bo --session s1 --yes": "",
    "search --user ann kettle": "",
    "recall --user ann kettle": "",
    "ask --user ann kettle": "",
    "users": "",
    "sessions --user ann": "",
    "show --user ann --session s1": "",
    "show --user ann --raw m0": "",
    "entries --user ann --strategy leanmem": "",
    "export --user ann": "",
    "verify": "",
    "stats": "",
    "doctor": "",
    "models list": "",
    "mcp": "",
    "--version": "",
    "--help": "",
    "search": "",
}
"""Every command that ends by itself and needs no model; with what it reads."""

CODES = {int(code) for code in ExitCode} - {int(ExitCode.BUG)}


def run(command: str, streams: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """A command under a shell with some streams redirected."""
    line = f"{shlex.quote(sys.executable)} -m backread {command} {streams}"
    environment = os.environ | {"BACKREAD_EMBEDDER": "none"}
    return subprocess.run(
        ["/bin/sh", "-c", line], env=environment, input=stdin, capture_output=True, text=True, timeout=100
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Memory.open(embedder="none") as memory:
        for user in ("ann", "bo"):
            memory.add({"role": "user", "content": "The kettle is red.", "id": "m0"}, user_id=user, session_id="s1")
    (tmp_path / "turns.jsonl").write_text('{"role": "user", "content": "x", "user_id": "cy"}', encoding="utf-8")
    return tmp_path


SWEEP = """
import json, os, signal, sys, tempfile
from backread.cli import main
import backread.memory, rich.table
ended = {}
for command, stdin in json.loads(sys.argv[1]):
    for closed in ([0], [1], [0, 1, 2], ["full"]):
        said = tempfile.TemporaryFile()
        child = os.fork()
        if not child:
            signal.alarm(20)  # ends it, with no code that is ours
            given = tempfile.TemporaryFile()
            given.write(stdin.encode())
            given.seek(0)
            os.dup2(given.fileno(), 0)
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            if closed == ["full"]:
                os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
                closed = []
            for number in closed:
                os.close(number)
                setattr(sys, ("stdin", "stdout", "stderr")[number], None)
            sys.argv = ["backread", *command]
            main()
        _, status = os.waitpid(child, 0)
        said.seek(0)
        ended[f"{' '.join(command)} {closed}"] = os.waitstatus_to_exitcode(status), said.read().decode()
print(json.dumps(ended))
"""
"""Every command with each stream closed, all of them, and a full disk: a fork each, so that importing is paid once."""


def test_no_stream_has_to_be_there(folder: Path) -> None:
    given = [(command.format(folder=folder).split(), stdin) for command, stdin in COMMANDS.items()]
    program = [sys.executable, "-c", SWEEP, json.dumps(given)]
    environment = os.environ | {"BACKREAD_EMBEDDER": "none"}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=250, check=True)
    ended = json.loads(done.stdout)
    assert len(ended) == 4 * len(COMMANDS)
    bad = ("this is a bug", "Traceback", "Exception ignored")
    assert {
        name: (code, said)
        for name, (code, said) in ended.items()
        if code not in CODES or any(word in said for word in bad)
    } == {}


# CLI-01
def test_closed_streams_end_with_a_code_that_the_help_lists(folder: Path) -> None:
    for streams in (">&-", ">/dev/full"):
        assert run("search --user ann kettle", streams).returncode == ExitCode.PIPE
        assert run("users", streams).returncode == ExitCode.PIPE
    lost = run("add --user ann - ", "<&-")
    assert lost.returncode == ExitCode.INPUT
    assert lost.stderr.startswith("error: ")
    assert run("search --user ann kettle", "2>&-").returncode == ExitCode.OK
    assert run("users", "<&-").stdout.split()[:3] == ["user", "sessions", "turns"]


def test_a_full_disk_is_said(folder: Path) -> None:
    done = run("export --user ann", ">/dev/full")
    assert (done.returncode, done.stderr) == (
        ExitCode.PIPE,
        "error: the output can't be written: [Errno 28] No space left on device\n",
    )


def test_whoever_reads_may_stop(folder: Path) -> None:
    with Memory.open(embedder="none") as memory:
        memory.add([{"role": "user", "content": "kettle " * 2000}] * 40, user_id="ann", session_id="long")
    for command in ("export --user ann", "show --user ann --session long", "export --user ann 2>&1"):
        done = run(f"{command} | head -1", "")
        assert done.returncode == 0
        assert "Traceback" not in done.stderr
        assert "bug" not in done.stderr
