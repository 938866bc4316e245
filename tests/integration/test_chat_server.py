"""Chat models over real connections to a server on loopback that does what a script says."""

from __future__ import annotations

import http.server
import io
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from backread.errors import ModelNotAvailableError, ModelRequestError
from backread.models.base import ChatMessage
from backread.models.chats import open_roles
from backread.models.openai import OpenAIChat
from backread.models.wrappers import MeteredChat, RetryingChat
from backread.settings import resolve
from backread.types import Usage

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket]

ASKED = [ChatMessage("user", "What bites strangers?")]
ANSWER = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Zuzu."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 2},
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers a request with the next step of the server's script; the last one is repeated."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.path, json.loads(body) if body else None))
        script = self.server.script
        step = script.pop(0) if len(script) > 1 else script[0]
        step(self)

    def reply(self, status: int, body: object, **headers: str) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def lines(self, *lines: str, end: bool = True) -> None:
        """Chunks of a stream; without `end` the connection breaks after them."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            data = f"{line}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        if end:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = not end

    def reset(self) -> None:
        """Close the connection the hard way, without an answer."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True
        self.rfile = self.wfile = io.BytesIO()  # what the base class flushes

    def hang(self) -> None:
        self.server.ended.wait(20)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


Step = Callable[[Handler], None]


class Server(http.server.ThreadingHTTPServer):
    """A server with a script; `seen` has path and body of every request."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Step] = [ok]
        self.seen: list[tuple[str, Any]] = []
        self.ended = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


def ok(handler: Handler) -> None:
    handler.reply(200, ANSWER)


def serving() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.ended.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    yield from serving()


@pytest.fixture
def trap() -> Iterator[Server]:
    yield from serving()


@pytest.fixture
def chat(server: Server) -> Iterator[OpenAIChat]:
    chat = OpenAIChat("m", base_url=server.url, timeout=5)
    yield chat
    chat.close()


def ask(chat: OpenAIChat | RetryingChat) -> str:
    return chat.complete(ASKED, purpose="answer", max_tokens=20).text


def test_a_closed_client_opens_again_and_a_closed_server_is_not_available(chat: OpenAIChat, server: Server) -> None:
    assert ask(chat) == "Zuzu."
    chat.close()
    assert ask(chat) == "Zuzu."
    assert [path for path, _ in server.seen] == ["/v1/chat/completions"] * 2
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    gone = OpenAIChat("m", base_url=f"http://127.0.0.1:{port}")
    with pytest.raises(ModelNotAvailableError) as caught:
        ask(gone)
    assert str(port) in (caught.value.hint or "")
    gone.close()


# LLM-07
def test_transient_failures_pass(chat: OpenAIChat, server: Server) -> None:
    server.script = [
        lambda handler: handler.reply(429, {"error": {"message": "slow down"}}, Retry_After="2"),
        lambda handler: handler.reply(503, {}),
        Handler.reset,
        ok,
    ]
    waits: list[float] = []
    meter: list[Usage] = []
    retrying = RetryingChat(MeteredChat(chat, meter), sleep=waits.append, chance=lambda: 1.0)
    assert ask(retrying) == "Zuzu."
    assert waits == [2.0, 1.0, 2.0]
    assert [usage.output_tokens for usage in meter] == [0, None, None, 2]


# LLM-07
def test_no_answer_in_time(server: Server) -> None:
    server.script = [Handler.hang]
    chat = OpenAIChat("m", base_url=server.url, timeout=0.2)
    with pytest.raises(ModelRequestError, match=r"no answer within 0\.2 seconds") as caught:
        ask(chat)
    assert caught.value.retryable
    chat.close()


# LLM-05
def test_a_stream_comes_in_pieces_and_may_break(chat: OpenAIChat, server: Server) -> None:
    lines = [
        'data: {"choices":[{"delta":{"content":"Zu"}}]}',
        ": keep-alive",
        'data: {"choices":[{"delta":{"content":"zu."},"finish_reason":"stop"}]}',
        'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}',
    ]
    server.script = [
        lambda handler: handler.lines(*lines, "data: [DONE]"),
        lambda handler: handler.lines(lines[0], end=False),
        ok,
    ]
    pieces: list[str] = []
    reply = chat.stream(ASKED, pieces.append, purpose="answer", max_tokens=20)
    assert (reply.text, pieces, reply.usage.output_tokens) == ("Zuzu.", ["Zu", "zu."], 2)
    with pytest.raises(ModelRequestError, match="the connection broke") as caught:
        chat.stream(ASKED, pieces.append, purpose="answer", max_tokens=20)
    assert caught.value.retryable
    assert ask(chat) == "Zuzu."  # the broken connection is not used again


# CFG-01
def test_nothing_else_is_contacted(server: Server, trap: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, trap.url)
    monkeypatch.setenv("OPENAI_API_KEY", "dummy")
    roles = open_roles(resolve({"BACKREAD_MODEL": "local-a", "OPENAI_BASE_URL": f"{server.url}/v1"}))
    assert isinstance(roles.answer, OpenAIChat)
    assert ask(roles.answer) == "Zuzu."
    assert roles.answer.window() is None
    roles.close()
    assert trap.seen == []
    assert server.seen[0][0] == "/v1/chat/completions"


def test_a_redirect_goes_nowhere(chat: OpenAIChat, server: Server, trap: Server) -> None:
    server.script = [lambda handler: handler.reply(307, {}, Location=f"{trap.url}/v1/chat/completions")]
    with pytest.raises(ModelRequestError, match="HTTP 307"):
        ask(chat)
    assert trap.seen == []
