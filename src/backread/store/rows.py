"""Between rows of the SQLite store and the shapes of `types`: encoding, checksums, order."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from types import NoneType
from typing import Any

from backread.errors import TimeError
from backread.types import Turn, TurnDraft

__all__ = [
    "EPOCH",
    "FIRST",
    "RECEIVED",
    "TURN_BYTES",
    "TURN_COLUMNS",
    "TURN_WORDS",
    "WORD_BYTES",
    "DamagedRowError",
    "attachment_bytes",
    "attachments_json",
    "checksum",
    "dec",
    "draft_fields",
    "enc",
    "from_us",
    "named_attachment",
    "of_kinds",
    "proved",
    "sort_after",
    "to_us",
    "turn_from_columns",
    "turn_from_row",
    "turn_sum",
    "words_of",
]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = -(2**62)
"""`sort_us` of turns of unknown time that open a session: before any real instant."""

RECEIVED = 2
"""`zone_known` of a turn whose `said_us` is when it was received: nobody said when it was said."""

TURN_COLUMNS = (
    "t.turn_id, s.session_id, t.role, t.text, t.stored_us, t.speaker, t.external_id, t.caption, t.attachments,"
    " t.said_us, t.said_offset, t.zone_known, t.said_text,"
    " (SELECT o.turn_id FROM turns o WHERE o.doc = t.supersedes) AS supersedes_id, t.sum"
)
_NAMES = (
    *("turn_id", "session_id", "role", "text", "stored_us", "speaker", "external_id", "caption", "attachments"),
    *("said_us", "said_offset", "zone_known", "said_text", "supersedes_id", "sum"),
)
_KINDS: tuple[type | tuple[type, ...], ...] = (
    *(str, bytes, bytes, bytes, int, (bytes, NoneType), (bytes, NoneType), (bytes, NoneType), (str, NoneType)),
    *((int, NoneType), (int, NoneType), int, (bytes, NoneType), (str, NoneType), bytes),
)


class DamagedRowError(sqlite3.DatabaseError):
    """A row isn't what was written. The pool makes `StoreCorruptError` of it, as of SQLite's own errors."""


TURN_WORDS = TURN_COLUMNS.replace("t.attachments", "NULL")
"""`TURN_COLUMNS` without the attachments, which may be large."""

WORD_BYTES = "length(t.text) + coalesce(length(t.caption), 0)"
"""Bytes of what a turn says; SQLite tells the length of a blob without reading it."""

TURN_BYTES = f"{WORD_BYTES} + coalesce(length(CAST(t.attachments AS BLOB)), 0)"
"""With its attachments, which are read for it."""


def enc(text: str | None) -> bytes | None:
    """UTF-8 with surrogatepass: any `str` comes back as it went in."""
    return None if text is None else text.encode("utf-8", "surrogatepass")


def dec(data: bytes | None) -> Any:  # noqa: ANN401 - str for a NOT NULL column, str | None for the others
    """The text `enc` was given.

    Raises:
        DamagedRowError: what was stored is no text of `enc`.
    """
    if data is None:
        return None
    if not isinstance(data, bytes):  # after a flipped byte SQLite gives any type out
        raise DamagedRowError(f"{data!r} is not stored as text is")
    return data.decode("utf-8", "surrogatepass")


def to_us(at: datetime) -> int:
    """Whole microseconds since 1970 UTC, exact.

    Raises:
        TimeError: in UTC the instant is before year 1 or after year 9999, and could not be read back.
    """
    try:
        return (at.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)
    except OverflowError as error:
        raise TimeError(f"{at.isoformat()} is outside the years 1 to 9999 in UTC") from error


def from_us(us: int | None, offset_minutes: int | None) -> datetime | None:
    """The instant in its own offset, or in UTC where the source gave none; None when unknown."""
    if us is None:
        return None
    zone = UTC if not offset_minutes else timezone(timedelta(minutes=offset_minutes))
    at = EPOCH + timedelta(microseconds=us)
    try:
        return at.astimezone(zone)
    except OverflowError:  # at the ends of the calendar an offset rounded to minutes can lead out of it
        return at


def sort_after(last: int, said_us: int | None, zone_known: int) -> int:
    """`sort_us` of a turn that arrived after one with `last`: its own time, or the same when nobody said its time."""
    return last if said_us is None or zone_known == RECEIVED else said_us


def checksum(parts: Iterable[bytes | int | None], size: int = 16) -> bytes:
    """Hash of a sequence of values; lengths are hashed too, so that no two sequences run together."""
    pieces: list[bytes] = []
    for part in parts:
        if part is None:
            pieces.append(b"-")
        else:
            data = b"%d" % part if isinstance(part, int) else part
            pieces += (b"%d:" % len(data), data)
    return hashlib.blake2b(b"".join(pieces), digest_size=size).digest()


def attachments_json(attachments: Iterable[Mapping[str, Any]]) -> str | None:
    """Canonical JSON of a turn's attachments; None when there are none."""
    items = [dict(item) for item in attachments]
    return json.dumps(items, ensure_ascii=True, sort_keys=True, separators=(",", ":")) if items else None


def named_attachment(item: Mapping[str, Any]) -> dict[str, Any]:
    """What stands for an attachment that isn't given itself: its type, and bytes and SHA-256 of its canonical JSON."""
    data = attachment_bytes(item)
    return {"type": item["type"], "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def attachment_bytes(item: Mapping[str, Any]) -> bytes:
    """Canonical JSON of one attachment, in ASCII."""
    return json.dumps(dict(item), ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode()


def draft_fields(draft: TurnDraft) -> dict[str, bytes | int | str | None]:
    """A draft as column values, except those that depend on what is already stored."""
    received = draft.said_at is None and draft.received_at is not None
    at = draft.received_at if received else draft.said_at
    offset = None if at is None else at.utcoffset()
    return {
        "said_us": None if at is None else to_us(at),
        "said_offset": None if offset is None else round(offset.total_seconds() / 60),
        "zone_known": RECEIVED if received else int(at is None or draft.offset_known),
        "external_id": enc(draft.external_id),
        "role": enc(draft.role),
        "speaker": enc(draft.speaker),
        "said_text": enc(draft.said_text),
        "caption": enc(draft.caption),
        "attachments": attachments_json(draft.attachments),
        "text": enc(draft.text),
    }


def turn_sum(
    user_id: bytes, session_id: bytes, row: Mapping[str, bytes | int | str | None], supersedes_id: str | None
) -> bytes:
    """Checksum over everything a turn says and where it belongs. `row` has the columns of `turns` by name."""
    columns = ("turn_id", "external_id", "role", "speaker", "text", "caption", "attachments", "said_text")
    texts = (row[name] for name in columns)
    numbers = (row[name] for name in ("said_us", "said_offset", "zone_known", "stored_us"))
    values = (user_id, session_id, *texts, *numbers, supersedes_id)
    return checksum(value.encode() if isinstance(value, str) else value for value in values)


def of_kinds(row: Sequence[object], kinds: Sequence[type | tuple[type, ...]]) -> bool:
    """Whether each value has a type that its column allows; after a flipped byte SQLite gives any type out."""
    return all(map(isinstance, row, kinds))


def proved(row: Sequence[Any] | None, user_id: bytes) -> dict[str, Any]:
    """The columns of a row of `TURN_COLUMNS` by name, proved by its checksum.

    Raises:
        DamagedRowError: it isn't the row that was written, or there is none.
    """
    if row is None:
        raise DamagedRowError("a turn is missing from its table")
    columns, found = words_of(row, user_id)
    if columns["sum"] != found:
        raise DamagedRowError(f"turn {row[0]!r} does not match its checksum")
    return columns


def turn_from_row(row: Sequence[Any] | None, position: int, user_id: bytes) -> Turn:
    """A `Turn` from a row of `TURN_COLUMNS`; raises as `proved` does."""
    columns = proved(row, user_id)
    held = json.loads(columns["attachments"]) if columns["attachments"] else ()
    return turn_from_columns(columns, position, tuple(held))


def words_of(row: Sequence[Any], user_id: bytes) -> tuple[dict[str, Any], bytes]:
    """The columns of a row of `TURN_WORDS`, or of `TURN_COLUMNS`, by name, and a checksum of what is in them.

    Raises:
        DamagedRowError: a value has the wrong type.
    """
    columns = dict(zip(_NAMES, row, strict=True))
    if not of_kinds(row, _KINDS):
        raise DamagedRowError(f"turn {row[0]!r} has a value of the wrong type")
    return columns, turn_sum(user_id, columns["session_id"], columns, columns["supersedes_id"])


def turn_from_columns(columns: Mapping[str, Any], position: int, attachments: tuple[Mapping[str, Any], ...]) -> Turn:
    """A `Turn` from columns that were proved."""
    at = from_us(columns["said_us"], columns["said_offset"])
    return Turn(
        turn_id=columns["turn_id"],
        session_id=dec(columns["session_id"]),
        position=position,
        role=dec(columns["role"]),
        text=dec(columns["text"]),
        stored_at=EPOCH + timedelta(microseconds=columns["stored_us"]),
        speaker=dec(columns["speaker"]),
        external_id=dec(columns["external_id"]),
        caption=dec(columns["caption"]),
        attachments=attachments,
        said_at=None if columns["zone_known"] == RECEIVED else at,
        said_text=dec(columns["said_text"]),
        offset_known=bool(columns["zone_known"]),
        supersedes=columns["supersedes_id"],
        received_at=at if columns["zone_known"] == RECEIVED else None,
    )
