"""A chat model behind any endpoint that speaks OpenAI's chat completions: hosted, vLLM, Ollama or llama.cpp.

Small on purpose: one question, one reply, every failure mapped. Retrying, metering and caching are wrappers, checking a
reply's format is `structured`.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.parse
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeVar

from backread import forking
from backread.errors import ContextWindowError, ModelNotAvailableError, ModelOutputError
from backread.models.base import ChatMessage, ChatReply
from backread.models.completions import Completion, StreamReader, short
from backread.models.context_window import RAISE_WINDOW, WINDOW_SOURCES, estimate_prompt, overflow, prompt_was_cut
from backread.models.failures import detail_of, error_inside, mapped_failures, words_of
from backread.models.refusals import Refusals
from backread.models.thinking import VisibleText
from backread.secret import Access, Secret, quiet_logs, reveal

__all__ = ["OpenAIChat"]

HOSTED = "https://api.openai.com/v1"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
PROBE_SECONDS = 3.0
UNCOUNTED = 1500
ASSUMED_ROOM = 0.75

_T = TypeVar("_T")


class OpenAIChat:
    """A `ChatModel` over the official `openai` client. Threads may share one object.

    The environment is not read for the address, the key or an organisation: what is configured is what is called. A
    redirect to another place is an error, and no proxy is used for this machine. A parameter that the endpoint refuses
    is left out from then on.

    Args:
        model: as the endpoint calls it.
        base_url: with or without "/v1" ("http://localhost:8000" becomes ".../v1"; a longer path is kept);
            None is OpenAI's own, which needs a key. Its parameters go with every request; a user name and password
            in it are sent in place of the key.
        api_key: None sends a placeholder, which local servers ignore.
        timeout: seconds without a sign of the server.
        context_window: tokens of prompt and reply together; a prompt that is larger by estimate is not sent. None asks
            nothing of the prompt before it is sent.
        extra: further parameters of every request, as the endpoint names them ("seed", "reasoning_effort", …).
        http_client: what the client sends through, for proxies and for tests; an `httpx2.Client`.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | Secret | None = None,
        api_key: str | Secret | None = None,
        timeout: float = 120.0,
        context_window: int | None = None,
        extra: Mapping[str, Any] | None = None,
        http_client: Any = None,  # noqa: ANN401 -- httpx2.Client, which comes with openai
    ) -> None:
        self._model = model
        self._configured = base_url is not None or api_key is not None
        self._access = Access(_api_root(reveal(base_url or HOSTED)), api_key)
        self._timeout = timeout
        self._window, self._window_known = context_window, context_window is not None
        self._limit = context_window
        self._extra = dict(extra or {})
        self._http_client = http_client
        self._refusals = Refusals()
        self._lock = forking.Lock()
        self._client: Any = None
        forking.in_child(self._renew)

    def _renew(self) -> None:
        forking.abandon(self._client)  # its connections are the parent's
        self._client = None

    @property
    def name(self) -> str:
        """The model as given."""
        return self._model

    @property
    def base_url(self) -> str:
        """The address that is called, without a trailing slash, and without what may be a key."""
        return self._access.shown

    @property
    def refused(self) -> tuple[str, ...]:
        """What the endpoint refused so far and is not sent again, for records; see `refusals`."""
        return self._refusals.known

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        purpose: str,
        max_tokens: int,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
    ) -> ChatReply:
        """The reply to `messages`, never retried. `schema` is sent as a strict `response_format`.

        A second request is sent only when the endpoint refuses a parameter. Usage is the endpoint's own count; what it
        does not report is None. `seconds` is the wall time.

        Raises:
            ModelNotAvailableError: nothing answers at the address, or there is neither address nor key.
            ModelRequestError: no answer in time, an error status, or an error inside a 200 (with the server's words).
            ContextWindowError: the prompt is too long: by the configured window, by the server's own words, or by the
                number of tokens it read.
            ModelOutputError: the answer has no choice, no text, or is not a chat completion.
        """
        sent = self._fits(messages, max_tokens)
        body = self._body(messages, max_tokens, temperature, schema)
        started = time.perf_counter()
        with self._mapped():
            raw = self._adapted(body, lambda adapted: self._open().chat.completions.with_raw_response.create(**adapted))
            answer = json.loads(raw.http_response.content)
        completion = Completion()
        self._read(answer, completion)
        if not completion.answered:
            answer = self._access.cleaned(answer)
            detail = detail_of(answer) or short(str(answer))
            raise ModelOutputError(f"{self._where}: the answer has no choices: {detail}")
        return self._finish(completion, purpose, started, sent)

    def stream(
        self,
        messages: Sequence[ChatMessage],
        on_text: Callable[[str], None],
        *,
        purpose: str,
        max_tokens: int,
        temperature: float = 0.0,
    ) -> ChatReply:
        """As `complete`, telling `on_text` every piece of the answer when it comes, leading reasoning left out.

        `on_text` is called from this thread; what it raises ends the stream and is passed on. The reply is the whole
        answer; its finish_reason is "incomplete" when the stream ended without one. A server that doesn't stream is
        understood too.

        Raises:
            ModelError: as `complete`; text may have been told before a stream breaks.
        """
        sent = self._fits(messages, max_tokens)
        body = self._body(messages, max_tokens, temperature, None)
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        started = time.perf_counter()
        completion, shown = Completion(), VisibleText()
        events = self._events(body)
        with contextlib.closing(events):
            for event in events:
                if piece := shown.feed(self._read(event, completion)):
                    on_text(piece)
        if piece := shown.end():
            on_text(piece)
        if not completion.answered:
            raise ModelOutputError(f"{self._where}: the stream has no choices")
        completion.finish = completion.finish or "incomplete"
        return self._finish(completion, purpose, started, sent)

    def window(self) -> int | None:
        """Tokens of the model's window: as configured, else as the server tells (llama.cpp, vLLM, Ollama), else None.

        The server is asked once. Never raises: a server that doesn't tell is not an error.
        """
        if not self._window_known and self._configured and not self._hosted:
            self._window = next((found for found in map(self._probe, WINDOW_SOURCES) if found), None)
            self._window_known = True
        return self._window

    def close(self) -> None:
        """Close the connections. A later call opens new ones, unless `http_client` was given."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _open(self) -> Any:  # noqa: ANN401 -- openai is imported at the first call
        import openai

        if not self._configured:
            raise ModelNotAvailableError(
                f"chat model {self._model!r} has no endpoint",
                hint="set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own",
            )
        quiet_logs()
        with self._lock:
            if self._client is None:
                self._client = openai.OpenAI(
                    api_key="none",
                    base_url=self._access.url,
                    default_headers=self._access.headers,
                    default_query=self._access.params,
                    timeout=self._timeout,
                    max_retries=0,
                    http_client=self._http_client
                    or openai.DefaultHttpxClient(follow_redirects=False, trust_env=self._host not in LOOPBACK),
                )
                if not self._hosted:  # the client takes them from the environment; they are nobody else's business
                    self._client.organization = self._client.project = None
            return self._client

    @property
    def _hosted(self) -> bool:
        return self._host == urllib.parse.urlsplit(HOSTED).hostname

    @property
    def _host(self) -> str | None:
        return urllib.parse.urlsplit(self._access.url).hostname

    def _fits(self, messages: Sequence[ChatMessage], max_tokens: int) -> int:
        """Tokens of the prompt by estimate.

        Raises:
            ContextWindowError: they and the reply don't fit the configured window.
        """
        tokens = estimate_prompt(messages)
        if self._limit is not None and tokens + max_tokens > self._limit:
            raise ContextWindowError(
                f"{self._where}: a prompt of about {tokens} tokens and a reply of {max_tokens} don't fit the"
                f" configured window of {self._limit}; nothing was sent",
                hint=RAISE_WINDOW,
                window=self._limit,
                sent=tokens,
            )
        return tokens

    def _body(
        self, messages: Sequence[ChatMessage], max_tokens: int, temperature: float, schema: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        # OpenAI's newer models refuse `max_tokens`; most other servers know only that name.
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "max_completion_tokens" if self._hosted else "max_tokens": max_tokens,
            "temperature": temperature,
        }
        if schema is not None:
            json_schema = {"name": "reply", "schema": dict(schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        if self._extra:
            body["extra_body"] = self._extra
        return body

    def _adapted(self, body: Mapping[str, Any], send: Callable[[dict[str, Any]], _T]) -> _T:
        """What `send` gives for `body`, without the parameters that the endpoint refuses, found one by one."""
        import openai

        refused: set[str] = set()
        while True:
            adapted = self._refusals.adapt(body, refused)
            try:
                result = send(adapted)
            except openai.APIStatusError as error:
                body_said = self._access.cleaned(error.body)
                words = words_of(body_said, detail_of(body_said) or self._access.cleaned(error.message))
                blamed = None
                if overflow(words, error.body) is None:
                    blamed = self._refusals.blamed(adapted, error.status_code, words, error.param)
                if blamed is None or blamed in refused:
                    if error.status_code not in (400, 422):  # the request was understood
                        self._refusals.remember(refused, self._where)
                    raise
                refused.add(blamed)
            else:
                self._refusals.remember(refused, self._where)
                return result

    def _events(self, body: Mapping[str, Any]) -> Generator[Mapping[str, object]]:
        reader, some = StreamReader(), False
        with contextlib.ExitStack() as stack, self._mapped():
            response = self._adapted(
                body,
                lambda adapted: stack.enter_context(
                    self._open().chat.completions.with_streaming_response.create(**adapted)
                ),
            )
            for data in response.iter_bytes():
                for event in reader.feed(data):
                    some = True
                    yield event
                if reader.done:
                    return
            for event in reader.end():
                some = True
                yield event
            if not some and reader.other:
                yield json.loads(b"\n".join(reader.other))

    def _read(self, answer: object, completion: Completion) -> str:
        """Take in an answer or a chunk of one; the text that came with it.

        Raises:
            ModelRequestError: it is an error, whatever the status said.
        """
        if not isinstance(answer, Mapping):
            return ""
        if error := answer.get("error"):
            raise error_inside(self._access.cleaned(error), self._where)
        return completion.read(answer)

    def _finish(self, completion: Completion, purpose: str, started: float, sent: int) -> ChatReply:
        usage = completion.usage(purpose, self._model, time.perf_counter() - started)
        window = None
        if not usage.input_tokens and sent >= UNCOUNTED:
            window = self.window()
        beyond = window is not None and sent * ASSUMED_ROOM > window
        if not self._hosted and (beyond or prompt_was_cut(sent, usage)):
            read = f"the window has {window} tokens" if beyond else f"the server read {usage.input_tokens} tokens"
            raise ContextWindowError(
                f"{self._where}: the prompt of about {sent} tokens was cut without a word: {read}",
                hint=RAISE_WINDOW,
                usage=usage,
                window=window,
                sent=sent,
            )
        return completion.reply(usage, self._where)

    def _probe(self, source: tuple[str, Callable[[Mapping[str, object], str], int | None]]) -> int | None:
        import openai

        path, read = source
        parts = urllib.parse.urlsplit(self._access.url)
        url = f"{parts.scheme}://{parts.netloc}{path}" if path.startswith("/") else f"{self._access.url}/{path}"
        try:
            answer = self._open().get(url, cast_to=object, options={"timeout": PROBE_SECONDS})
        except (openai.OpenAIError, ValueError):
            return None  # this server tells it elsewhere or nowhere
        return read(answer, self._model) if isinstance(answer, Mapping) else None

    def _mapped(self) -> contextlib.AbstractContextManager[None]:
        return mapped_failures(self._where, self._access, self._timeout)

    @property
    def _where(self) -> str:
        return f"{self._model} at {self.base_url}"


def _api_root(base_url: str) -> str:
    """The address the client wants: "/v1" added to a bare host, "/chat/completions" and slashes taken off the end."""
    try:
        parts = urllib.parse.urlsplit(base_url.strip())
    except ValueError:
        return base_url  # refused by the first call
    path = parts.path.rstrip("/").removesuffix("/chat/completions") or "/v1"
    return urllib.parse.urlunsplit(parts._replace(path=path))
