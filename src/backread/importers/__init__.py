"""Files of other programs and of benchmarks, read into sessions; gold labels stay apart."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, cast

from backread.importers.base import Imported, ImportedSession, Importer, ImportReport, Irregularity, Question
from backread.importers.jsonl import read_jsonl
from backread.importers.locomo import read_locomo
from backread.importers.longmemeval import read_longmemeval
from backread.registry import Kind

__all__ = [
    "IMPORTERS",
    "ImportReport",
    "Imported",
    "ImportedSession",
    "Importer",
    "Irregularity",
    "Question",
    "importer",
    "read_jsonl",
    "read_locomo",
    "read_longmemeval",
]

_FORMATS: Final = ("jsonl", "locomo", "longmemeval")

IMPORTERS: Final = Kind(
    "importer", "importers", MappingProxyType({name: f"backread.importers.{name}:read_{name}" for name in _FORMATS})
)
"""Every importer by the name of its format; a package adds an `Importer`."""


def importer(name: str) -> Importer:
    """The importer of the format `name`.

    Raises:
        NotFoundError: there is none; the hint lists the names.
        InvalidInputError: the name is of something that can't be called.
    """
    found = IMPORTERS.find(name)
    IMPORTERS.said(name, found, ())
    return cast(Importer, found)
