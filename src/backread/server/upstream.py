"""The chat server behind the proxy: where it is, with whose key it is asked, and which headers go through."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import httpx2

from backread.errors import InvalidInputError
from backread.secret import Access, Secret, quiet_logs, shown_url
from backread.server.guard import is_loopback

__all__ = ["Upstream", "leads_elsewhere", "passed_back"]

_NOT_SENT: Final = frozenset(
    {
        *("host", "content-length", "accept-encoding", "authorization", "cookie", "forwarded"),
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect"),
    }
)
_NOT_SENT_STARTS: Final = ("proxy-", "x-backread-", "x-forwarded-")
_NOT_PASSED_BACK: Final = frozenset(
    {
        *("content-length", "content-encoding", "date", "server", "set-cookie"),
        *("connection", "keep-alive", "trailer", "transfer-encoding", "upgrade", "proxy-authenticate"),
    }
)
CONNECT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Upstream:
    """An OpenAI-compatible chat server.

    Attributes:
        access: its address, with its path ("http://127.0.0.1:8000/v1") and without a slash at the end, and the key that
            is sent in place of whatever the client sent.
        timeout: seconds without a sign of it.
        transport: what requests are sent through, for tests.
    """

    access: Access
    timeout: float = 120.0
    transport: httpx2.AsyncBaseTransport | None = None

    @classmethod
    def at(cls, url: str, *, api_key: str | Secret | None = None, timeout: float = 120.0) -> Upstream:
        """The server at an address; "/v1" is added to a bare host.

        Raises:
            InvalidInputError: it is no http or https address.
        """
        parts = urllib.parse.urlsplit(url.strip())
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise InvalidInputError(
                f"{shown_url(url)!r} is no address of a chat server", hint="such as http://127.0.0.1:8000/v1"
            )
        path = parts.path.rstrip("/").removesuffix("/chat/completions") or "/v1"
        return cls(Access(urllib.parse.urlunsplit(parts._replace(path=path)), api_key), timeout)

    @property
    def base_url(self) -> str:
        """The address that is called, without user name and password."""
        return self.access.url

    def client(self) -> httpx2.AsyncClient:
        """A client for it: no redirect is followed, and no proxy is used for this machine."""
        host = urllib.parse.urlsplit(self.base_url).hostname or ""
        quiet_logs()
        return httpx2.AsyncClient(
            timeout=httpx2.Timeout(self.timeout, connect=min(CONNECT_SECONDS, self.timeout), pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=50),
            follow_redirects=False,
            trust_env=not is_loopback(host),
            transport=self.transport,
        )

    def headers(self, given: Mapping[str, str], *, keyed: bool) -> dict[str, str]:
        """The headers of a request that goes on.

        Args:
            given: those it came with.
            keyed: True when its Authorization was for this server: it goes no further.
        """
        sent = {
            name: value
            for name, value in given.items()
            if name.lower() not in _NOT_SENT and not name.lower().startswith(_NOT_SENT_STARTS)
        }
        sent["accept-encoding"] = "identity"  # what passes through is read on the way
        if own := self.access.headers:
            sent["authorization"] = own["Authorization"]
        elif not keyed and "authorization" in given:
            sent["authorization"] = given["authorization"]
        return sent


def passed_back(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The headers of an answer that the client gets: what only concerns the connection behind is left out."""
    return {name: value for name, value in headers if name.lower() not in _NOT_PASSED_BACK}


def leads_elsewhere(path: str) -> bool:
    """True for a path that the server behind may take for another one, such as "models/../files"."""
    return any(part in {"", ".", ".."} for part in urllib.parse.unquote(path).split("/"))
