"""Vectors kept by the text they are of, so that a text in a hundred haystacks is embedded once.

For the bench. A vector stays when the turn it was made for is deleted from a record, so this is not for a store with
anyone's memory in it: there the store keeps vectors, and erases them.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from backread.arrays import NDArray, np
from backread.errors import ModelOutputError, StoreBusyError, StoreCorruptError, StoreError
from backread.models.base import Embedder

__all__ = ["CachedEmbedder"]

Kind = Literal["document", "query"]

_APPLICATION_ID = 0x42524456  # "BRDV" in the file header, so that another program's database is refused
_BUSY_TIMEOUT_S = 60.0
_PAGE = 500  # keys a statement looks up
_SCHEMA = (
    """CREATE TABLE embedders(
        embedder_pk INTEGER PRIMARY KEY, fingerprint BLOB NOT NULL, kind TEXT NOT NULL,
        UNIQUE(fingerprint, kind)) STRICT""",
    """CREATE TABLE vectors(
        vector_pk INTEGER PRIMARY KEY, embedder_pk INTEGER NOT NULL, text_sha256 BLOB NOT NULL, vector BLOB NOT NULL,
        UNIQUE(embedder_pk, text_sha256)) STRICT""",
)


class CachedEmbedder:
    """An `Embedder` that asks another one only for texts whose vector isn't in a file yet.

    Vectors are kept by fingerprint, kind and the text's SHA-256, as little-endian float32, to the bit. Of the texts of
    one call that are not there the inner embedder gets each different one once, in their order, in one call. Threads
    may share it, and processes the file; two that miss the same text at the same time may both embed it.

    Args:
        inner: makes the vectors that are not there.
        path: the file; made, readable by its owner only, when missing.

    Raises:
        StoreError: the file can't be opened or isn't a file of vectors.
    """

    def __init__(self, inner: Embedder, path: Path) -> None:
        self._inner, self._path = inner, path
        self._lock = threading.Lock()
        self._pks: dict[tuple[str, Kind], int] = {}
        self._db: sqlite3.Connection | None = None
        with self._mapped():
            db = _connect(path)
            try:
                _prepare(db, path)
            except BaseException:
                db.close()
                raise
        self._db = db

    @property
    def name(self) -> str:
        """That of the inner embedder, as all that follows."""
        return self._inner.name

    @property
    def fingerprint(self) -> str:
        """See `Embedder`."""
        return self._inner.fingerprint

    @property
    def dimension(self) -> int:
        """See `Embedder`."""
        return self._inner.dimension

    @property
    def max_tokens(self) -> int:
        """See `Embedder`."""
        return self._inner.max_tokens

    def count_tokens(self, text: str) -> int:
        """See `Embedder`."""
        return self._inner.count_tokens(text)

    def embed(self, texts: Sequence[str], *, kind: Kind = "document") -> NDArray[np.float32]:
        """Unit vectors, float32, shape (len(texts), dimension), row i for texts[i].

        Raises:
            ModelError: the inner embedder can't be used, or gave vectors of another shape or that are not finite; what
                it gave is not kept.
            StoreError: the file can't be read or written.
        """
        dimension = self.dimension
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        if not keys:
            return np.empty((0, dimension), np.float32)
        embedder_pk = self._embedder_pk(kind)
        found = self._read(embedder_pk, list(dict.fromkeys(keys)), dimension)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            made = self._made(list(missing.values()), kind, dimension)
            rows = {key: row.tobytes() for key, row in zip(missing, made, strict=True)}
            self._write(embedder_pk, rows)
            found |= rows
        flat = np.frombuffer(b"".join(found[key] for key in keys), dtype="<f4")
        return flat.reshape(len(keys), dimension).astype(np.float32)  # a copy, which may be written to

    def close(self) -> None:
        """Close the file. Closing twice is fine; the inner embedder is left as it is."""
        with self._lock:
            db, self._db = self._db, None
        if db is not None:
            db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _made(self, texts: Sequence[str], kind: Kind, dimension: int) -> NDArray[np.float32]:
        made = self._inner.embed(texts, kind=kind)
        if made.shape != (len(texts), dimension) or not np.isfinite(made).all():
            raise ModelOutputError(
                f"{self.name} gave vectors of shape {made.shape} for {len(texts)} texts, or ones that are not finite"
            )
        return made.astype("<f4")

    def _embedder_pk(self, kind: Kind) -> int:
        key = (self.fingerprint, kind)
        if key not in self._pks:
            values = (key[0].encode("utf-8", "surrogatepass"), kind)
            with self._writing() as db:
                db.execute("INSERT OR IGNORE INTO embedders(fingerprint, kind) VALUES (?, ?)", values)
                sql = "SELECT embedder_pk FROM embedders WHERE fingerprint = ? AND kind = ?"
                self._pks[key] = db.execute(sql, values).fetchone()[0]
        return self._pks[key]

    def _read(self, embedder_pk: int, keys: Sequence[bytes], dimension: int) -> dict[bytes, bytes]:
        """The vectors that are there, by key."""
        found: dict[bytes, bytes] = {}
        with self._open() as db:
            for start in range(0, len(keys), _PAGE):
                page = keys[start : start + _PAGE]
                marks = ", ".join("?" * len(page))
                sql = f"SELECT text_sha256, vector FROM vectors WHERE embedder_pk = ? AND text_sha256 IN ({marks})"
                found.update(db.execute(sql, (embedder_pk, *page)))
        if any(len(vector) != 4 * dimension for vector in found.values()):
            raise _damaged(self._path, f"a vector has not {dimension} numbers")
        return found

    def _write(self, embedder_pk: int, rows: Mapping[bytes, bytes]) -> None:
        """Keep vectors; those that another thread or process kept meanwhile stay as they are."""
        with self._writing() as db:
            db.executemany(
                "INSERT OR IGNORE INTO vectors(embedder_pk, text_sha256, vector) VALUES (?, ?, ?)",
                [(embedder_pk, key, vector) for key, vector in rows.items()],
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time; never held while a model works."""
        with self._lock, self._mapped():
            if self._db is None:
                raise StoreError(f"{self._path}: the file of vectors is closed")
            yield self._db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """As `_open`, inside one write transaction."""
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Turn what SQLite and the system raise into our errors."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise StoreBusyError(f"{self._path}: another process kept it for {_BUSY_TIMEOUT_S:.0f} s") from error
            raise StoreError(f"{self._path}: {error}", hint="check its permissions and the free disk space") from error
        except sqlite3.DatabaseError as error:
            raise _damaged(self._path, str(error)) from error
        except OSError as error:
            raise StoreError(f"{self._path}: {error.strerror}", hint="choose a path that can be written") from error


def _damaged(path: Path, why: str) -> StoreCorruptError:
    return StoreCorruptError(f"{path}: {why}", hint="delete the file; its vectors are made again when they are needed")


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):  # a file that is there isn't opened: closing it would drop SQLite's locks on it
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    return sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables where there are none, and refuse a file of something else before anything is written to it."""
    db.execute("BEGIN")  # of one moment, also when another process is making the tables
    own, tables = _is_ours(db), db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    db.execute("ROLLBACK")
    if not own:
        if tables:
            raise StoreCorruptError(f"{path} is not a file of vectors", hint="choose another path")
        _write_ahead_log(db)
        db.execute("BEGIN IMMEDIATE")
        if not _is_ours(db):  # no other process was faster
            for statement in _SCHEMA:
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        db.execute("COMMIT")
    db.execute("PRAGMA synchronous = NORMAL")  # a power cut may cost the last vectors, which can be made again


def _is_ours(db: sqlite3.Connection) -> bool:
    return bool(db.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION_ID)


def _write_ahead_log(db: sqlite3.Connection) -> None:
    """Switch to WAL. SQLite doesn't wait on this one statement when several processes open a new file, so we do."""
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
