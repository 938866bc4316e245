"""No key shows anywhere: secrets are set in every place that takes one, and everything that says anything is read.

Endpoints repeat all they were sent, as some do, in every way an answer can fail.
"""

from __future__ import annotations

import base64
import copy
import dataclasses
import http.server
import json
import logging
import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from mcp_samples import Mcp
from rest_samples import rest, users_path
from starlette.testclient import TestClient
from typer.testing import CliRunner
from web_samples import browser

from backread import Memory
from backread.cli import app
from backread.errors import BackreadError
from backread.models.base import ChatMessage
from backread.models.embedders import open_embedder
from backread.models.openai import OpenAIChat
from backread.models.rerankers import open_reranker
from backread.models.sources import probe
from backread.secret import Access, Address, Secret, shown_url
from backread.server.app import create_app
from backread.server.keys import parse_keys
from backread.server.proxy import proxy_router
from backread.server.upstream import Upstream
from backread.settings import ENVIRONMENT, Settings, resolve

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(120)]

USER, PASSWORD = "canary-user-5d1", "canary/pass+word 8e2"
PARTS = ("", "embedder_", "reranker_")
MODES = ("401", "501", "redirect", "inside", "text", "nobody")
"""How an endpoint fails: an error status, leading elsewhere, an error or no JSON in a 200, and nothing that listens."""


def leaks(text: str) -> list[str]:
    """What of a secret is in a text, in the forms that servers and clients write it in."""
    basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    forms = ("canary", "CANARY", basic, basic.rstrip("="), base64.b64encode(b"canary").decode()[:7])
    return [form for form in forms if form in text]


class Echo(http.server.BaseHTTPRequestHandler):
    """Repeats whatever it was sent: path, parameters and headers."""

    mode = "401"
    seen: list[str]

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        said = f"{self.path} {list(self.headers.values())}"
        type(self).seen.append(said)
        status = {"401": 401, "501": 501, "redirect": 302}.get(self.mode, 200)
        body = said if self.mode == "text" else json.dumps({"error": {"message": said, "code": said, "type": said}})
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if self.mode == "text" else "application/json")
        self.send_header("X-Seen", self.headers.get("Authorization", ""))
        self.send_header("Location", f"http://127.0.0.1:9{self.path}")
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET = do_POST

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def echo(mode: str) -> Iterator[tuple[str, list[str]]]:
    """An endpoint that repeats what it is sent, as host and port; and what it was sent."""
    seen: list[str] = []
    handler = type("Handler", (Echo,), {"mode": mode, "seen": seen})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        host = f"127.0.0.1:{server.server_port}"
        if mode == "nobody":
            host = "127.0.0.1:9"
        try:
            yield host, seen
        finally:
            server.shutdown()
            thread.join()


def secrets_at(host: str, *, signed: bool) -> dict[str, str]:
    """Every setting that may hold a secret, each with one of its own, for endpoints at `host`."""
    given = {"model": "m", "embedder": "openai:m@4", "reranker": "cohere:m"}
    user = f"{USER}:{quote(PASSWORD, safe='')}@" if signed else ""
    for part in PARTS:
        given[f"{part}api_key"] = f"canary-{part}key-3c7"
        given[f"{part}base_url"] = f"http://{user}{host}/v1?token=canary-{part}query%2F9a1&canary-{part}name"
    return given


def from_file(given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    path = tmp_path / "config.toml"
    path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items()), encoding="utf-8")
    monkeypatch.setenv("BACKREAD_CONFIG", str(path))
    return resolve()


def from_environment(given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in given.items():
        monkeypatch.setenv(ENVIRONMENT[name], value)
    return resolve()


def from_arguments(given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    settings: Any = Settings
    return dataclasses.replace(resolve(), **dataclasses.asdict(settings(**given)))


PLACES = (from_file, from_environment, from_arguments)


@pytest.fixture(autouse=True)
def _all_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("httpx2", "httpcore2", "openai", "backread"):
        caplog.set_level(logging.DEBUG, name)


def failure(call: Callable[[], object]) -> str:
    """Everything an error says, with its causes; of a call that must fail."""
    with pytest.raises(BackreadError) as caught:
        call()
    error = caught.value
    told = [str(error), repr(error), str(error.hint), repr(error.args), repr(vars(error))]
    return "\n".join([*told, *traceback.format_exception(error)])


@pytest.mark.parametrize("place", PLACES)
def test_settings_and_what_is_made_of_them_can_be_printed(
    place: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = place(secrets_at("host.example:81", signed=True), tmp_path, monkeypatch)
    assert settings.api_key is not None
    assert settings.api_key.reveal() == "canary-key-3c7"
    assert settings.base_url is not None
    assert urlsplit(settings.base_url.reveal()).username == USER
    with Memory.open(settings=settings) as memory:
        made = [settings, memory, memory.settings, memory.embedder, memory.chat, Upstream.at("http://u:canary@h")]
        values = [getattr(settings, item.name) for item in dataclasses.fields(settings)]
        for thing in (*made, *values, dataclasses.asdict(settings), copy.deepcopy(settings)):
            for text in (str(thing), repr(thing), f"{thing}", f"{thing!s:>40}", json.dumps([thing], default=str)):
                assert not leaks(text)
    with pytest.raises(TypeError):
        pickle.dumps(settings)
    assert str(settings.base_url) == "http://host.example:81/v1"


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("mode", [*MODES, "500"])
def test_what_models_say(mode: str, signed: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with echo(mode) as (host, seen):
        given = secrets_at(host, signed=signed)
        chat = OpenAIChat("m", base_url=given["base_url"], api_key=given["api_key"])
        embedder = open_embedder("openai:m@4", directory=tmp_path, base_url=given["base_url"], api_key="canary-4")
        reranker = open_reranker("cohere:m", directory=tmp_path, base_url=given["base_url"], api_key="canary-5")
        asked = [ChatMessage("user", "hello")]
        index = f"http://{USER}:canary@127.0.0.1:9/x?token=canary"
        chat.window()
        told = [
            failure(lambda: chat.complete(asked, purpose="answer", max_tokens=5)),
            failure(lambda: chat.stream(asked, lambda _: None, purpose="answer", max_tokens=5)),
            failure(lambda: embedder.embed(["a kettle"])),
            failure(lambda: reranker.rerank("kettle", ["a kettle"])),
            *(part.fingerprint for part in (embedder, reranker)),
            chat.base_url,
            failure(lambda: probe(index)),
            *caplog.messages,
        ]
        chat.close()
        assert [leaks(text) for text in told if leaks(text)] == []
        if mode != "nobody":
            assert len(seen) >= 4
            assert all("canary" in said for said in seen)
            assert all("Basic" in said if signed else "Bearer" in said for said in seen)


@pytest.fixture(params=["401", "inside", "nobody"])
def endpoint(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Endpoints of all parts in the environment, and a store with a turn."""
    with Memory.open(embedder="none") as memory:
        memory.add({"role": "user", "content": "The kettle is red."}, user_id="ann", session_id="s1")
    with echo(request.param) as (host, _):
        for name, value in secrets_at(host, signed=True).items():
            monkeypatch.setenv(ENVIRONMENT[name], value)
        monkeypatch.setenv("BACKREAD_UPSTREAM_KEY", "canary-upstream-key")
        monkeypatch.setenv("BACKREAD_UPSTREAM", f"http://{USER}:canary-up@{host}/v1?canary=1")
        yield host


COMMANDS = (
    "doctor",
    "doctor --json",
    "search --user ann kettle",
    "search --user ann --mode dense kettle",
    "search --user ann --mode bm25 kettle --json",
    "recall --user ann kettle --json",
    "ask --user ann kettle",
    "ask --user ann kettle --json",
    "ask --user ann kettle --strategy t2mem",
    "build --user ann --strategy leanmem",
    "build --user ann --strategy lightmem --json",
    "entries --user ann --strategy leanmem",
    "add --user ann another",
    "users",
    "sessions --user ann",
    "stats --json",
    "verify",
    "reindex",
    "export --user ann",
    "models list",
    "bench run trips.toml --dry-run",
    "bench run trips.toml --out out",
    "bench report out",
    "serve",
    "--help",
    "serve --help",
    "doctor --help",
)


def test_the_command_line(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("trips.toml").write_text(SPEC, encoding="utf-8")
    Path("q.jsonl").write_text(
        json.dumps({"question": "what?", "answer": "red", "gold_turns": ["m1"]}), encoding="utf-8"
    )
    turn = {"id": "m1", "role": "user", "content": "The kettle is red.", "user_id": "ann", "session_id": "s"}
    Path("h.jsonl").write_text(json.dumps(turn), encoding="utf-8")
    found = {}
    for command in COMMANDS:
        result = CliRunner().invoke(app, command.split())
        if leaks(result.stdout + result.stderr):
            found[command] = result.stdout + result.stderr
        assert not isinstance(result.exception, AssertionError | TypeError | AttributeError)
    assert found == {}
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in written if leaks(path.read_bytes().decode("latin-1"))] == []


SPEC = """
name = "trips"
[dataset]
format = "jsonl"
path = "h.jsonl"
questions = "q.jsonl"
[models]
answer = "m"
[[designs]]
strategy = "naive_rag"
retrievers = ["bm25"]
budgets = [60]
"""


@pytest.mark.parametrize("endpoint", ["401", "redirect"], indirect=True)
def test_tracebacks_and_logs_of_the_command_line(endpoint: str) -> None:
    command = [sys.executable, "-m", "backread", "--debug", "ask", "--user", "ann", "kettle"]
    done = subprocess.run(command, env=os.environ | {"BACKREAD_RERANKER": ""}, capture_output=True, timeout=100)
    assert done.returncode == 5
    assert b"Traceback" in done.stderr
    assert b"httpx2" in done.stderr
    assert leaks((done.stdout + done.stderr).decode()) == []


def test_rest_the_page_and_tools(endpoint: str, caplog: pytest.LogCaptureFixture) -> None:
    keys = parse_keys({"keys": [{"sha256": "0" * 64, "admin": True}]}, "canary-less")
    with Memory.open() as memory:
        told = [repr(keys), str(vars(keys))]
        with rest(memory) as api:
            for method, path, body in (
                ("POST", users_path("ann", "search"), {"query": "kettle"}),
                ("POST", users_path("ann", "search"), {"query": "kettle", "mode": "dense"}),
                ("POST", users_path("ann", "recall"), {"question": "kettle"}),
                ("POST", users_path("ann", "ask"), {"question": "kettle"}),
                ("POST", users_path("ann", "builds"), {"strategy": "leanmem"}),
                ("GET", users_path("ann", "builds"), None),
                ("GET", "/v1/stats", None),
                ("GET", "/metrics", None),
                ("GET", "/healthz", None),
                ("GET", "/readyz", None),
                ("GET", "/v1/openapi.json", None),
            ):
                answer = api.send(method, path, body)
                told += [answer.text, repr(answer.headers)]
            streamed = api.send("POST", users_path("ann", "ask"), {"question": "kettle"}, accept="text/event-stream")
            told.append(streamed.text)
        with browser(memory) as page:
            for path in ("/", "/ui/settings", "/ui/users/ann", "/ui/users/ann/search?query=kettle"):
                told.append(page.client.get(path).text)
            sent = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
            told.append(page.client.post("/ui/users/ann/ask", content="question=kettle", headers=sent).text)
        tools = Mcp(memory)
        for name, arguments in (
            ("search_memories", {"query": "kettle"}),
            ("recall", {"question": "kettle"}),
            ("ask", {"question": "kettle"}),
        ):
            told.append(repr(tools.call(name, **arguments)))
    assert any("http://127.0.0.1" in text for text in told)  # failures do say where
    assert [leaks(text) for text in [*told, *caplog.messages] if leaks(text)] == []


@pytest.mark.parametrize("userinfo", ["", f"{USER}:{quote(PASSWORD, safe='')}@"], ids=["key", "signed"])
@pytest.mark.parametrize("mode", MODES)
def test_the_proxy(mode: str, userinfo: str, caplog: pytest.LogCaptureFixture) -> None:
    with echo(mode) as (host, seen), Memory.open(embedder="none") as memory:
        upstream = Upstream.at(f"http://{userinfo}{host}/v1", api_key="canary-upstream-key")
        served = create_app(memory)
        served.include_router(proxy_router(upstream, keyed=False, user_id="ann"))
        with TestClient(served, base_url="http://127.0.0.1", follow_redirects=False) as client:
            body = {"model": "m", "messages": [{"role": "user", "content": "kettle"}]}
            answers = [client.get("/v1/models"), client.post("/v1/chat/completions", json=body)]
            answers.append(client.post("/v1/chat/completions", json=body | {"stream": True}))
    told = [repr(upstream), *(text for answer in answers for text in (answer.text, repr(answer.headers.raw)))]
    assert [leaks(text) for text in [*told, *caplog.messages] if leaks(text)] == []
    if mode != "nobody":
        assert all(leaks(said) for said in seen)
        assert len(seen) == 3


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host/v1", "http://host/v1"),
        ("https://u:canary@host:8/v1/?key=canary#canary", "https://host:8/v1/"),
        ("http://u:canary@[::1]:8", "http://[::1]:8"),
        ("host:80", "host:80"),
        ("u:canary@host", "***"),
        ("http://u:canary/x@host", "***"),
        ("http://canary/x@host/y", "http://canary/***"),
        ("http://[canary", "***"),
        ("http://h:canary", "***"),
        ("http://u:p?canary@host", "***"),
        ("", ""),
    ],
)
def test_addresses_are_shown_without_what_may_be_a_key(url: str, shown: str) -> None:
    assert shown_url(url) == str(Address(url)) == shown


def test_a_secret_is_a_value() -> None:
    one, other = Secret("sk-1"), Secret("sk-1")
    assert one == other != Secret("sk-2")
    assert hash(one) == hash(other)
    assert one != "sk-1"
    assert (bool(one), bool(Secret(""))) == (True, False)
    assert f"{one:>5}|{one!r}|{one}" == "  ***|Secret('***')|***"


def test_what_was_sent_is_taken_out_of_what_comes_back_in_every_form() -> None:
    access = Access("http://me:p%2Fss%20word@host/v1?a=x%2Fyz1", "sk-12345\n")
    assert access.headers == {"Authorization": "Basic bWU6cC9zcyB3b3Jk"}
    assert access.params == {"a": "x/yz1"}
    said = {"m": ["bWU6cC9zcyB3b3Jk", "p/ss word", "p%2Fss%20word", b"sk-12345", 7], "sk-12345": None}
    assert access.cleaned(said) == {"m": ["***", "***", "***", b"***", 7], "***": None}
    assert Access("http://host", "abc").cleaned("abc") == "abc"  # too short to be told from a word
