"""The command line as a process: what a shell, a pipe and an exit code see."""

from __future__ import annotations

import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(120)]

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
        assert told == b""
        assert process.wait(60) in ((0, 141) if args == ("--help",) else (141,))  # the help fits into the pipe


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


class _Endpoint(http.server.BaseHTTPRequestHandler):
    """Answers every chat request with the same words, or with an error when the model is called "broken"."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"role": "assistant", "content": "It is under the blue pot [1]."}
        usage = {"prompt_tokens": 10, "completion_tokens": 8, "total_tokens": 18}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        reply = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}
        broken = asked["model"] == "broken"
        body = json.dumps({"error": {"message": "out of order"}} if broken else reply).encode()
        self.send_response(500 if broken else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
        thread.join()


def test_a_written_answer_and_a_model_that_fails(run: Run, environment: dict[str, str], endpoint: str) -> None:
    key = ("add", "--user", "ann", "--session", "s", "--time", "2025-03-01T10:00:00Z", "The key is under the blue pot.")
    turn_id = run(*key).stdout.decode().strip()
    environment |= {"OPENAI_BASE_URL": endpoint, "BACKREAD_MODEL": "m"}
    written = run("ask", "--user", "ann", "--trace", "Where is the key?")
    assert written.stdout.decode() == (
        f"It is under the blue pot [1].\n\n[1] 2025-03-01 10:00 user (s, {turn_id}): “The key is under the blue pot.”\n"
    )
    assert b"usage: answer: m, 10 in, 8 out" in written.stderr
    environment["BACKREAD_MODEL"] = "broken"
    failed = run("ask", "--user", "ann", "Where is the key?", code=5)
    assert failed.stdout == b""
    assert b"out of order" in failed.stderr
    environment["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"
    assert run("ask", "--user", "ann", "--json", "Where is the key?", code=5).stdout == b""


@pytest.fixture
def terminal(environment: dict[str, str]) -> Callable[..., tuple[str, int]]:
    """Run a command on a terminal of 80 columns, with `keys` typed into it: what it showed, and its exit code."""
    pty = pytest.importorskip("pty")

    def terminal(*args: str, keys: bytes = b"") -> tuple[str, int]:
        environment.update(TERM="xterm-256color", COLUMNS="80", LINES="24")
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "backread", *args]
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        os.write(ours, keys)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the terminal is closed when the process ends
                break
            if not part:
                break
            shown += part
        os.close(ours)
        return shown.decode(), process.wait(60)

    return terminal


ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_on_a_terminal_words_are_marked_and_lines_fit(
    run: Run, terminal: Callable[..., tuple[str, int]], tmp_path: Path
) -> None:
    lines = [{"role": "user", "name": "Ann", "content": f"The blue kayak {n} " + "x " * 70} for n in range(20)]
    file = tmp_path / "chats.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    shown, code = terminal("import", str(file), "--user", "ann")
    assert code == 0
    assert "storing sessions" in shown
    assert "1/1" in shown
    shown, code = terminal("search", "--user", "ann", "-k", "3", "kayaks")
    assert (code, shown.count("\x1b[1;33mkayak\x1b[0m")) == (0, 3)
    assert max(len(line) for line in ESCAPES.sub("", shown).split("\r\n")) <= 80


def test_on_a_terminal_delete_asks(run: Run, terminal: Callable[..., tuple[str, int]]) -> None:
    run("add", "--user", "ann", "x")
    shown, code = terminal("delete", "--user", "ann", keys=b"n\n")
    assert code == 0
    assert "Delete everything of user 'ann': 1 turn in 1 session?" in shown
    assert "nothing was deleted" in shown
    shown, code = terminal("delete", "--user", "ann", keys=b"y\n")
    assert code == 0
    assert "deleted 1 turn, 1 session (whole) of user ann" in shown


@pytest.mark.weights
def test_doctor_tries_the_embedder_and_counts_what_is_pending(run: Run, environment: dict[str, str]) -> None:
    run("add", "--user", "ann", "x")
    environment["BACKREAD_EMBEDDER"] = "minilm"
    assert b"1 turn pending" in run("doctor").stdout
    assert b"1 turn embedded" in run("reindex").stdout
    assert b"384 dimensions" in run("doctor").stdout
