"""A chat model behind any endpoint that speaks OpenAI's chat completions: hosted, vLLM, Ollama or llama.cpp.

Small on purpose: one request, one reply, every failure mapped. Retrying, metering and repairing replies are wrappers.
"""

from __future__ import annotations

import threading
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from backread.errors import ModelNotAvailableError, ModelOutputError, ModelRequestError
from backread.models.base import ChatMessage, ChatReply
from backread.types import Usage

__all__ = ["OpenAIChat"]

HOSTED = "https://api.openai.com/v1"
LONGEST_DETAIL = 500


class OpenAIChat:
    """A `ChatModel` over the official `openai` client. Threads may share one object.

    The environment is not read for the address or the key: what is configured is what is called.

    Args:
        model: as the endpoint calls it.
        base_url: with or without "/v1" ("http://localhost:8000" becomes ".../v1"; a longer path is kept);
            None is OpenAI's own.
        api_key: None sends a placeholder, which local servers ignore.
        timeout: seconds for one call.
        http_client: what the client sends through, for proxies and for tests; an `httpx2.Client` for openai >= 3.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        http_client: Any = None,  # noqa: ANN401 -- httpx.Client or httpx2.Client, by the version of openai
    ) -> None:
        self._model = model
        self._base_url = _api_root(base_url or HOSTED)
        self._api_key = api_key or "none"
        self._timeout = timeout
        self._http_client = http_client
        self._lock = threading.Lock()
        self._client: Any = None

    @property
    def name(self) -> str:
        """The model as given."""
        return self._model

    @property
    def base_url(self) -> str:
        """The address that is called, without a trailing slash."""
        return self._base_url

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        purpose: str,
        max_tokens: int,
        temperature: float = 0.0,
        schema: Mapping[str, Any] | None = None,
    ) -> ChatReply:
        """The reply to `messages`; one request, never retried. `schema` is sent as a strict `response_format`.

        Usage: OpenAI counts cached tokens inside the prompt's and reasoning inside the completion's, as `Usage` does;
        what the endpoint does not report is None. `seconds` is the wall time of the call.

        Raises:
            ModelNotAvailableError: nothing answers at the address.
            ModelRequestError: no answer in time, or an error status (named, with the server's message).
            ModelOutputError: the answer has no choice, no text, or is not a chat completion.
        """
        import openai

        body = self._body(messages, max_tokens, temperature, schema)
        started = time.perf_counter()
        try:
            completion = self._open().chat.completions.create(**body)
        except openai.APITimeoutError as error:
            raise ModelRequestError(f"{self._where()}: no answer within {self._timeout:g} seconds") from error
        except openai.APIConnectionError as error:
            raise ModelNotAvailableError(
                f"{self._where()}: {error.__cause__ or error}", hint=f"is a server running at {self._base_url}?"
            ) from error
        except openai.APIStatusError as error:
            detail = _detail(error.body) or error.message
            raise ModelRequestError(f"{self._where()}: HTTP {error.status_code}: {_short(detail)}") from error
        except openai.APIResponseValidationError as error:
            raise ModelOutputError(f"{self._where()}: {_short(error.message)}") from error
        except openai.OpenAIError as error:
            raise ModelRequestError(f"{self._where()}: {_short(str(error))}") from error
        except ValueError as error:  # the body says it is JSON and is not
            raise ModelOutputError(f"{self._where()}: the answer is not JSON: {_short(str(error))}") from error
        return self._reply(completion, purpose, time.perf_counter() - started)

    def close(self) -> None:
        """Close the connections. A later call opens new ones, unless `http_client` was given."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _open(self) -> Any:  # noqa: ANN401 -- openai is imported at the first call
        import openai

        with self._lock:
            if self._client is None:
                self._client = openai.OpenAI(
                    api_key=self._api_key,
                    base_url=self._base_url,
                    timeout=self._timeout,
                    max_retries=0,
                    http_client=self._http_client,
                )
            return self._client

    def _body(
        self, messages: Sequence[ChatMessage], max_tokens: int, temperature: float, schema: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        # OpenAI's newer models refuse `max_tokens`; most other servers know only that name.
        hosted = urllib.parse.urlsplit(self._base_url).hostname == urllib.parse.urlsplit(HOSTED).hostname
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "max_completion_tokens" if hosted else "max_tokens": max_tokens,
            "temperature": temperature,
        }
        if schema is not None:
            json_schema = {"name": "reply", "schema": dict(schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        return body

    def _reply(self, completion: Any, purpose: str, seconds: float) -> ChatReply:  # noqa: ANN401 -- the client does not validate
        choices = getattr(completion, "choices", None)
        if not choices:
            detail = _detail(getattr(completion, "error", None)) or _short(str(completion))
            raise ModelOutputError(f"{self._where()}: the answer has no choices: {detail}")
        message = getattr(choices[0], "message", None)
        finish = str(getattr(choices[0], "finish_reason", None) or "unknown")
        text = getattr(message, "content", None)
        if not isinstance(text, str) or not text.strip():
            refusal = getattr(message, "refusal", None)
            reason = f"refused: {_short(str(refusal))}" if refusal else f"finish_reason {finish}"
            raise ModelOutputError(f"{self._where()}: the answer has no text ({reason})")
        return ChatReply(text, finish, _usage(getattr(completion, "usage", None), purpose, self._model, seconds))

    def _where(self) -> str:
        return f"{self._model} at {self._base_url}"


def _api_root(base_url: str) -> str:
    """The address the client wants: "/v1" added to a bare host, "/chat/completions" and slashes taken off the end."""
    parts = urllib.parse.urlsplit(base_url.strip())
    path = parts.path.rstrip("/").removesuffix("/chat/completions") or "/v1"
    return urllib.parse.urlunsplit(parts._replace(path=path))


def _usage(usage: object, purpose: str, model: str, seconds: float) -> Usage:
    prompt, completion = (
        getattr(usage, "prompt_tokens_details", None),
        getattr(usage, "completion_tokens_details", None),
    )
    return Usage(
        purpose=purpose,
        model=model,
        input_tokens=_count(usage, "prompt_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
        cache_read_tokens=_count(prompt, "cached_tokens"),
        reasoning_tokens=_count(completion, "reasoning_tokens"),
        seconds=seconds,
    )


def _count(holder: object, name: str) -> int | None:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _detail(body: object) -> str | None:
    """The server's own words out of an error body, whatever its shape."""
    if isinstance(body, Mapping):
        inner = next((body[key] for key in ("error", "message", "detail") if body.get(key)), None)
        return _detail(inner) if inner is not None else None
    return _short(str(body)) if body else None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_DETAIL else line[:LONGEST_DETAIL] + "…"
