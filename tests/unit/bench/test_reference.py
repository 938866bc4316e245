"""Published figures: every row is there, and the flags say what the figures allow."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from fractions import Fraction

import pytest

from backread.bench.reference import PROTOCOLS, ReferenceRow, check, rows
from backread.errors import InvalidInputError

ROWS = rows()


def made_up(protocol: str, **values: str) -> ReferenceRow:
    figures = {name.replace("__", ":").replace("_", "-"): Decimal(text) for name, text in values.items()}
    return ReferenceRow("s", "t", "LoCoMo", protocol, "b", "j", "m", "", figures, {}, {}, None, "")


def test_every_row_of_the_papers_is_there() -> None:
    found = Counter((row.source.split(",")[0], row.table) for row in ROWS)
    assert found == {
        ("T2Mem", "Table 1"): 20,
        ("T2Mem", "Table 2"): 20,
        ("T2Mem", "Table 3"): 10,
        ("T2Mem", "Table 5"): 10,
        ("LeanMem", "main results"): 27,
        ("LeanMem", "ablations"): 12,  # six variants on two data sets
        ("LazyMem", "results"): 2,
        ("LightMem", "LoCoMo results"): 12,
        ("LightMem", "LoCoMo costs"): 6,
        ("LightMem", "LoCoMo baselines"): 12,
        ("Reproducing LightMem", "Table 3, as reproduced"): 5,
        ("Reproducing LightMem", "Table 3, as in the original"): 5,
        ("Reproducing LightMem", "Table 4"): 12,
        ("Reproducing LightMem", "Table 5"): 6,
        ("Reproducing LightMem", "Table 6"): 6,
        ("Reproducing LightMem", "Table 7"): 10,
        ("Reproducing LightMem", "Table 8"): 12,
        ("Reproducing LightMem", "Figure 4"): 4,
        ("Reproducing LightMem", "Figure 5"): 2,
        ("Reproducing LightMem", "Section 6.2"): 1,
    }


def test_protocols_have_the_questions_of_the_benchmarks() -> None:
    assert {name: sum(sizes.values()) for name, sizes in PROTOCOLS.items()} == {
        "locomo": 1540,
        "locomo, five runs": 7700,
        "longmemeval": 500,
        "longmemeval, five runs": 2500,
        "longmemeval, user turns": 444,
    }


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row.table} {row.backbone} {row.judge} {row.method} {row.setting}"
)
def test_flags_are_those_of_the_rule(row: ReferenceRow) -> None:
    found = check(row)
    assert row.consistent is found.consistent, found.faults
    assert {name: row.counts.get(name) for name in found.counts} == dict(found.counts)
    if row.consistent is False:
        assert row.note, "what isn't possible has a reason beside it, or says that none was found"


@pytest.mark.parametrize("row", [row for row in ROWS if row.counts], ids=lambda row: f"{row.table} {row.method}")
def test_counts_give_the_printed_figures(row: ReferenceRow) -> None:
    # Also those that were found by hand, with another number of questions. One row is cut to its digits, not rounded.
    for name, (right, size) in row.counts.items():
        unit = Fraction(Decimal(1).scaleb(int(row.values[name].as_tuple().exponent)))
        off = Fraction(100 * right, size) - Fraction(row.values[name])
        assert -unit / 2 <= off <= (unit if "cut to two digits, not rounded" in row.note else unit / 2), name


def test_a_consistent_row_and_its_average() -> None:
    # 167/282 = 59.22, 243/321 = 75.70, 48/96 = 50.00, 646/841 = 76.81; 1104/1540 = 71.69
    row = next(row for row in rows(dataset="LoCoMo", source="T2Mem") if row.method == "T2Mem")
    assert row.counts == {
        "accuracy:multi-hop": (167, 282),
        "accuracy:temporal": (243, 321),
        "accuracy:open-domain": (48, 96),
        "accuracy:single-hop": (646, 841),
        "accuracy:overall": (1104, 1540),
    }
    assert row.consistent is True
    assert str(row.values["accuracy:overall"]) == "71.69"


def test_which_rows_are_flagged() -> None:
    found = {
        (row.source.split(",")[0], row.dataset, row.backbone[:4], row.method, row.setting)
        for row in ROWS
        if row.consistent is False
    }
    study = {setting for source, _, _, _, setting in found if source == "Reproducing LightMem"}
    assert study == {
        f"{name}, top-10"
        for name in ("all-MiniLM-L6-v2", "Qwen3-Emb-0.6B", "Qwen3-Emb-4B", "PromptReps-hybrid", "MiniLM+BM25")
    }
    assert {item for item in found if item[0] != "Reproducing LightMem"} == {
        ("T2Mem", "LoCoMo", "Qwen", "LazyMem", ""),
        ("T2Mem", "LoCoMo", "Gemm", "LazyMem", ""),
        ("T2Mem", "LoCoMo", "Qwen", "AnchorMem", ""),
        ("T2Mem", "LoCoMo", "Gemm", "AnchorMem", ""),
        ("T2Mem", "LoCoMo", "Qwen", "HiMem", ""),
        ("T2Mem", "LoCoMo", "Gemm", "HiMem", ""),
        ("T2Mem", "LoCoMo", "Gemm", "MemoryOS", ""),
        ("T2Mem", "LoCoMo", "Qwen", "w/o Rawdata", ""),
        ("T2Mem", "LoCoMo", "Qwen", "w/o Metadata", ""),
        ("T2Mem", "LoCoMo", "Gemm", "w/o Metadata", ""),
        ("T2Mem", "LongMemEval-S", "Qwen", "EverMemOS", ""),
        ("T2Mem", "LongMemEval-S", "Qwen", "xMemory", ""),
        ("T2Mem", "LongMemEval-S", "Qwen", "AnchorMem", ""),
        ("T2Mem", "LongMemEval-S", "Gemm", "w/o Metadata", ""),
        ("LeanMem", "LoCoMo", "GPT-", "LightMem", ""),
        ("LeanMem", "LoCoMo", "Qwen", "A-Mem", ""),
        ("LeanMem", "LoCoMo", "Qwen", "LeanMem", ""),
        ("LeanMem", "LongMemEval-S", "GPT-", "LightMem", ""),
        ("LightMem", "LoCoMo", "qwen", "LightMem", "th 768, r 0.4"),
        ("LightMem", "LoCoMo", "gpt-", "LightMem", "th 768, r 0.8"),
    }


TYPES = {"accuracy__multi_hop": "50.00", "accuracy__temporal": "33.33", "accuracy__open_domain": "25.00"}


@pytest.mark.parametrize(
    ("single_hop", "overall", "faults"),
    [
        # 141/282, 107/321, 24/96 and 421/841 make 693/1540 = 45.00
        ("50.06", "45.00", 0),
        ("50.06", "45.01", 1),
        ("50.00", "45.00", 1),  # 420.5/841; what the types pool to can't be told any more
    ],
)
def test_an_average_must_be_that_of_its_types(single_hop: str, overall: str, faults: int) -> None:
    found = check(made_up("locomo", accuracy__single_hop=single_hop, accuracy__overall=overall, **TYPES))
    assert (len(found.faults), found.consistent) == (faults, not faults)


def test_an_overall_figure_alone_must_be_possible() -> None:
    # 5390/7700 = 70 exactly; 5391 is 70.013, 5392 is 70.026
    assert check(made_up("locomo, five runs", accuracy__overall="70.00")).counts == {"accuracy:overall": (5390, 7700)}
    assert check(made_up("locomo, five runs", accuracy__overall="70.02")).faults == (
        "accuracy:overall 70.02 is no rounding of k/7700",
    )
    assert check(made_up("longmemeval, user turns", accuracy__overall="78.8")).counts == {
        "accuracy:overall": (350, 444)
    }
    assert check(made_up("locomo", accuracy__overall="100.01")).consistent is False
    assert check(made_up("", accuracy__overall="70.01")).consistent is None


def test_an_overall_recall_lies_where_its_types_put_it() -> None:
    # (72 * 0.5 + 121 * 0.2) / 193 = 0.3119; one digit in the last place either way is rounding
    def of(overall: str) -> ReferenceRow:
        values = {
            "recall@10:knowledge-update": "0.500",
            "recall@10:multi-session": "0.200",
            "recall@10:overall": overall,
        }
        figures = {name: Decimal(text) for name, text in values.items()}
        return ReferenceRow("", "", "", "longmemeval, user turns", "", "", "", "", figures, {}, {}, None, "")

    assert [check(of(text)).consistent for text in ("0.310", "0.311", "0.312", "0.313")] == [False, True, True, False]


def test_rows_can_be_chosen() -> None:
    assert {row.dataset for row in rows(dataset="LongMemEval-S")} == {"LongMemEval-S"}
    assert {row.source for row in rows(source="LazyMem")} == {"LazyMem, README of an anonymous submission"}
    with pytest.raises(InvalidInputError, match="BEAM"):
        rows(dataset="BEAM")


def test_marks_of_the_study_are_kept() -> None:
    row = next(row for row in ROWS if row.table == "Table 4" and row.setting == "BM25, top-10")
    assert row.marks == {
        "recall@10:knowledge-update": "a",
        "recall@10:multi-session": "a",
        "accuracy:multi-session": "ab",
        "recall@10:single-session-preference": "a",
        "accuracy:single-session-preference": "ab",
        "recall@10:single-session-user": "a",
        "recall@10:temporal-reasoning": "a",
        "recall@10:overall": "a",
        "accuracy:overall": "ab",
    }
