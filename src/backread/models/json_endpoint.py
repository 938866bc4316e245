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
    ModelNotAvailableError,
    ModelOutputError,
    ModelRequestError,
)
from backread.models.completions import short
from backread.models.context_window import overflow
from backread.models.failures import detail_of, retry_after, words_of

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
        api_key: sent as a bearer token; None sends none.
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
        api_key: str | None = None,
        timeout: float = 60.0,
        http_client: Any = None,  # noqa: ANN401 -- httpx2 is imported at the first call
    ) -> None:
        if not _is_address(url):
            raise InvalidInputError(f"{what}: not an http(s) address: {url!r}")
        self.url, self.what = url, what
        self._api_key, self._timeout = api_key, timeout
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

        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        try:
            response = self._open().post(self.url, json=body, headers=headers, follow_redirects=False)
        except httpx2.TimeoutException as error:
            raise ModelRequestError(
                f"{self.where}: no answer within {self._timeout:g} seconds", retryable=True
            ) from error
        except httpx2.ConnectError as error:
            raise ModelNotAvailableError(
                f"{self.where}: {short(str(error))}", hint=f"is a server running at {self.url}?"
            ) from error
        except httpx2.HTTPError as error:
            raise ModelRequestError(
                f"{self.where}: the connection broke: {short(str(error))}", retryable=True
            ) from error
        if response.status_code != 200:
            raise self._refusal(response)
        try:
            return response.json()
        except ValueError as error:
            raise ModelOutputError(f"{self.where}: the answer is not JSON: {short(str(error))}") from error

    def close(self) -> None:
        """Close the connections. A later call opens new ones, unless `http_client` was given."""
        with self._lock:
            client, self._client = self._client, self._given
        if client is not None and client is not self._given:
            client.close()

    @property
    def where(self) -> str:
        """The part and its address, for messages."""
        return f"{self.what} at {self.url}"

    def _open(self) -> Any:  # noqa: ANN401
        import httpx2

        with self._lock:
            if self._client is None:
                self._client = httpx2.Client(timeout=self._timeout)
            return self._client

    def _refusal(self, response: Any) -> ModelRequestError:  # noqa: ANN401
        """The error for any status but 200; 429 and 5xx may pass, a text that is too long never will."""
        status = int(response.status_code)
        try:
            body = response.json()
        except ValueError:
            body = response.text
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


def address(base_url: str, ending: str, *, bare: str = "") -> str:
    """The full address for a base URL: `ending` added unless it is there, and `bare` before it where there is no path.

    What can't be read as an address is given back as it is; `JsonEndpoint` refuses it.
    """
    try:
        parts = urllib.parse.urlsplit(base_url.strip())
    except ValueError:
        return base_url
    path = parts.path.rstrip("/")
    whole = path if path.endswith(ending) else f"{path or bare}{ending}"
    return urllib.parse.urlunsplit(parts._replace(path=whole))


def _is_address(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
