"""A real server with a real model, the smallest: SmolLM2 on xllamacpp. Skipped, with the reason, without them."""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
import textwrap
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from backread.errors import ModelError
from backread.models.base import ChatMessage
from backread.models.fetch import MODELS, find, models_dir
from backread.models.local import LocalChat, LocalServer, open_local
from backread.models.openai import OpenAIChat

DIRECTORY = models_dir()  # read before tests get an environment of their own


def _missing() -> str | None:
    if importlib.util.find_spec("xllamacpp") is None:
        return "xllamacpp is not installed: pip install 'backread[local]'"
    if not all((DIRECTORY / "smollm2" / file.name).is_file() for file in MODELS["smollm2"].files):
        return f"no SmolLM2 weights in {DIRECTORY}: run `backread models fetch smollm2`"
    return None


pytestmark = [
    pytest.mark.integration,
    pytest.mark.enable_socket,
    pytest.mark.timeout(90),
    pytest.mark.skipif(_missing() is not None, reason=str(_missing())),
]

SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"enum": ["yes", "no"]}, "because": {"type": "string", "maxLength": 40}},
    "required": ["verdict", "because"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def chat() -> Iterator[LocalChat]:
    chat = open_local("local:smollm2", directory=DIRECTORY, context=1024)
    yield chat
    chat.close()


def _get(server: LocalServer | OpenAIChat, path: str, key: str | None) -> tuple[int, dict[str, Any]]:
    address = server.base_url.removesuffix("/v1") + path
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {}


def test_a_reply_with_usage(chat: LocalChat) -> None:
    question = [ChatMessage("system", "Answer in one word."), ChatMessage("user", "What is the capital of France?")]
    reply = chat.complete(question, purpose="answer", max_tokens=16)
    assert "Paris" in reply.text
    assert reply.finish_reason in ("stop", "length")
    assert (reply.usage.model, reply.usage.purpose) == ("local:smollm2", "answer")
    assert 10 < (reply.usage.input_tokens or 0) < 60
    assert 1 <= (reply.usage.output_tokens or 0) <= 16
    again = chat.complete(question, purpose="answer", max_tokens=16)
    assert again.text == reply.text
    assert (again.usage.cache_read_tokens or 0) > 0


def test_a_stream_tells_the_same_words(chat: LocalChat) -> None:
    pieces: list[str] = []
    question = [ChatMessage("user", "Count from one to three.")]
    reply = chat.stream(question, pieces.append, purpose="answer", max_tokens=12)
    assert "".join(pieces).strip() == reply.text.strip()
    assert len(pieces) > 1


def test_a_reply_by_a_schema_is_valid(chat: LocalChat) -> None:
    question = [ChatMessage("user", "Is snow cold? Give verdict and because as JSON.")]
    reply = chat.complete(question, purpose="judge", max_tokens=120, schema=SCHEMA)
    assert reply.finish_reason == "stop"
    found = json.loads(reply.text)
    assert set(found) == {"verdict", "because"}
    assert found["verdict"] in ("yes", "no")
    assert len(found["because"]) <= 40


def test_a_prompt_above_the_window_is_an_error_and_the_next_is_answered(chat: LocalChat) -> None:
    with pytest.raises(ModelError, match="1024"):
        chat.complete([ChatMessage("user", "word " * 3000)], purpose="answer", max_tokens=8)
    assert chat.complete([ChatMessage("user", "Say yes.")], purpose="answer", max_tokens=4).text


def test_it_says_its_window_and_only_to_those_with_the_key(chat: LocalChat) -> None:
    client = chat.client()
    assert client.window() == chat.window() == 1024
    assert _get(client, "/health", None) == (200, {"status": "ok"})
    for path in ("/props", "/v1/models"):
        assert _get(client, path, None)[0] == 401
    assert _get(client, "/slots", "guessed")[0] == 401


def test_two_at_once_are_answered_one_after_another(chat: LocalChat) -> None:
    question = [ChatMessage("user", "Say hello.")]
    with ThreadPoolExecutor(2) as pool:
        replies = list(pool.map(lambda _: chat.complete(question, purpose="answer", max_tokens=6), range(2)))
    assert replies[0].text == replies[1].text


def test_clients_share_a_server_and_the_last_frees_the_port(chat: LocalChat) -> None:
    first = open_local("smollm2", directory=DIRECTORY, context=512)
    second = open_local("smollm2", directory=DIRECTORY, context=512)
    try:
        address = first.client().base_url
        assert second.client().base_url == address
        assert chat.client().base_url != address  # another context is another server
        first.close()
        assert second.complete([ChatMessage("user", "Hi")], purpose="answer", max_tokens=2).text
    finally:
        first.close()
        second.close()
    port = urllib.parse.urlsplit(address).port
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))


def test_another_process_has_a_server_of_its_own(chat: LocalChat) -> None:
    code = f"""
        from pathlib import Path
        from backread.models.local import open_local
        chat = open_local("smollm2", directory=Path({str(DIRECTORY)!r}), context=1024)
        print(chat.client().base_url)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("http://127.0.0.1:")
    assert done.stdout.strip() != chat.client().base_url
    assert done.stderr == ""
    assert chat.client().window() == 1024


def test_a_file_that_is_cut_off_is_an_error(tmp_path: Path) -> None:
    folder = find("smollm2", DIRECTORY)
    assert folder is not None
    with (folder / MODELS["smollm2"].files[0].name).open("rb") as whole:
        (tmp_path / "cut.gguf").write_bytes(whole.read(20_000_000))
    with pytest.raises(ModelError, match=r"cut\.gguf"):
        LocalServer.start(tmp_path / "cut.gguf")
