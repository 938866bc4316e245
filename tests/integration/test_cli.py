"""The command line as a process: what a shell, a pipe and an exit code see."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

Process = subprocess.CompletedProcess[bytes]
Run = Callable[..., Process]

CONFIG = 'Config:\n\n\tretry:  3\n    token = "AbC"\n  trailing  \r\nline two\u2028end'.encode()


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("BACKREAD_EMBEDDER", "none")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return dict(os.environ)


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    def run(*args: str | bytes, code: int = 0, stdin: bytes = b"") -> Process:
        command = [sys.executable, "-m", "backread", *args]
        result = subprocess.run(command, input=stdin, capture_output=True, env=environment, timeout=100)
        assert result.returncode == code, (result.stdout, result.stderr)
        assert b"Traceback" not in result.stderr
        return result

    return run


def test_ver_02_unquoted_words_and_stdin_byte_for_byte(run: Run) -> None:
    run("add", "--user", "ann", "--id", "w", "blue", "kayak", "paddle")
    assert run("show", "--user", "ann", "--raw", "w").stdout == b"blue kayak paddle"
    run("add", "--user", "ann", "--id", "c", "-", stdin=CONFIG)
    assert run("show", "--user", "ann", "--raw", "c").stdout == CONFIG
    run("add", "--user", "ann", "--id", "é", "caf\u00e9".encode(), b"\xf0\x9f\x98\x80")
    assert run("show", "--user", "ann", "--raw", "é").stdout.decode() == "café 😀"


def test_exit_codes(run: Run, tmp_path: Path) -> None:
    run("stats", code=3)
    run("add", "--user", "ann", "x")
    assert run("search", "--user", "ann", "zebra").stdout == b""
    run("search", "zebra", code=2)
    run("add", "--user", "ann", b"\xff", code=2)
    run("show", "--user", "ann", "nope", code=3)
    run("stats", "--path", str(tmp_path), code=4)
    run("search", "--user", "ann", "--mode", "dense", "x", code=5)
    run("delete", "--user", "ann", code=2)


def test_with_json_stdout_is_json_and_nothing_else(run: Run) -> None:
    run("add", "--user", "ann", "--id", "a", "a key")
    for args in (
        ("search", "--user", "ann", "key"),
        ("search", "--user", "zoe", "key"),
        ("recall", "--user", "ann", "key"),
        ("ask", "--user", "ann", "key"),
        ("users",),
        ("sessions", "--user", "ann"),
        ("show", "--user", "ann", "a"),
        ("export", "--user", "ann"),
        ("verify",),
        ("stats",),
        ("doctor",),
        ("models", "list"),
    ):
        result = run(*args, "--json")
        assert isinstance(json.loads(result.stdout), dict | list), args
        assert result.stdout.isascii()
        assert result.stderr == b"", args
    failed = run("show", "--user", "ann", "nope", "--json", code=3)
    assert failed.stdout == b""
    assert json.loads(failed.stderr)["error"]["type"] == "NotFoundError"


def test_a_reader_that_goes_away_is_no_noise(run: Run, environment: dict[str, str]) -> None:
    lines = "".join(json.dumps({"role": "user", "content": f"key {number} " * 50}) + "\n" for number in range(2000))
    run("add", "--user", "ann", "--messages", "-", stdin=lines.encode())
    for args in (("export", "--user", "ann"), ("show", "--user", "ann", "--session", _session(run)), ("--help",)):
        process = subprocess.Popen(
            [sys.executable, "-m", "backread", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        told = process.stderr.read()
        process.stderr.close()
        assert (told, process.wait(60)) == (b"", 0 if args == ("--help",) else 141)


def _session(run: Run) -> str:
    sessions: list[dict[str, Any]] = json.loads(run("sessions", "--user", "ann", "--json").stdout)
    return str(sessions[0]["session_id"])


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_ends_with_130_and_keeps_what_is_stored(run: Run, environment: dict[str, str]) -> None:
    run("add", "--user", "ann", "x")
    process = subprocess.Popen(
        [sys.executable, "-m", "backread", "add", "--user", "ann"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    time.sleep(3)  # it waits for stdin by then
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1]
    assert (told, process.returncode) == (b"interrupted\n", 130)
    assert json.loads(run("stats", "--json").stdout)["turns"] == 1


def test_help_is_quick_to_import(environment: dict[str, str]) -> None:
    code = "import sys, backread.cli; print([name for name in sys.modules if name.split('.')[0] in %r])"
    heavy = ("numpy", "onnxruntime", "openai", "tokenizers", "huggingface_hub", "snowballstemmer")
    told = subprocess.run([sys.executable, "-c", code % (heavy,)], capture_output=True, env=environment, check=True)
    assert told.stdout.strip() == b"[]"


def test_a_locale_without_unicode_does_not_stop_a_command(run: Run, environment: dict[str, str]) -> None:
    run("add", "--user", "ann", "--id", "a", "grüße 😀 key")
    environment["PYTHONIOENCODING"] = "ascii"
    assert rb"gr\xfc\xdfe" in run("search", "--user", "ann", "key").stdout
    assert run("show", "--user", "ann", "--raw", "a").stdout.decode() == "grüße 😀 key"


@pytest.mark.weights
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_demo_finds_what_shares_no_word(environment: dict[str, str], tmp_path: Path) -> None:
    environment["BACKREAD_EMBEDDER"] = "minilm"
    command = [sys.executable, "-m", "backread", "demo", "--path", str(tmp_path / "demo.db")]
    first = subprocess.run(command, capture_output=True, env=environment, check=True).stdout.decode()
    assert first.count("Q: ") == 5
    assert first.count("The question shares no word") == 2
    assert "(not found)" not in first
    started = time.monotonic()
    again = subprocess.run([*command, "--json"], capture_output=True, env=environment, check=True)
    assert time.monotonic() - started < 30
    told = json.loads(again.stdout)
    assert (told["pending"], len(told["questions"])) == (0, 5)
