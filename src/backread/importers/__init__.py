"""Files of other programs and of benchmarks, read into sessions; gold labels stay apart."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from backread.errors import NotFoundError
from backread.importers.base import Imported, ImportedSession, Importer, ImportReport, Irregularity, Question
from backread.importers.jsonl import read_jsonl
from backread.importers.locomo import read_locomo
from backread.importers.longmemeval import read_longmemeval

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

IMPORTERS: Mapping[str, Importer] = MappingProxyType(
    {"jsonl": read_jsonl, "locomo": read_locomo, "longmemeval": read_longmemeval}
)
"""Every importer by the name of its format."""


def importer(name: str) -> Importer:
    """The importer of the format `name`.

    Raises:
        NotFoundError: there is none; the message lists the names.
    """
    try:
        return IMPORTERS[name]
    except KeyError:
        raise NotFoundError(f"no importer is called {name!r}; there are {', '.join(sorted(IMPORTERS))}") from None
