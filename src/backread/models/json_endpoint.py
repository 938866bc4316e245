"""One address that takes and gives JSON over HTTP, for what is not a chat: embeddings and reranking.

The official client is not used here: it reads organisation and headers from the environment, and they would be sent to
servers they are not meant for. A redirect is an error, so that a key goes where it was meant to go and nowhere else.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

from backread import forking
from backread.errors import (
    ContextWindowError,
    InvalidInputError,
    ModelError,
    ModelNotAvailableError,
    ModelOutputError,
    ModelRequestError,
)
from backread.models.completions import short
from backread.models.context_window import overflow
from backread.models.failures import detail_of, error_inside, retry_after, words_of
from backread.secret import Access, Secret, quiet_logs, reveal, shown_url

__all__ = ["JsonEndpoint", "address"]

_HINTS = {
    401: "is the key right, and is it the key of this endpoint?",
    403: "what may this key use?",
    404: "is the model served under this name, and is the address right?",
}


class JsonEndpoint:
    """Posts JSON to one address; one request a call, never retried. Threads may share one object.

    Args:
        url: the full address.
        what: the part it serves, named in every message ("embedder 'openai:nomic'").
        api_key: sent as a bearer token; None sends none. User name and password in the address go before it.
        timeout: seconds without a sign of the server.
        http_client: an `httpx2.Client` to send through, for proxies and for tests.

    Raises:
        InvalidInputError: the address is not http or https.
    """

    def __init__(
        self,
        url: str,
        *,
        what: str,
        api_key: str | Secret | None = None,
        timeout: float = 60.0,
        http_client: Any = None,  # noqa: ANN401 -- httpx2 is imported at the first call
    ) -> None:
        if not _is_address(url):
            raise InvalidInputError(f"{what}: not an http(s) address: {shown_url(url)!r}")
        self._access, self.what, self._timeout = Access(url, api_key), what, timeout
        self._given, self._client = http_client, http_client
        self._lock = forking.Lock()
        forking.in_child(self._renew)

    def _renew(self) -> None:
        forking.abandon(self._client)  # connections of its own are the parent's
        self._client = self._given

    def post(self, body: Mapping[str, object]) -> object:
        """What the address answers to `body`, as plain JSON values.

        Raises:
            ModelNotAvailableError: nothing answers.
            ModelRequestError: no answer in time, a connection that broke, a redirect, or an error status.
            ContextWindowError: the error says that a text is too long.
            ModelOutputError: the answer is no JSON.
        """
        import httpx2

        reached = self._access
        # Causes are not chained: they hold the request, and what they say may repeat a key.
        try:
            response = self._open().post(
                reached.url, params=reached.params, json=body, headers=reached.headers, follow_redirects=False
            )
        except httpx2.TimeoutException:
            raise ModelRequestError(
                f"{self.where}: no answer within {self._timeout:g} seconds", retryable=True
            ) from None
        except httpx2.ConnectError as error:
            raise ModelNotAvailableError(
                f"{self.where}: {self._said(error)}", hint=f"is a server running at {self.url}?"
            ) from None
        except httpx2.HTTPError as error:
            raise ModelRequestError(
                f"{self.where}: the connection broke: {self._said(error)}", retryable=True
            ) from None
        if response.status_code != 200:
            raise self._refusal(response)
        try:
            return response.json()
        except ValueError as error:
            raise ModelOutputError(f"{self.where}: the answer is not JSON: {self._said(error)}") from None

    def unusable(self, answer: object, what: str) -> ModelError:
        """The error for an answer without `what` was asked for: its own where it is one, else with its words."""
        told = self._access.cleaned(answer)
        if isinstance(told, Mapping) and told.get("error"):
            return error_inside(told["error"], self.where)
        return ModelOutputError(f"{self.where}: the answer holds no {what}: {detail_of(told) or short(str(told))}")

    def close(self) -> None:
        """Close the connections. A later call opens new ones, unless `http_client` was given."""
        with self._lock:
            client, self._client = self._client, self._given
        if client is not None and client is not self._given:
            client.close()

    @property
    def url(self) -> str:
        """The address as it may be shown."""
        return self._access.shown

    @property
    def where(self) -> str:
        """The part and its address, for messages."""
        return f"{self.what} at {self.url}"

    def _open(self) -> Any:  # noqa: ANN401
        import httpx2

        quiet_logs()
        with self._lock:
            if self._client is None:
                self._client = httpx2.Client(timeout=self._timeout)
            return self._client

    def _said(self, error: Exception) -> str:
        return short(str(self._access.cleaned(str(error))))

    def _refusal(self, response: Any) -> ModelRequestError:  # noqa: ANN401
        """The error for any status but 200; 429 and 5xx may pass, a text that is too long never will."""
        status = int(response.status_code)
        try:
            body = response.json()
        except ValueError:
            body = response.text
        body = self._access.cleaned(body)
        detail = detail_of(body) or "no reason given"
        said = f"{self.where}: HTTP {status}: {detail}"
        words = words_of(body, detail)
        too_long = overflow(words, body if isinstance(body, Mapping) else None)
        if too_long is not None and status not in (401, 403, 404, 429):
            return ContextWindowError(said, status=status, window=too_long.window, sent=too_long.sent)
        return ModelRequestError(
            said,
            hint=_HINTS.get(status),
            status=status,
            retry_after=retry_after(response.headers),
            retryable=status in (408, 429) or (status >= 500 and status != 501),
        )


def address(base_url: str | Secret, ending: str, *, bare: str = "") -> str:
    """The full address for a base URL: `ending` added unless it is there, and `bare` before it where there is no path.

    What can't be read as an address is given back as it is; `JsonEndpoint` refuses it.
    """
    given = reveal(base_url)
    try:
        parts = urllib.parse.urlsplit(given.strip())
    except ValueError:
        return given
    path = parts.path.rstrip("/")
    whole = path if path.endswith(ending) else f"{path or bare}{ending}"
    return urllib.parse.urlunsplit(parts._replace(path=whole))


def _is_address(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
