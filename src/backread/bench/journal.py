"""The files of an experiment, written so that a kill loses nothing and nothing is run twice.

A folder holds `manifest.json` (what all records share), `records.jsonl` (ids, numbers, hashes: may be published) and
`texts.jsonl` (words: never published; a .gitignore says so). Lines are appended whole; a torn last line is
cut off when the folder is opened again. Of two lines with one key the last one counts.
"""

from __future__ import annotations

import json
import lzma
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Annotated, BinaryIO, Final, Self

import pydantic
from filelock import FileLock, Timeout

from backread.bench.packing import PACKED, unpack
from backread.bench.records import BuildRecord, ConfigRecord, Manifest, QuestionRecord, Record, Texts
from backread.errors import InvalidInputError, StoreBusyError

__all__ = ["Journal", "read_manifest", "read_records", "read_texts"]

MANIFEST: Final = "manifest.json"
RECORDS: Final = "records.jsonl"
TEXTS: Final = "texts.jsonl"
_SYNC_SECONDS: Final = 1.0

_RECORD: pydantic.TypeAdapter[Record] = pydantic.TypeAdapter(
    Annotated[QuestionRecord | BuildRecord | ConfigRecord, pydantic.Field(discriminator="kind")]
)


def read_manifest(folder: Path) -> Manifest:
    """What all records of an experiment share.

    Raises:
        InvalidInputError: there is no experiment in the folder.
    """
    try:
        return Manifest.model_validate_json((folder / MANIFEST).read_bytes())
    except OSError as error:
        hint = "name the folder that `backread bench run` wrote"
        raise InvalidInputError(f"{folder} holds no experiment: {error.strerror}", hint=hint) from error
    except pydantic.ValidationError as error:
        raise InvalidInputError(f"{folder / MANIFEST} can't be read: {error.errors()[0]['msg']}") from error


def read_records(folder: Path) -> list[Record]:
    """The records that count, in the order they were last written; a torn last line is not there yet.

    Of a folder that has only packed records, those.

    Raises:
        InvalidInputError: a line that is no record, with its number, or packed records that can't be read.
    """
    packed = folder / PACKED
    if packed.exists() and not (folder / RECORDS).exists():
        try:
            return list(unpack(packed))
        except (OSError, lzma.LZMAError, ValueError, LookupError) as error:
            raise InvalidInputError(f"{packed} can't be read: {error}") from error
    found: dict[tuple[str, ...], Record] = {}
    for number, line in _lines(folder / RECORDS):
        try:
            record = _RECORD.validate_python(json.loads(line))
        except pydantic.ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(map(str, fault["loc"]))
            raise InvalidInputError(f"{folder / RECORDS}, line {number}: {where}: {fault['msg']}") from error
        except ValueError as error:
            raise InvalidInputError(f"{folder / RECORDS}, line {number}: {error}") from error
        key = (record.kind, *record.key)
        found.pop(key, None)
        found[key] = record
    return list(found.values())


def read_texts(folder: Path) -> dict[tuple[str, str], Texts]:
    """The words of records by (cell name, question id); none where they were not kept."""
    texts = (Texts.model_validate(json.loads(line)) for _, line in _lines(folder / TEXTS))
    return {(item.cell, item.question_id): item for item in texts}


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Whole lines with their numbers, from 1; none where there is no file."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n") and line.strip():
                yield number, line


class Journal:
    """The open folder of one experiment; one process at a time, any number of threads.

    Args:
        folder: made when missing.
        manifest: of the experiment about to run.

    Attributes:
        folder: as given.
        done: the records that were there.

    Raises:
        InvalidInputError: the folder holds another experiment: another spec, or other data.
        StoreBusyError: another process runs in it.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(folder / ".lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise StoreBusyError(f"another process runs the experiment in {folder}", hint="wait for it") from error
        self._writing = threading.Lock()
        self._synced = 0.0
        try:
            self._agree(manifest)
            self._records = _whole_lines(folder / RECORDS)
            self._texts = _whole_lines(folder / TEXTS)
            self.done = read_records(folder)
        except BaseException:
            self._lock.release()
            raise

    def _agree(self, manifest: Manifest) -> None:
        """Keep the manifest, or check that the one that is there is of the same experiment."""
        (self.folder / ".gitignore").write_text(f"{TEXTS}\n.lock\n", encoding="utf-8")
        path = self.folder / MANIFEST
        if not path.exists():
            draft = path.with_suffix(".draft")
            draft.write_text(manifest.model_dump_json(indent=1) + "\n", encoding="utf-8")
            draft.replace(path)
            return
        there = read_manifest(self.folder)
        same_data = all(there.dataset.get(n) == manifest.dataset.get(n) for n in ("sha256", "overlay_sha256"))
        if there.spec_hash != manifest.spec_hash or not same_data:
            parts = [name for name in manifest.spec if there.spec.get(name) != manifest.spec[name]]
            differs = ", ".join(parts if same_data else [*parts, "the data"]) or "the version of the spec"
            raise InvalidInputError(
                f"{self.folder} holds another experiment (it differs in: {differs}); records of two are never mixed",
                hint="name another folder with --out",
            )

    def write(self, record: Record, texts: Texts | None = None) -> None:
        """Append a record, and its words first, so that a record that is there has them.

        A kill of the process loses nothing that was written, a power cut at most the last second.
        """
        with self._writing:
            if texts is not None:
                _append(self._texts, texts)
            _append(self._records, record)
            if time.monotonic() > self._synced + _SYNC_SECONDS:
                self._sync()

    def _sync(self) -> None:
        for file in (self._texts, self._records):
            os.fsync(file.fileno())
        self._synced = time.monotonic()

    def close(self) -> None:
        """Close the files and let another process in."""
        self._sync()
        self._records.close()
        self._texts.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _whole_lines(path: Path) -> BinaryIO:
    """The file open for appending, without a torn last line."""
    file = path.open("a+b")
    size = file.seek(0, os.SEEK_END)
    keep = size
    while keep:
        file.seek(keep - 1)
        if file.read(1) == b"\n":
            break
        keep -= 1
    if keep < size:
        file.truncate(keep)
    return file


def _append(file: BinaryIO, row: Record | Texts) -> None:
    fields = row.model_dump(exclude_defaults=True)
    if not isinstance(row, Texts):
        fields = {"kind": row.kind, **fields}
    # As ASCII: a lone surrogate in a stored text can't make a line that isn't UTF-8.
    file.write(json.dumps(fields).encode("ascii") + b"\n")
    file.flush()
