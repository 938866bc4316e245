"""Between rows of the SQLite store and the shapes of `types`: encoding, checksums, order."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

from backread.errors import TimeError
from backread.types import Turn, TurnDraft

__all__ = [
    "EPOCH",
    "FIRST",
    "TURN_BYTES",
    "TURN_COLUMNS",
    "TURN_WORDS",
    "WORD_BYTES",
    "attachment_bytes",
    "attachments_json",
    "checksum",
    "dec",
    "draft_fields",
    "enc",
    "from_us",
    "named_attachment",
    "to_us",
    "turn_from_row",
    "turn_sum",
]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = -(2**62)
"""`sort_us` of turns of unknown time that open a session: before any real instant."""

TURN_COLUMNS = (
    "t.doc, t.turn_id, s.session_id, t.role, t.text, t.stored_us, t.speaker, t.external_id, t.caption, t.attachments,"
    " t.said_us, t.said_offset, t.zone_known, t.said_text,"
    " (SELECT o.turn_id FROM turns o WHERE o.doc = t.supersedes) AS supersedes_id"
)

TURN_WORDS: Final = TURN_COLUMNS.replace("t.attachments", "NULL")
"""`TURN_COLUMNS` without the attachments, which may be large."""

WORD_BYTES = "length(t.text) + coalesce(length(t.caption), 0)"
"""Bytes of what a turn says; SQLite tells the length of a blob without reading it."""

TURN_BYTES = f"{WORD_BYTES} + coalesce(length(CAST(t.attachments AS BLOB)), 0)"
"""With its attachments, which are read for it."""


def enc(text: str | None) -> bytes | None:
    """UTF-8 with surrogatepass: any `str` comes back as it went in."""
    return None if text is None else text.encode("utf-8", "surrogatepass")


def dec(data: bytes | None) -> Any:  # noqa: ANN401 - str for a NOT NULL column, str | None for the others
    """The text `enc` was given."""
    return None if data is None else data.decode("utf-8", "surrogatepass")


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


def checksum(parts: Iterable[bytes | int | None], size: int = 16) -> bytes:
    """Hash of a sequence of values; lengths are hashed too, so that no two sequences run together."""
    digest = hashlib.blake2b(digest_size=size)
    for part in parts:
        if part is None:
            digest.update(b"-")
            continue
        data = b"%d" % part if isinstance(part, int) else part
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()


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
    offset = None if draft.said_at is None else draft.said_at.utcoffset()
    return {
        "said_us": None if draft.said_at is None else to_us(draft.said_at),
        "said_offset": None if offset is None else round(offset.total_seconds() / 60),
        "zone_known": int(draft.said_at is None or draft.offset_known),
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


def turn_from_row(row: sqlite3.Row | tuple[Any, ...], position: int) -> Turn:
    """A `Turn` from a row of `TURN_COLUMNS`."""
    (_, turn_id, session_id, role, text, stored_us, speaker, external_id, caption, attachments, said_us) = row[:11]
    said_offset, zone_known, said_text, supersedes = row[11:15]
    stored_at = from_us(stored_us, None)
    assert stored_at is not None
    return Turn(
        turn_id=turn_id,
        session_id=dec(session_id),
        position=position,
        role=dec(role),
        text=dec(text),
        stored_at=stored_at,
        speaker=dec(speaker),
        external_id=dec(external_id),
        caption=dec(caption),
        attachments=tuple(json.loads(attachments)) if attachments else (),
        said_at=from_us(said_us, said_offset),
        said_text=dec(said_text),
        offset_known=bool(zone_known),
        supersedes=supersedes,
    )
