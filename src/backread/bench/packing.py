"""Records as they are published: what tables are remade from, a column for each value, a hundredth of the size.

`packed.json.xz` of a folder has every record but its lists of ids (`ranked`, `shown`, `gold_considered`), the seconds
of its steps, and the numbers among their details. What tables need of those is in `QuestionRecord.digest`. Questions
and their gold are named once; of a cell, each field is a list in the order of the questions.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from backread.bench.attribution import loss_stage
from backread.bench.records import BuildRecord, ConfigRecord, Digest, QuestionRecord, Record, StepRecord

__all__ = ["PACKED", "pack", "unpack"]

PACKED: Final = "packed.json.xz"

_OF_QUESTIONS: Final = ("user_id", "question_type", "abstention", "gold_turns", "gold_sessions")
_LEFT_OUT: Final = frozenset({"ranked", "shown", "gold_considered", "seconds", "cell", "question_id"})
_MEASURE: Final = "measure "


def pack(records: Sequence[Record], path: Path) -> int:
    """Write records to `path`; returns its bytes. Packing what was unpacked gives the same file."""
    questions: dict[str, dict[str, Any]] = {}
    cells: dict[str, list[QuestionRecord]] = {}
    others: list[dict[str, Any]] = []
    for record in records:
        if isinstance(record, QuestionRecord):
            questions.setdefault(record.question_id, {name: getattr(record, name) for name in _OF_QUESTIONS})
            cells.setdefault(record.cell.model_dump_json(), []).append(record)
        else:
            others.append(record.model_dump(exclude_defaults=True) | {"kind": record.kind})
    found = {
        "questions": dict(sorted(questions.items())),
        "cells": [[json.loads(cell), _columns(own)] for cell, own in cells.items()],
        "others": others,
    }
    data = lzma.compress(json.dumps(found, separators=(",", ":")).encode("ascii"), preset=9 | lzma.PRESET_EXTREME)
    path.write_bytes(data)
    return len(data)


def unpack(path: Path) -> Iterator[Record]:
    """The records of a packed file.

    Raises:
        OSError, lzma.LZMAError, ValueError, LookupError: it can't be read.
    """
    found = json.loads(lzma.decompress(path.read_bytes()))
    for other in found["others"]:
        yield (BuildRecord if other["kind"] == "build" else ConfigRecord).model_validate(other)
    for cell, columns in found["cells"]:
        names = list(columns)
        for values in zip(*columns.values(), strict=True):
            yield _record(found["questions"], cell, dict(zip(names, values, strict=True)))


def _columns(records: Sequence[QuestionRecord]) -> dict[str, list[Any]]:
    """Each field's values in the order of the questions, None where a record has its default."""
    rows = [_row(record) for record in sorted(records, key=lambda record: record.question_id)]
    names = sorted({name for row in rows for name in row})
    return {name: [row.get(name) for row in rows] for name in names}


def _row(record: QuestionRecord) -> dict[str, Any]:
    digest = Digest(spans=record.spans, rewritten=record.rewritten, stage=loss_stage(record))
    steps = tuple(StepRecord(name=step.name, detail=_words(step.detail)) for step in record.steps)
    slim = record.model_copy(update={"digest": digest, "steps": steps})
    row = slim.model_dump(exclude_defaults=True, exclude={*_LEFT_OUT, *_OF_QUESTIONS, "measures"})
    return {
        "question_id": record.question_id,
        **row,
        **{_MEASURE + name: value for name, value in record.measures.items()},
    }


def _words(detail: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in detail.items() if isinstance(value, str | bool)}


def _record(questions: Mapping[str, Any], cell: Mapping[str, Any], row: Mapping[str, Any]) -> QuestionRecord:
    given = {name: value for name, value in row.items() if value is not None and not name.startswith(_MEASURE)}
    measures = {name.removeprefix(_MEASURE): value for name, value in row.items() if name.startswith(_MEASURE)}
    return QuestionRecord.model_validate({"cell": cell, "measures": measures, **questions[row["question_id"]], **given})
