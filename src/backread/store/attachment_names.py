"""Turns with large attachments, proved once in a process, so that what they say can be read again without them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from backread import forking

__all__ = ["AttachmentNames"]

_KEPT = 10_000


class AttachmentNames:
    """Names of the attachments of turns that were proved whole, those used last. Thread-safe.

    A turn's checksum covers its attachments too. What is kept beside it is a checksum of everything else, so that a
    later reading of the words alone is proved as well.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, tuple[bytes, tuple[Mapping[str, Any], ...]]] = OrderedDict()
        self._lock = forking.Lock()

    def get(self, whole: bytes, words: bytes) -> tuple[Mapping[str, Any], ...] | None:
        """The names of a turn's attachments, None where it was not proved with these words.

        Args:
            whole: the turn's checksum as stored.
            words: the checksum of the turn without attachments, as it was read now.
        """
        with self._lock:
            known = self._known.get(whole)
            if known is None or known[0] != words:
                return None
            self._known.move_to_end(whole)
            return known[1]

    def put(self, whole: bytes, words: bytes, names: tuple[Mapping[str, Any], ...]) -> None:
        """Keep the names of a turn that was proved whole."""
        with self._lock:
            self._known[whole] = (words, names)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
