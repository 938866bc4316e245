"""The official client over a mock transport: what goes out, and what each answer becomes."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from backread.errors import ModelNotAvailableError, ModelOutputError, ModelRequestError
from backread.models.base import ChatMessage, ChatReply
from backread.models.openai import OpenAIChat

MESSAGES = [ChatMessage("system", "Be brief."), ChatMessage("user", "Où? 東京 🎉")]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def completion(**changes: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Here."}}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "served",
        "choices": [choice],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    } | changes


def choice(content: object, finish: str | None = "stop", **message: object) -> dict[str, Any]:
    return {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}


class Wire:
    """A chat model over a transport that keeps the requests and answers with what it is given."""

    def __init__(self, answer: Callable[[httpx2.Request], httpx2.Response], **options: Any) -> None:
        self.requests: list[httpx2.Request] = []

        def handle(request: httpx2.Request) -> httpx2.Response:
            self.requests.append(request)
            return answer(request)

        options = {"base_url": "http://server:8000"} | options
        self.chat = OpenAIChat("m", http_client=httpx2.Client(transport=httpx2.MockTransport(handle)), **options)

    def ask(self, **options: Any) -> ChatReply:
        arguments: dict[str, Any] = {"purpose": "answer", "max_tokens": 50} | options
        return self.chat.complete(MESSAGES, **arguments)


def answering(body: object, status: int = 200) -> Wire:
    return Wire(lambda request: httpx2.Response(status, json=body))


def test_the_request_body_is_exactly_this() -> None:
    wire = answering(completion())
    wire.ask()
    (request,) = wire.requests
    assert (request.method, str(request.url)) == ("POST", "http://server:8000/v1/chat/completions")
    assert json.loads(request.content) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Où? 東京 🎉"}],
        "max_tokens": 50,
        "temperature": 0.0,
    }


def test_a_schema_becomes_a_strict_response_format() -> None:
    wire = answering(completion())
    wire.ask(schema=SCHEMA, temperature=0.7)
    body = json.loads(wire.requests[0].content)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True},
    }
    assert body["temperature"] == 0.7


def test_openais_own_endpoint_gets_the_new_name_of_the_limit() -> None:
    wire = Wire(lambda request: httpx2.Response(200, json=completion()), base_url=None, api_key="k")
    wire.ask()
    body = json.loads(wire.requests[0].content)
    assert str(wire.requests[0].url) == "https://api.openai.com/v1/chat/completions"
    assert body["max_completion_tokens"] == 50
    assert "max_tokens" not in body


@pytest.mark.parametrize(
    ("given", "called"),
    [
        ("http://h", "http://h/v1"),
        ("http://h/", "http://h/v1"),
        ("http://h:11434/v1", "http://h:11434/v1"),
        ("http://h/v1/", "http://h/v1"),
        ("http://h/v1/chat/completions", "http://h/v1"),
        ("https://h/openai/v3", "https://h/openai/v3"),
        (" http://h ", "http://h/v1"),
    ],
)
def test_base_url_with_and_without_v1(given: str, called: str) -> None:
    assert OpenAIChat("m", base_url=given).base_url == called


def test_only_the_configured_key_and_address_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere/v1")
    wire = answering(completion())
    wire.ask()
    assert wire.requests[0].headers["Authorization"] == "Bearer none"
    assert wire.requests[0].url.host == "server"
    keyed = Wire(lambda request: httpx2.Response(200, json=completion()), api_key="mine")
    keyed.ask()
    assert keyed.requests[0].headers["Authorization"] == "Bearer mine"


def test_the_reply_and_its_usage() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 8},
    }
    reply = answering(completion(usage=usage)).ask(purpose="build")
    assert (reply.text, reply.finish_reason) == ("Here.", "stop")
    assert (reply.usage.purpose, reply.usage.model, reply.usage.calls) == ("build", "m", 1)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (100, 20)
    assert (reply.usage.cache_read_tokens, reply.usage.reasoning_tokens) == (64, 8)
    assert reply.usage.cost is None
    assert reply.usage.seconds is not None
    assert reply.usage.seconds >= 0


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": None}, {"prompt_tokens": "7", "completion_tokens": -1}, "many"]
)
def test_unknown_usage_is_none_not_zero(usage: object) -> None:
    reply = answering(completion(usage=usage)).ask()
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (None, None)
    assert (reply.usage.cache_read_tokens, reply.usage.reasoning_tokens) == (None, None)


def test_a_cut_reply_says_so() -> None:
    reply = answering(completion(choices=[choice("Once upon", "length")])).ask()
    assert (reply.text, reply.finish_reason) == ("Once upon", "length")
    assert answering(completion(choices=[choice("x", None)])).ask().finish_reason == "unknown"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (completion(choices=[]), "no choices"),
        (completion(choices=None), "no choices"),
        ({"error": {"message": "upstream is busy", "code": 502}}, "no choices: upstream is busy"),
        ({}, "no choices"),
        ([], "no choices"),
        (completion(choices=[choice(None)]), r"no text \(finish_reason stop"),
        (completion(choices=[choice(" \n", "length")]), r"no text \(finish_reason length"),
        (completion(choices=[choice(None, refusal="I can't help")]), r"refused: I can't help"),
        (completion(choices=[{"index": 0, "finish_reason": "stop"}]), "no text"),
        (completion(choices=[{"index": 0, "finish_reason": "stop", "message": None}]), "no text"),
        (completion(choices=[{}]), "no text"),
        (completion(choices=["text"]), "no text"),
        (completion(choices=[choice(["part"])]), "no text"),
    ],
)
def test_answers_without_text_are_output_errors(body: object, message: str) -> None:
    with pytest.raises(ModelOutputError, match=message) as caught:
        answering(body).ask()
    assert str(caught.value).startswith("m at http://server:8000/v1: ")


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"{not json", "application/json"), (b"<html>hello</html>", "text/html"), (b"", "application/json")],
)
def test_an_answer_that_is_not_json_is_an_output_error(content: bytes, kind: str) -> None:
    wire = Wire(lambda request: httpx2.Response(200, content=content, headers={"Content-Type": kind}))
    with pytest.raises(ModelOutputError):
        wire.ask()


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, {"error": {"message": "max_tokens is too large", "type": "x"}}, "HTTP 400: max_tokens is too large"),
        (401, {"error": {"message": "bad key"}}, "HTTP 401: bad key"),
        (404, {"error": "model 'm' not found"}, "HTTP 404: model 'm' not found"),
        (422, {"detail": "no such field"}, "HTTP 422: no such field"),
        (429, {"message": "slow down"}, "HTTP 429: slow down"),
        (500, {"error": {"message": "x" * 9000}}, "HTTP 500: x{500}…$"),
        (503, {}, "HTTP 503"),
    ],
)
def test_an_error_status_is_a_request_error_with_the_servers_words(status: int, body: object, message: str) -> None:
    wire = answering(body, status)
    with pytest.raises(ModelRequestError, match=message):
        wire.ask()
    assert len(wire.requests) == 1  # retrying is a wrapper's work


def test_an_error_page_is_a_request_error() -> None:
    wire = Wire(lambda request: httpx2.Response(502, text="<h1>Bad gateway</h1>"))
    with pytest.raises(ModelRequestError, match="HTTP 502: <h1>Bad gateway</h1>"):
        wire.ask()


def _raising(error: type[httpx2.TransportError]) -> Wire:
    def fail(request: httpx2.Request) -> httpx2.Response:
        raise error("the cause", request=request)

    return Wire(fail, timeout=7)


def test_nothing_there_is_not_available() -> None:
    with pytest.raises(ModelNotAvailableError, match="the cause") as caught:
        _raising(httpx2.ConnectError).ask()
    assert caught.value.hint == "is a server running at http://server:8000/v1?"


@pytest.mark.parametrize("error", [httpx2.ReadTimeout, httpx2.ConnectTimeout])
def test_no_answer_in_time_is_a_request_error(error: type[httpx2.TransportError]) -> None:
    with pytest.raises(ModelRequestError, match="no answer within 7 seconds"):
        _raising(error).ask()


@pytest.mark.integration
@pytest.mark.enable_socket
def test_over_a_real_connection() -> None:
    seen: list[dict[str, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            body = json.dumps(completion()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        chat = OpenAIChat("m", base_url=f"http://127.0.0.1:{server.server_address[1]}", timeout=10)
        assert chat.complete(MESSAGES, purpose="answer", max_tokens=5).text == "Here."
        chat.close()
        assert chat.complete(MESSAGES, purpose="answer", max_tokens=5).text == "Here."  # opens again
        chat.close()
        server.shutdown()
        thread.join()
    assert [body["model"] for body in seen] == ["m", "m"]
    with pytest.raises(ModelNotAvailableError):
        chat.complete(MESSAGES, purpose="answer", max_tokens=5)
    chat.close()
