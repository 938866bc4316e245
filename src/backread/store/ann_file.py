"""The file of a nearest-neighbour index: the graph, what it was built from, and a checksum, replaced as one.

    graph (usearch) | JSON header | SHA-256 of all before | length of the header, 4 bytes | mark, 8 bytes

A damaged graph would send the search outside the mapped memory, so the checksum is read before the graph is.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import mmap
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from backread import forking
from backread.arrays import NDArray, np
from backread.errors import MissingExtraError
from backread.store.scan import Place

if TYPE_CHECKING:
    from usearch.index import Index

__all__ = [
    "FORMAT",
    "INSTALL",
    "DamagedIndexError",
    "Header",
    "MappedIndex",
    "build_graph",
    "identity",
    "installed",
    "need_usearch",
    "sync_folder",
    "written",
]

INSTALL = "pip install 'backread[ann]'"
FORMAT = 1

_MARK = b"BRDANN\r\n"
_CHECKSUM_BYTES = 32
_CONNECTIVITY = 16
_EXPANSION_ADD = 128


class DamagedIndexError(Exception):
    """The file is not what was written; it is left to its owner to build it again."""


@dataclass(frozen=True, slots=True)
class Header:
    """What an index was built from.

    Attributes:
        corpus: name of the corpus.
        embedder: fingerprint whose vectors are in it.
        dimension: of the vectors.
        rows: how many vectors are in it.
        until: it has all rows before this place.
        last: checksum (hex) of the last row in the store: the index belongs to this record and no other.
        format: of the file.
    """

    corpus: str
    embedder: str
    dimension: int
    rows: int
    until: Place
    last: str
    format: int = FORMAT


def installed() -> bool:
    """True when usearch can be imported."""
    return importlib.util.find_spec("usearch") is not None


def need_usearch() -> None:
    """Raise MissingExtraError when usearch is not installed."""
    if not installed():
        raise MissingExtraError(f"a vector index needs usearch, which is not installed: {INSTALL}", hint=INSTALL)


def build_graph(dimension: int) -> Index:
    """An empty graph of int8 vectors; usearch's `Index`.

    Raises:
        MissingExtraError: usearch is not installed.
    """
    need_usearch()
    from usearch.index import Index

    return Index(
        ndim=dimension,
        metric="cos",
        dtype="i8",
        connectivity=_CONNECTIVITY,
        expansion_add=_EXPANSION_ADD,
        enable_key_lookups=False,
    )


@contextmanager
def written(path: Path, graph: Index, header: Header) -> Iterator[Path]:
    """A finished file beside `path`, readable by its owner only, for the caller to put in its place."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            graph.save(str(part))
        except RuntimeError as error:
            raise OSError(str(error)) from error
        with part.open("r+b") as file:
            digest = hashlib.file_digest(file, "sha256")
            text = json.dumps(asdict(header)).encode()
            digest.update(text)
            file.seek(0, os.SEEK_END)
            file.write(text + digest.digest() + len(text).to_bytes(4, "little") + _MARK)
            file.flush()
            os.fsync(file.fileno())
        yield part
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()


class MappedIndex:
    """An index opened for reading. The graph stays in the file; processes that map it share its memory.

    Raises:
        DamagedIndexError: the file is not what was written.
        OSError: it can't be read.
    """

    def __init__(self, path: Path) -> None:
        self._lock = forking.Lock()
        with path.open("rb") as file:
            self.identity = identity(os.fstat(file.fileno()))
            try:
                self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as error:
                raise DamagedIndexError("it is empty") from error
        self.header, end = _checked(self._memory)
        self._graph = build_graph(self.header.dimension)
        try:
            self._graph.view(memoryview(self._memory)[:end])
        except (RuntimeError, ValueError) as error:  # another version of usearch wrote it
            raise DamagedIndexError(str(error)) from error

    def nearest(self, query: NDArray[np.float32], count: int) -> NDArray[np.int64]:
        """Keys of about the `count` vectors nearest to the query, ascending; fewer when there are fewer."""
        # A list of `count` is searched: usearch widens it to what is asked for. Its scratch memory is the thread's
        # number in the call, which is 0 here in every thread of ours.
        with self._lock:
            found = self._graph.search(query, count, threads=1)
        return np.sort(np.asarray(found.keys).astype(np.int64))


def identity(stat: os.stat_result) -> tuple[int, int, int]:
    """What tells a file from one that took its name."""
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def sync_folder(folder: Path) -> None:
    """Make names that came or went durable, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checked(memory: mmap.mmap) -> tuple[Header, int]:
    """(header, where the graph ends) of a file that is as it was written."""
    tail = len(memory) - len(_MARK) - 4
    if tail < _CHECKSUM_BYTES or memory[-len(_MARK) :] != _MARK:
        raise DamagedIndexError("it has no end")
    body = tail - _CHECKSUM_BYTES
    end = body - int.from_bytes(memory[tail : tail + 4], "little")
    with memoryview(memory) as view, view[: max(body, 0)] as content:
        if end < 0 or hashlib.sha256(content).digest() != memory[body:tail]:
            raise DamagedIndexError("it does not match its checksum")
    fields = json.loads(memory[end:body])
    if fields.get("format") != FORMAT:
        raise DamagedIndexError(f"it has format {fields.get('format')!r}, this version of backread reads {FORMAT}")
    return Header(**{**fields, "until": Place(*fields["until"])}), end
