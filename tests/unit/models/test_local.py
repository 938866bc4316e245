"""Local chat models without a model: names, what is missing, and the server process around a pretended xllamacpp."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from backread.errors import InvalidInputError, MissingExtraError, ModelNotAvailableError, NotFoundError
from backread.models.base import ChatMessage, ChatModel
from backread.models.fetch import MODELS
from backread.models.local import LocalChat, LocalServer, open_local

# Native code is played by Python: the "weights" say after the magic what the server shall do.
PRETENDED = """
import http.server, json, os, threading, time

class Any: pass

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch, self.sampling = Any(), Any(), Any(), Any()

class Server:
    def __init__(self, params):
        mode = open(params.model.path, "rb").read()[4:].decode()
        print("native code prints")
        if mode == "refuse": raise RuntimeError("Failed to init server")
        if mode == "die": os._exit(7)
        if mode == "hang": time.sleep(60)
        lock = threading.Lock()
        class Handler(http.server.BaseHTTPRequestHandler):
            open, most = 0, 0
            def do_GET(self): self.give({"status": "ok"})
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                if mode == "crash": os._exit(1)
                if mode == "count":
                    with lock: Handler.open += 1
                    time.sleep(0.05)
                    with lock: Handler.most, Handler.open = max(Handler.most, Handler.open), Handler.open - 1
                if self.headers["Authorization"] != f"Bearer {params.api_keys[0]}": return self.send_error(401)
                said = f"{params.n_ctx} {params.cpuparams.n_threads} {params.hostnames[0]} {params.ui}"
                said += f" {params.sampling.penalty_repeat}"
                if mode == "count": said = f"{Handler.most} at a time"
                message = {"role": "assistant", "content": said}
                usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
                self.give({"choices": [{"index": 0, "finish_reason": "stop", "message": message}], "usage": usage})
            def give(self, body):
                data = json.dumps(body).encode()
                self.send_response(503 if mode == "ill" else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            def log_message(self, *args): pass
        served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.listening_address = f"http://127.0.0.1:{served.server_address[1]}"
        threading.Thread(target=served.serve_forever, daemon=True).start()
"""


@pytest.fixture
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "xllamacpp.py").write_text(PRETENDED, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))


def gguf(path: Path, mode: str = "") -> Path:
    path.write_bytes(b"GGUF" + mode.encode())
    return path


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return gguf(tmp_path / "tiny.gguf")


def ask(chat: ChatModel) -> str:
    return chat.complete([ChatMessage("user", "?")], purpose="answer", max_tokens=5).text


@pytest.mark.usefixtures("pretended")
class TestNames:
    @pytest.mark.parametrize("name", ["gpt", "minilm", "local:minilm", ""])
    def test_what_is_no_local_chat_model_lists_those_that_are(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(NotFoundError, match=r"there is: qwen-1\.5b, smollm2") as caught:
            open_local(name, directory=tmp_path)
        assert "local:/path/to/model.gguf" in str(caught.value.hint)

    @pytest.mark.parametrize(
        "name", ["smollm2", "qwen-1.5b", "org/repo/file.gguf", "org/repo@v1.0/sub/file.gguf"], ids=str
    )
    def test_weights_that_were_not_fetched_name_the_command(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(ModelNotAvailableError) as caught:
            open_local(f"local:{name}", directory=tmp_path)
        assert caught.value.hint == f"backread models fetch {name}"

    def test_unchecked_they_are_missed_by_the_first_call_and_found_when_they_came(self, tmp_path: Path) -> None:
        chat = open_local(str(tmp_path / "late.gguf"), directory=tmp_path, check=False)
        assert (chat.name, chat.window()) == ("local:late.gguf", 4096)
        with pytest.raises(ModelNotAvailableError, match="No such file"):
            ask(chat)
        gguf(tmp_path / "late.gguf")
        assert chat.weights_sha256 == hashlib.sha256(b"GGUF").hexdigest()
        fetched = open_local("local:smollm2", directory=tmp_path, check=False)
        with pytest.raises(ModelNotAvailableError, match="not in"):
            ask(fetched)
        with pytest.raises(NotFoundError):
            open_local("local:gpt", directory=tmp_path, check=False)

    def test_damaged_weights_are_refused(self, tmp_path: Path) -> None:
        folder = tmp_path / "smollm2"
        folder.mkdir()
        gguf(folder / MODELS["smollm2"].files[0].name)
        with pytest.raises(ModelNotAvailableError, match="expected 98362432"):
            open_local("smollm2", directory=tmp_path)

    @pytest.mark.parametrize("name", ["a/b", "a/b/c.bin", "../x/y.gguf/", "a/../b.gguf", "a/b@/c.gguf", "a/b/.c.gguf"])
    def test_neither_path_nor_hub_name(self, name: str, tmp_path: Path) -> None:
        with pytest.raises((InvalidInputError, ModelNotAvailableError)):
            open_local(name, directory=tmp_path)

    def test_a_path_in_any_form(self, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in (str(weights), "tiny.gguf", "./tiny.gguf", "~/tiny.gguf", "local:tiny.gguf"):
            chat = open_local(name, directory=tmp_path / "models")
            assert isinstance(chat, ChatModel)
            assert chat.name == "local:tiny.gguf"
            assert chat.weights.samefile(weights)
            assert chat.weights_sha256 == hashlib.sha256(b"GGUF").hexdigest()
            assert chat.window() == 4096

    def test_a_path_without_a_gguf(self, tmp_path: Path) -> None:
        with pytest.raises(ModelNotAvailableError, match="No such file"):
            open_local("/nowhere/x.gguf", directory=tmp_path)
        (tmp_path / "x.gguf").write_bytes(b"PK\x03\x04")
        with pytest.raises(ModelNotAvailableError, match="not a GGUF"):
            open_local(str(tmp_path / "x.gguf"), directory=tmp_path)

    @pytest.mark.parametrize("wrong", [{"threads": 0}, {"context": 0}])
    def test_settings_below_one(self, weights: Path, tmp_path: Path, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError):
            open_local(str(weights), directory=tmp_path, **wrong)
        with pytest.raises(InvalidInputError):
            LocalServer.start(weights, **wrong)


def test_without_xllamacpp_the_extra_is_named(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    for call in (lambda: open_local(str(weights), directory=tmp_path), lambda: LocalServer.start(weights)):
        with pytest.raises(MissingExtraError, match="xllamacpp") as caught:
            call()
        assert caught.value.hint == "pip install 'backread[local]'"


@pytest.mark.parametrize(("name", "penalty"), [("qwen-1.5b", 1.1), ("smollm2", 1.0), ("org/repo/file.gguf", 1.0)])
def test_a_model_that_repeats_itself_is_kept_from_it(name: str, penalty: float, tmp_path: Path) -> None:
    assert open_local(name, directory=tmp_path, check=False).repeat_penalty == penalty


def test_every_chat_model_says_what_it_is_good_for() -> None:
    chat = [spec for spec in MODELS.values() if spec.kind == "chat"]
    assert chat
    for spec in chat:
        assert spec.good_for
    assert "protocol only" in MODELS["smollm2"].good_for


@pytest.mark.integration
@pytest.mark.enable_socket
@pytest.mark.usefixtures("pretended")
class TestServer:
    @pytest.fixture
    def chat(self, weights: Path) -> Iterator[LocalChat]:
        chat = LocalChat("local:tiny", weights, threads=2, context=512, repeat_penalty=1.1)
        yield chat
        chat.close()

    def test_starts_at_the_first_call_with_what_was_asked(self, chat: LocalChat) -> None:
        assert ask(chat) == "512 2 127.0.0.1 False 1.1"
        reply = chat.complete([ChatMessage("user", "?")], purpose="judge", max_tokens=5)
        assert (reply.usage.model, reply.usage.purpose, reply.usage.input_tokens) == ("local:tiny", "judge", 9)

    def test_a_closed_chat_starts_again_when_asked(self, chat: LocalChat) -> None:
        ask(chat)
        chat.close()
        chat.close()
        assert ask(chat)

    def test_calls_wait_for_their_turn_here_where_it_does_not_count_as_time_of_the_call(self, tmp_path: Path) -> None:
        path = gguf(tmp_path / "x.gguf", "count")
        chats = [LocalChat("local:x", path), LocalChat("local:y", path)]  # two roles, one server
        try:
            with ThreadPoolExecutor(8) as pool:
                said = list(pool.map(ask, chats * 4))
        finally:
            for chat in chats:
                chat.close()
        assert said == ["1 at a time"] * 8

    def test_no_proxy_of_the_environment_is_asked(self, chat: LocalChat, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        assert ask(chat)

    def test_one_server_for_the_same_settings_until_the_last_closes(self, weights: Path) -> None:
        first, second = LocalServer.start(weights), LocalServer.start(weights)
        other = LocalServer.start(weights, context=256)
        assert first.base_url == second.base_url != other.base_url
        first.close()
        assert not first.running
        assert second.healthy()
        second.close()
        other.close()
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(f"{second.base_url}/health", timeout=5)

    @pytest.mark.parametrize(
        ("mode", "message"),
        [
            ("refuse", "Failed to init server"),
            ("die", "ended with 7"),
            ("ill", "503"),
            ("hang", "not ready in 2 seconds"),
        ],
    )
    def test_a_server_that_does_not_come_is_an_error_and_no_process(
        self, tmp_path: Path, mode: str, message: str
    ) -> None:
        with pytest.raises(ModelNotAvailableError, match=message):
            LocalServer.start(gguf(tmp_path / "x.gguf", mode), seconds=2 if mode == "hang" else 20)
        assert not _children_of(os.getpid())

    @pytest.mark.parametrize(
        ("code", "message"),
        [("raise ImportError('built for another machine')", "another machine"), ("", "another version is needed")],
    )
    def test_an_xllamacpp_that_cannot_be_used(self, weights: Path, tmp_path: Path, code: str, message: str) -> None:
        (tmp_path / "site" / "xllamacpp.py").write_text(code, encoding="utf-8")
        with pytest.raises(MissingExtraError, match=message):
            LocalServer.start(weights)

    def test_a_server_that_ends_at_work_is_named_and_started_again(self, tmp_path: Path) -> None:
        chat = LocalChat("local:x", gguf(tmp_path / "x.gguf", "crash"))
        try:
            for _ in range(2):
                with pytest.raises(ModelNotAvailableError, match="local:x: the server ended while it worked"):
                    ask(chat)
        finally:
            chat.close()

    @pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
    @pytest.mark.parametrize("end", ["returns", "raises", "killed", "interrupted", "forks"])
    def test_it_ends_with_the_process_that_started_it(self, weights: Path, end: str) -> None:
        code = f"""
            import os, sys, time
            from pathlib import Path
            from backread.models.local import LocalServer
            server = LocalServer.start(Path({str(weights)!r}))
            if {end!r} == "forks" and os.fork() == 0:
                sys.exit(0)  # a fork leaves the server alone
            if {end!r} == "forks":
                os.wait()
                assert server.healthy()
            print(server.base_url, flush=True)
            if {end!r} == "raises":
                raise SystemExit(3)
            if {end!r} in ("killed", "interrupted"):
                time.sleep(60)
        """
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        if end in ("killed", "interrupted"):
            process.send_signal(signal.SIGKILL if end == "killed" else signal.SIGINT)
        process.wait()
        process.stdout.close()
        deadline = time.monotonic() + 10
        while _answers(url) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not _answers(url)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as response:
            return bool(json.load(response))
    except OSError:
        return False


def _children_of(pid: int) -> list[str]:
    """Serving processes below a process, by /proc; nothing where there is none."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = path.read_text("utf-8").rpartition(")")[2].split()[1]
            command = (path.parent / "cmdline").read_text("utf-8")
        except OSError:
            continue
        if parent == str(pid) and "backread.models.serving" in command:
            found.append(command)
    return found
