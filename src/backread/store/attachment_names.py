"""What stands for attachments that aren't given themselves, kept in memory: they may be large, and never change."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from backread.store.rows import named_attachment

__all__ = ["AttachmentNames"]

_KEPT = 10_000


class AttachmentNames:
    """Names of the attachments of turns, those used last, by the checksum of the turn. Thread-safe."""

    def __init__(self) -> None:
        self._names: OrderedDict[bytes, tuple[Mapping[str, Any], ...]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, db: sqlite3.Connection, doc: int) -> tuple[Mapping[str, Any], ...]:
        """Type, bytes and SHA-256 of each attachment of a turn that is there."""
        key, kind = db.execute("SELECT sum, typeof(attachments) FROM turns WHERE doc = ?", (doc,)).fetchone()
        if kind == "null":  # `IS NULL` would read them
            return ()
        with self._lock:
            known = self._names.get(key)
            if known is not None:
                self._names.move_to_end(key)
                return known
        held = db.execute("SELECT attachments FROM turns WHERE doc = ?", (doc,)).fetchone()[0]
        names = tuple(map(named_attachment, json.loads(held)))
        with self._lock:
            self._names[key] = names
            while len(self._names) > _KEPT:
                self._names.popitem(last=False)
        return names
