"""Packed records: what tables need is kept, lists of ids are not, and packing again changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from backread.bench.attribution import loss_stage
from backread.bench.journal import read_records
from backread.bench.packing import PACKED, pack
from backread.bench.records import BuildRecord, ConfigRecord, QuestionRecord, Record, ShownLine, StepRecord
from backread.bench.spec import Cell
from backread.errors import InvalidInputError

OWNER = {"spec_hash": "aa", "data_sha256": "d1", "backread": "0"}


def record(question_id: str, *, budget: int = 330, **given: object) -> QuestionRecord:
    values = {
        **OWNER,
        "cell": Cell(strategy="trailmem", budget=budget),
        "question_id": question_id,
        "user_id": "ann",
        "question_type": "plain",
        "abstention": False,
        "status": "ok",
        "gold_turns": ("t1", "t2"),
        "gold_sessions": ("s1",),
    }
    return QuestionRecord.model_validate(values | given)


SHOWN = record(
    "q1",
    ranked=("t2", "t1", "t9"),
    gold_considered=("t1", "t2"),
    shown=(
        ShownLine(kind="verbatim", rank=0, sources=(("t2", 0, None),)),
        ShownLine(kind="rewrite", rank=1, sources=(("t1", 0, 9),)),
    ),
    tokens=120,
    measures={"turn:R@5": 0.5, "F1": None},
    seconds={"recall": 0.25},
    steps=(StepRecord(name="look", seconds=0.5, detail={"stop": "full", "gain": 0.25}),),
    verdicts={"strict": "correct"},
)
MISSED = record("q2", gold_considered=("t1",), measures={"turn:R@5": 0.0}, degraded=(("dense", "pending", 3),))
FAILED = record("q3", status="error", abstention=True, gold_turns=())
BUILT = BuildRecord.model_validate(
    {**OWNER, "strategy": "trailmem", "user_id": "ann", "put": 3, "dropped": 0, "seconds": 1.5}
)
CONFIG = ConfigRecord(spec_hash="aa", config_hash="c1", config={"top_k": 50})


def test_what_tables_need_is_kept(tmp_path: Path) -> None:
    records: list[Record] = [CONFIG, SHOWN, MISSED, BUILT, FAILED, record("q1", budget=500)]
    pack(records, tmp_path / PACKED)
    read = {found.key: found for found in read_records(tmp_path)}
    assert read[BUILT.key] == BUILT
    assert read[CONFIG.key] == CONFIG
    one = read[SHOWN.key]
    assert isinstance(one, QuestionRecord)
    assert (one.ranked, one.shown, one.gold_considered, one.seconds) == ((), (), (), {})
    assert (one.spans, one.rewritten, loss_stage(one)) == (SHOWN.spans, True, "shown")
    assert (one.tokens, one.measures, one.verdicts) == (120, SHOWN.measures, SHOWN.verdicts)
    assert one.steps == (StepRecord(name="look", detail={"stop": "full"}),)
    two, three = read[MISSED.key], read[FAILED.key]
    assert isinstance(two, QuestionRecord)
    assert isinstance(three, QuestionRecord)
    assert (loss_stage(two), two.rewritten, two.degraded) == ("not ranked", False, MISSED.degraded)
    assert (three.status, three.abstention, loss_stage(three)) == ("error", True, None)
    assert {found.key for found in records} == set(read)


def test_packing_again_changes_nothing(tmp_path: Path) -> None:
    pack([SHOWN, MISSED, BUILT], tmp_path / PACKED)
    first = (tmp_path / PACKED).read_bytes()
    pack(read_records(tmp_path), tmp_path / PACKED)
    assert (tmp_path / PACKED).read_bytes() == first


def test_spans_have_no_order_and_tell_stretches_apart() -> None:
    lines = SHOWN.shown
    assert record("q", shown=lines[::-1]).spans == SHOWN.spans
    assert record("q", shown=lines[:1]).spans != SHOWN.spans
    longer = ShownLine(kind="rewrite", rank=1, sources=(("t1", 0, 10),))
    assert record("q", shown=(lines[0], longer)).spans != SHOWN.spans


@pytest.mark.parametrize("data", [b"", b"not packed", b"\xfd7zXZ\x00"])
def test_a_damaged_file_is_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / PACKED).write_bytes(data)
    with pytest.raises(InvalidInputError, match="can't be read"):
        read_records(tmp_path)
