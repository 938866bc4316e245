"""Two experiments: what is refused, what is said, and over which questions they differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_samples import FANCY, PLAIN, failed, judged, manifest, question, results

from backread.bench.comparing import compare_folders, compare_results
from backread.bench.results import Results, of_records
from backread.errors import InvalidInputError


def marked(marks: str, tokens: int = 100) -> Results:
    """A question a mark in one cell: "+" correct, "-" incorrect, "!" failed."""
    said = {"+": "correct", "-": "incorrect"}
    given = [{"user_id": f"u{n % 3}", "tokens": tokens} for n in range(len(marks))]
    return results(
        failed(n, **more) if mark == "!" else judged(n, said[mark], **more)  # type: ignore[arg-type]
        for n, (mark, more) in enumerate(zip(marks, given, strict=True))
    )


def test_only_questions_that_went_well_in_both_count() -> None:
    # Common: q0 -+, q1 ++, q2 -+, q4 +-: from 2/4 to 3/4; q3 failed in the first, q5 in the second.
    found = compare_results(marked("-+-!+-"), marked("+++--!", tokens=80))
    strict = next(row for row in found.rows if row.measure == "accuracy:strict")
    assert (strict.cell, strict.n, strict.first, strict.second, strict.mean) == (PLAIN.name, 4, 0.5, 0.75, 0.25)
    assert strict.p == 1.0  # two against one
    assert strict.low is not None
    assert strict.high is not None
    assert strict.low <= 0.25 <= strict.high
    tokens = next(row for row in found.rows if row.measure == "tokens")
    assert (tokens.first, tokens.second, tokens.mean) == (100, 80, -20)
    assert found.notes == (
        "1 of the questions went well only in the first: q005",
        "1 of the questions went well only in the second: q003",
    )


def test_other_data_is_refused() -> None:
    other = of_records(manifest(sha256="e" * 64), [question(0, data_sha256="e" * 64)])
    with pytest.raises(InvalidInputError, match="different data"):
        compare_results(marked("+"), other)


def test_cells_that_only_one_has_are_left_out() -> None:
    first = results([judged(0, "correct"), judged(0, "correct", FANCY)])
    assert {row.cell for row in compare_results(first, marked("-")).rows} == {PLAIN.name}
    with pytest.raises(InvalidInputError, match=f"no cell '{FANCY.name}' in common"):
        compare_results(first, marked("-"), cell=FANCY.name)
    with pytest.raises(InvalidInputError, match="no cell in common"):
        compare_results(results([judged(0, "correct", FANCY)]), marked("-"))


def test_folders_are_read(tmp_path: Path) -> None:
    for name, verdict in (("a", "correct"), ("b", "incorrect")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(manifest().model_dump_json(), encoding="utf-8")
        (tmp_path / name / "records.jsonl").write_text(judged(0, verdict).model_dump_json() + "\n", encoding="utf-8")
    row = compare_folders(tmp_path / "a", tmp_path / "b").rows[0]
    assert (row.measure, row.mean, row.low, row.family) == ("accuracy:strict", -1.0, None, 1)
    with pytest.raises(InvalidInputError, match="holds no experiment"):
        compare_folders(tmp_path / "a", tmp_path / "c")
