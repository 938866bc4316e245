"""Records straight from the pages of a SQLite file, whatever of its structure is damaged.

SQLite reads a row by way of the schema and of interior pages: with one of those destroyed it reads none below. Leaf
pages need nothing but themselves and the overflow pages they name, so what is on no bad page can be read. Whether
a record is what was written only its own checksum can tell. Layout: https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

__all__ = ["Pages", "Record", "Value"]

Value = int | float | str | bytes | None

_MAGIC = b"SQLite format 3\0"
_DEFAULT = 4096  # of every store that SQLite makes where nothing else was asked for
_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR = 0x0D, 0x0A, 0x02
_HEADERS = {_TABLE_LEAF: 8, _INDEX_LEAF: 8, _INDEX_INTERIOR: 12}
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_MOST_PAYLOAD = 64 << 20
_BROKEN = (IndexError, ValueError, struct.error)


class Record(NamedTuple):
    """A row of a table, or an entry of an index (`rowid` None): its values, or None when a part of it can't be read."""

    rowid: int | None
    values: tuple[Value, ...] | None


class Pages:
    """The pages of a file as its last transaction left them, the log beside it included. Nothing is written.

    Args:
        path: the database file.
        size: bytes of a page; as the header says when None, else SQLite's default.
    """

    def __init__(self, path: Path, size: int | None = None) -> None:
        self._file: BinaryIO = path.open("rb")
        header = self._file.read(100)
        said = int.from_bytes(header[16:18], "big")
        said = 65536 if said == 1 else said
        sound = header[:16] == _MAGIC and 512 <= said <= 65536 and not said & (said - 1)
        self.size = size or (said if sound else _DEFAULT)
        self._usable = self.size - (header[20] if sound and size is None else 0)
        log = path.with_name(path.name + "-wal")
        self._logged = _logged(log.read_bytes(), self.size) if log.exists() else {}
        self.count = max([-(-os.fstat(self._file.fileno()).st_size // self.size), *self._logged])

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def page(self, number: int) -> bytes:
        """Bytes of a page, numbered from 1; fewer than a page at the end of a file that was cut."""
        if number in self._logged:
            return self._logged[number]
        self._file.seek((number - 1) * self.size)
        return self._file.read(self.size)

    def records(self) -> Iterator[tuple[int, int, Record]]:
        """(page, cell, record) of everything on leaf pages of tables and on pages of indexes."""
        for number in range(1, self.count + 1):
            page = self.page(number)
            start = 100 if number == 1 else 0
            if len(page) != self.size or page[start] not in _HEADERS:
                continue
            cells = int.from_bytes(page[start + 3 : start + 5], "big")
            for cell in range(min(cells, self.size // 4)):
                record = self.record(number, cell, page)
                if record is not None:
                    yield number, cell, record

    def record(self, number: int, cell: int, page: bytes | None = None) -> Record | None:
        """The record of one cell of a page; None when it can't even be told which row it is of."""
        page = self.page(number) if page is None else page
        start = 100 if number == 1 else 0
        kind = page[start]
        rowid = None
        try:
            pointer = start + _HEADERS[kind] + 2 * cell
            at = int.from_bytes(page[pointer : pointer + 2], "big")
            at += 4 if kind == _INDEX_INTERIOR else 0
            length, at = _varint(page, at)
            if kind == _TABLE_LEAF:
                rowid, at = _varint(page, at)
            if length > _MOST_PAYLOAD:
                return None
        except _BROKEN:
            return None
        try:
            return Record(rowid, _values(self._payload(page, at, length, kind)))
        except _BROKEN:
            return Record(rowid, None)

    def _payload(self, page: bytes, at: int, length: int, kind: int) -> bytes:
        """The bytes of a record, those on overflow pages included."""
        usable = self._usable
        most = usable - 35 if kind == _TABLE_LEAF else (usable - 12) * 64 // 255 - 23
        if length <= most:
            return _exactly(page[at : at + length], length)
        least = (usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (usable - 4)
        local = local if local <= most else least
        parts = [_exactly(page[at : at + local], local)]
        left = length - local
        following = int.from_bytes(_exactly(page[at + local : at + local + 4], 4), "big")
        while left:
            if not 1 < following <= self.count:
                raise ValueError("an overflow page is missing")
            overflow = _exactly(self.page(following), self.size)
            parts.append(overflow[4 : 4 + min(left, usable - 4)])
            left -= len(parts[-1])
            following = int.from_bytes(overflow[:4], "big")
        return b"".join(parts)


def _exactly(data: bytes, length: int) -> bytes:
    if len(data) != length:
        raise ValueError("a record ends early")
    return data


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, place after it) of a variable-length integer, signed 64 bits."""
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            return value, place + 1
    value = value << 8 | data[at + 8]
    return value - (1 << 64) if value >> 63 else value, at + 9


def _values(payload: bytes) -> tuple[Value, ...]:
    end, at = _varint(payload, 0)
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: list[Value] = []
    for kind in kinds:
        if kind >= 12:
            size = (kind - 12) // 2
            data = _exactly(payload[at : at + size], size)
            values.append(data.decode() if kind % 2 else data)
        elif kind in _INTEGERS or kind == 7:
            size = _INTEGERS.get(kind, 8)
            data = _exactly(payload[at : at + size], size)
            values.append(struct.unpack(">d", data)[0] if kind == 7 else int.from_bytes(data, "big", signed=True))
        else:
            size = 0
            values.append({0: None, 8: 0, 9: 1}[kind] if kind in (0, 8, 9) else None)
        at += size
    return tuple(values)


def _logged(log: bytes, size: int) -> dict[int, bytes]:
    """Pages by number as the last whole transaction of a write-ahead log left them."""
    if len(log) < 32 or int.from_bytes(log[8:12], "big") != size:
        return {}
    order: str = "big" if log[3] & 1 else "little"
    sums = _log_sum(log[:24], (0, 0), order)
    if struct.unpack(">II", log[24:32]) != sums:
        return {}
    committed: dict[int, bytes] = {}
    pending: dict[int, bytes] = {}
    for at in range(32, len(log) - size - 23, size + 24):
        header, page = log[at : at + 24], log[at + 24 : at + 24 + size]
        sums = _log_sum(page, _log_sum(header[:8], sums, order), order)
        if header[8:16] != log[16:24] or struct.unpack(">II", header[16:24]) != sums:
            break
        number, pages = struct.unpack(">II", header[:8])
        pending[number] = page
        if pages:
            committed.update(pending)
            committed = {key: kept for key, kept in committed.items() if key <= pages}
            pending = {}
    return committed


def _log_sum(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    """SQLite's running checksum of a log."""
    one, two = sums
    words = struct.unpack(f"{'>' if order == 'big' else '<'}{len(data) // 4}I", data)
    for place in range(0, len(words), 2):
        one = (one + words[place] + two) & 0xFFFFFFFF
        two = (two + words[place + 1] + one) & 0xFFFFFFFF
    return one, two
