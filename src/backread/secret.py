"""Keys, and addresses that may hold one: used, and never shown."""

from __future__ import annotations

import base64
import functools
import hmac
import re
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit, urlunsplit

if TYPE_CHECKING:
    import logging

__all__ = ["HIDDEN", "Access", "Address", "Secret", "quiet_logs", "reveal", "shown_url"]

HIDDEN: Final = "***"
"""What is shown in place of a secret."""

SHORTEST: Final = 4
"""Characters a secret must have to be taken out of what others said: shorter ones are parts of ordinary words."""

_LOGGERS: Final = (
    *("httpx2", "openai._base_client"),
    *("httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "httpcore2.proxy", "httpcore2.socks"),
)
"""Who logs requests and answers below us."""


class Secret:
    """A text that is used and never shown: `str`, `repr` and every format give "***".

    Equal to another secret of the same text, compared in constant time. It can't be pickled: a file would show it.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str | Secret) -> None:
        self._value: str = value if isinstance(value, str) else value._value

    def reveal(self) -> str:
        """The text itself, for whoever sends it."""
        return self._value

    def __str__(self) -> str:
        return HIDDEN

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        ours, theirs = (one._value.encode("utf-8", "surrogatepass") for one in (self, other))
        return hmac.compare_digest(ours, theirs)

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> str:
        raise TypeError("a secret is never pickled")


class Address(Secret):
    """An http(s) address that may hold a key: shown without user name, password, parameters and fragment."""

    __slots__ = ()

    def __str__(self) -> str:
        return shown_url(self._value)


def reveal(value: str | Secret) -> str:
    """The text of what may be a secret."""
    return value if isinstance(value, str) else value.reveal()


def shown_url(url: str) -> str:
    """An address as messages show it: scheme, host, port and path.

    What can't be read as an address is shown only where nothing in it can be a key.
    """
    parts = _parts(url)
    if parts is None:
        return HIDDEN if any(mark in url for mark in ("@", "?", "#", "://")) else url
    path = f"/{HIDDEN}" if "@" in parts.path else parts.path  # perhaps the end of a password with a slash in it
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))


def _parts(url: str) -> SplitResult | None:
    """The parts of an address with a host, None when it is none."""
    try:
        parts = urlsplit(url.strip())
        return parts if parts.scheme and parts.hostname and parts.port != 0 else None
    except ValueError:
        return None


class Access:
    """How an endpoint is reached: what may be shown of it, and what is sent to it.

    Args:
        address: whole; a user name and password in it are sent as basic authentication, in place of `key`.
        key: sent as a bearer token; None sends none.

    Attributes:
        shown: the address for messages, see `shown_url`.
        url: the address for the client, without user name, password and parameters.
        params: the parameters of the address, sent with every request.
    """

    def __init__(self, address: str | Secret, key: str | Secret | None = None) -> None:
        raw = reveal(address).strip()
        bearer = reveal(key).strip() if key else ""
        self.shown, self.url = shown_url(raw), HIDDEN
        self.params: Mapping[str, str] = {}
        self._words = {bearer}
        self._authorization = f"Bearer {bearer}" if bearer else None
        if parts := _parts(raw):
            user, at, host = parts.netloc.rpartition("@")
            self.url = urlunsplit((parts.scheme, host, parts.path, "", ""))
            pairs = parse_qsl(parts.query, keep_blank_values=True)
            self.params = dict(pairs)
            self._words |= {parts.query, parts.fragment, *(value or name for name, value in pairs)}
            if at:
                self._sign(user)
        elif self.shown == HIDDEN:
            self._words.update(re.split(r"[/:@?#&=]+", raw))
        _log_filter().known.add(self)

    def _sign(self, user: str) -> None:
        name, _, password = user.partition(":")
        plain = f"{unquote(name)}:{unquote(password)}"
        basic = base64.b64encode(plain.encode("utf-8", "surrogatepass")).decode()
        self._authorization = f"Basic {basic}"
        self._words |= {user, plain, basic, name, password}

    @property
    def headers(self) -> dict[str, str]:
        """The header that opens the endpoint, if there is one."""
        return {"Authorization": self._authorization} if self._authorization else {}

    def cleaned(self, said: Any) -> Any:  # noqa: ANN401 -- as it comes, as it goes
        """What the endpoint or its client said (text, bytes, JSON values), without the secrets it may repeat."""
        if isinstance(said, str):
            for word in self._secrets:
                said = said.replace(word, HIDDEN)
            return said
        if isinstance(said, bytes):
            for word in self._secrets:
                said = said.replace(word.encode("utf-8", "surrogatepass"), HIDDEN.encode())
            return said
        if isinstance(said, Mapping):
            return {self.cleaned(name): self.cleaned(value) for name, value in said.items()}
        return [self.cleaned(item) for item in said] if isinstance(said, list | tuple) else said

    @functools.cached_property
    def _secrets(self) -> list[str]:
        """Every form a secret may be repeated in, longest first, so that none is left in half."""
        forms = {
            form
            for word in self._words
            for form in (word, unquote(word), quote(word, safe=""), quote(unquote(word), safe=""), repr(word)[1:-1])
        }
        return sorted((form for form in forms if len(form) >= SHORTEST), key=len, reverse=True)


class _LogFilter:
    """Takes the secrets of every endpoint that is in use out of what HTTP clients log."""

    def __init__(self) -> None:
        self.known: weakref.WeakSet[Access] = weakref.WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        for access in list(self.known):
            said = access.cleaned(said)
        record.msg, record.args = said, None
        return True


@functools.cache
def _log_filter() -> _LogFilter:
    return _LogFilter()


def quiet_logs() -> None:
    """Keep secrets out of what HTTP clients log from now on; called where a client is opened."""
    import logging

    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_log_filter())
