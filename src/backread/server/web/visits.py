"""Who is signed in to the page: a key is typed once, then a cookie names the visit. Only hashes are kept, in memory."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from backread.server.keys import Principal

__all__ = ["COOKIE", "LASTS_S", "Visits"]

COOKIE: Final = "backread_visit"
LASTS_S: Final = 7 * 24 * 3600
"""Seconds a visit lasts; it ends with the server too."""

_KEPT: Final = 1000


class Visits:
    """Visits by the hash of their token. Thread-safe.

    Args:
        now: seconds on a clock that only goes forward.
        kept: visits at the same time; the oldest ends when there are more.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic, kept: int = _KEPT) -> None:
        self._now = now
        self._kept = kept
        self._lock = threading.Lock()
        self._visits: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()

    def begin(self, principal: Principal) -> str:
        """The token of a new visit, for the cookie; it can't be guessed and is kept nowhere."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._visits[_digest(token)] = (principal, self._now() + LASTS_S)
            while len(self._visits) > self._kept:
                self._visits.popitem(last=False)
        return token

    def principal(self, token: str | None) -> Principal | None:
        """Whose visit it is; None when there is no such visit, or it is over."""
        if token is None:
            return None
        with self._lock:
            principal, ends = self._visits.get(_digest(token), (None, 0.0))
        return principal if self._now() < ends else None

    def end(self, token: str | None) -> None:
        """End a visit; one that is over stays over."""
        if token is not None:
            with self._lock:
                self._visits.pop(_digest(token), None)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
