"""xllamacpp's OpenAI-compatible server for a GGUF file, on loopback, in a child process.

    with LocalServer.start(Path("model.gguf")) as server:
        OpenAIChat("model", base_url=server.base_url, api_key=server.api_key)

The child ends with this process, whatever ends it: see `backread.models.serving`.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from backread.errors import InvalidInputError, MissingExtraError, ModelNotAvailableError

__all__ = ["CONTEXT", "LocalServer", "check_gguf", "need_xllamacpp"]

CONTEXT = 4096
"""Tokens of prompt and reply together, unless said otherwise."""

START_SECONDS = 120.0
INSTALL = "pip install 'backread[local]'"
_MAGIC = b"GGUF"

_Key = tuple[str, int, int, int, int, float]


@dataclass(eq=False)
class _Child:
    """A running server process, how many `LocalServer` objects use it, and the lock of the call it answers."""

    process: subprocess.Popen[bytes]
    address: str
    api_key: str
    owner: int = field(default_factory=os.getpid)
    turn: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0

    @property
    def alive(self) -> bool:
        return self.owner == os.getpid() and self.process.poll() is None

    def stop(self) -> None:
        """End it and wait until it is gone; a request in progress is given up."""
        if self.owner != os.getpid():
            return  # a fork of the process that started it
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


_children: dict[_Key, _Child] = {}
_lock = threading.Lock()


class LocalServer:
    """xllamacpp's server for one GGUF file, on 127.0.0.1 and a free port. Made by `start`.

    Attributes:
        gguf: the file.
        threads, context: as asked for.
        base_url: where it listens, without "/v1"; speaks OpenAI's API, and /health, /props and /tokenize.
        api_key: made anew for every server; without it only /health answers.
        turn: hold it for a call. The server answers one at a time, and calls that wait there would run out of time.
    """

    def __init__(self, gguf: Path, threads: int, context: int, child: _Child, key: _Key) -> None:
        self.gguf, self.threads, self.context = gguf, threads, context
        self.base_url, self.api_key, self.turn = child.address, child.api_key, child.turn
        self._child: _Child | None = child
        self._key = key

    @classmethod
    def start(
        cls,
        gguf: Path,
        *,
        threads: int = 1,
        context: int = CONTEXT,
        repeat_penalty: float = 1.0,
        seconds: float = START_SECONDS,
    ) -> LocalServer:
        """A server that has loaded the file and answers; the one that runs already, when this process has one.

        Args:
            gguf: the weights.
            threads: of computation. More than one on a machine that is busy makes it many times slower.
            context: tokens of prompt and reply together; the memory it takes grows with it.
            repeat_penalty: what tokens among the last 256 are divided by; 1 is none.
            seconds: to load and answer.

        Raises:
            MissingExtraError: xllamacpp is not installed, or not usable.
            ModelNotAvailableError: no such file, not a GGUF, too little memory, or not ready in time.
            InvalidInputError: `threads` or `context` below 1.
        """
        if threads < 1 or context < 1:
            raise InvalidInputError(f"threads and context are 1 or more, not {threads} and {context}")
        check_gguf(gguf)
        need_xllamacpp()
        status = gguf.stat()
        key = (str(gguf.resolve()), status.st_size, status.st_mtime_ns, threads, context, repeat_penalty)
        with _lock:
            child = _children.get(key)
            if child is None or not child.alive:
                if not _children:
                    atexit.unregister(_stop_all)
                    atexit.register(_stop_all)
                child = _spawn(gguf, threads, context, repeat_penalty, seconds)
                _children[key] = child
            child.users += 1
        return cls(gguf, threads, context, child, key)

    @property
    def running(self) -> bool:
        """False after `close` and when the process has ended."""
        return self._child is not None and self._child.alive

    def healthy(self, seconds: float = 5.0) -> bool:
        """True when it runs and says so itself."""
        return self.running and _health(self.base_url, seconds) is None

    def close(self) -> None:
        """Stop using it; it ends with the last that does, and its port is free then. Closing twice is fine."""
        with _lock:
            child, self._child = self._child, None
            if child is None:
                return
            child.users -= 1
            if child.users <= 0:
                if _children.get(self._key) is child:
                    del _children[self._key]
                child.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def need_xllamacpp() -> None:
    """Raise MissingExtraError when xllamacpp is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtraError("a local chat model needs xllamacpp, which is not installed", hint=INSTALL)


def check_gguf(path: Path) -> None:
    """Raise ModelNotAvailableError unless the file can be read and begins like a GGUF."""
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ModelNotAvailableError(f"{path} can't be read: {error.strerror}") from error
    if magic != _MAGIC:
        raise ModelNotAvailableError(f"{path} is not a GGUF file", hint="weights in another format must be converted")


def _spawn(gguf: Path, threads: int, context: int, repeat_penalty: float, seconds: float) -> _Child:
    """A server process that answers."""
    api_key = secrets.token_urlsafe(24)
    wanted = {
        "path": str(gguf.resolve()),
        "threads": threads,
        "context": context,
        "repeat_penalty": repeat_penalty,
        "api_key": api_key,
    }
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "backread.models.serving"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        child = _Child(process, "", api_key)
        try:
            said = _said(process, json.dumps(wanted).encode() + b"\n", seconds)
            if "missing" in said:
                raise MissingExtraError(f"xllamacpp can't be used: {said['missing']}", hint=INSTALL)
            reason = said.get("error") or _health(said["address"], seconds)
            if reason:
                raise ModelNotAvailableError(
                    f"no server for {gguf} with a context of {context}: {reason}{_last(log)}",
                    hint="too little memory, or a file this xllamacpp doesn't know; try a smaller context or update it",
                )
        except BaseException:  # KeyboardInterrupt too: no process is left behind
            child.stop()
            raise
    child.address = said["address"]
    return child


def _said(process: subprocess.Popen[bytes], line: bytes, seconds: float) -> dict[str, str]:
    """What the process answers to its first line; an error of its own when it doesn't in time."""
    assert process.stdin is not None
    assert process.stdout is not None
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        process.stdin.write(line)
        process.stdin.flush()
        answer = process.stdout.readline()
        said: dict[str, str] = json.loads(answer)
    except (OSError, ValueError):
        late = timer.finished.is_set()
        said = {"error": f"not ready in {seconds:g} seconds" if late else f"the process ended with {process.wait()}"}
    finally:
        timer.cancel()
    return said


def _last(log: IO[bytes]) -> str:
    """The end of what the native code wrote, in one line."""
    log.seek(0)
    text = " ".join(log.read().decode("utf-8", "replace").split())[-300:]
    return f" ({text})" if text else ""


def _health(base_url: str, seconds: float) -> str | None:
    """None when the server says it is ready, else what is wrong. No proxy is asked: this is loopback."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{base_url}/health", timeout=seconds):
            return None
    except (OSError, ValueError) as error:
        return f"/health: {error}"


def _stop_all() -> None:
    """At exit: end every server of this process."""
    with _lock:
        children = list(_children.values())
        _children.clear()
    for child in children:
        child.stop()
