"""Reading an experiment's folder: which records count, what is missing, and what compares with what."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from bench_samples import FANCY, PLAIN, built, failed, judged, manifest, question

from backread.bench.records import ConfigRecord, QuestionRecord, Record
from backread.bench.results import Results, check_comparable, differences, of_records, read_results
from backread.errors import InvalidInputError

OTHER = "e" * 64


def results(*records: Record, data: dict[str, Any] | None = None, **changes: Any) -> Results:
    return of_records(manifest(**data or {}).model_copy(update=changes), records)


def folder(path: Path, records: Iterable[Record], tail: str = "") -> Path:
    (path / "manifest.json").write_text(manifest().model_dump_json(), encoding="utf-8")
    lines = [json.dumps(record.model_dump(mode="json")) + "\n" for record in records]
    (path / "records.jsonl").write_text("".join(lines) + tail, encoding="utf-8")
    return path


def test_the_last_line_of_a_key_counts_and_a_torn_one_does_not(tmp_path: Path) -> None:
    torn = json.dumps(judged(3, "correct").model_dump(mode="json"))[:-20]
    config = ConfigRecord(spec_hash="s1", config_hash="c1", config={"top_k": 5})
    lines: list[Record] = [
        failed(1),
        judged(2, "correct"),
        built("ann", failed=(("s9", "ModelRequestError"),)),
        judged(1, "incorrect"),
        built("ann"),
        config,
    ]
    found = read_results(folder(tmp_path, lines, torn))
    assert [(r.question_id, r.verdicts) for r in found.records(PLAIN.name)] == [
        ("q001", {"strict": "incorrect"}),
        ("q002", {"strict": "correct"}),
    ]
    assert [build.failed for build in found.builds] == [()]
    assert found.configs == {"c1": {"top_k": 5}}
    assert found.status.name == "ok"


def test_order_is_that_of_the_spec_and_of_ids_whatever_came_first() -> None:
    records = [question(2, FANCY), question(1, FANCY), question(2), question(1)]
    found = results(*records)
    assert found.cells == (PLAIN.name, FANCY.name)
    assert [record.question_id for record in found.records(FANCY.name)] == ["q001", "q002"]
    assert results(*records[::-1]) == found
    with pytest.raises(InvalidInputError, match="no records of a cell 'other'"):
        found.records("other")


def test_designs_of_another_version_leave_the_order_of_the_records() -> None:
    spec = {"designs": [{"strategy": "plain", "unheard_of": 1}]}
    assert results(question(1, FANCY), question(1), spec=spec).cells == (FANCY.name, PLAIN.name)


def test_records_of_two_experiments_are_never_mixed() -> None:
    with pytest.raises(InvalidInputError, match=r"plain/bm25/budget=200/q001 is of spec s2, the experiment is s1"):
        results(question(1, spec_hash="s2"))
    with pytest.raises(
        InvalidInputError, match=r"is of other data \(eeeeeeeeeeee\) than the experiment \(dddddddddddd\)"
    ):
        results(question(1, data_sha256=OTHER))
    with pytest.raises(InvalidInputError, match="no record of a question yet"):
        results(built("ann"))


# EVL-09
def test_a_failure_is_no_wrong_answer() -> None:
    # Ten questions: q2, q5 and q9 failed for good; the judge answered q7 at the third try, and that counts once.
    records: list[QuestionRecord] = [judged(number, "correct") for number in (1, 3, 4, 6, 8, 10)]
    records.append(question(7, verdicts={"strict": "incorrect"}, judge_tries={"strict": 3}))
    records += [failed(2), failed(5), failed(9)]
    found = results(*records)
    counts = found.counts(PLAIN.name)
    assert (counts.total, counts.error, counts.ok) == (10, 3, 7)
    assert (counts.scored, counts.unscored, counts.missing) == ({"strict": 7}, {"strict": 0}, 0)
    assert [record.question_id for record in found.errors()] == ["q002", "q005", "q009"]
    assert found.status.name == "degraded"
    assert found.status.reasons == (
        "3 of 10 records failed and are in no figure, at most 3 of 10 of a cell (plain/bm25/budget=200)",
    )


def test_what_is_missing_is_said() -> None:
    found = results(question(1), question(2), question(1, FANCY), data={"questions": 5})
    assert found.counts(FANCY.name).missing == 1
    assert found.status.reasons == (
        "2 of the 5 questions of the data have a record",
        "1 of 4 records are missing, at most 1 of 2 of a cell (fancy/bm25/budget=200)",
    )
    half_built = results(question(1), built("ann", failed=(("s1", "ModelRequestError"),)), built("ben"))
    assert half_built.status.name == "degraded"
    assert half_built.status.reasons == ("fancy: histories whose memory was not built whole: 1",)


@pytest.mark.parametrize(
    ("unscored", "of", "name"),
    [
        (0, 100, "ok"),
        (1, 100, "ok"),  # 1 % is allowed
        (2, 100, "failed"),
        (2, 200, "ok"),
        (3, 200, "failed"),
        (1, 99, "degraded"),  # 1.01 %, of too few to tell
    ],
)
def test_a_judge_that_cannot_be_read_fails_the_experiment(unscored: int, of: int, name: str) -> None:
    found = results(*(judged(n, "unscored" if n < unscored else "correct") for n in range(of)))
    assert found.status.name == name
    assert found.counts(PLAIN.name).unscored == {"strict": unscored}
    assert found.counts(PLAIN.name).scored == {"strict": of - unscored}


def test_one_unreadable_cell_is_not_hidden_by_the_others() -> None:
    bad = [judged(n, "unscored" if n < 2 else "correct", FANCY) for n in range(100)]
    found = results(*bad, *(judged(n, "correct") for n in range(100)))
    assert found.status.name == "failed"
    # over both cells it is 2 of 200, just 1 %
    assert found.status.reasons == ("fancy/bm25/budget=200: 2 of 100 verdicts of the strict judge can't be read",)


def test_equal_experiments_compare() -> None:
    first, second = (results(question(1), question(2), question(1, FANCY), question(2, FANCY)) for _ in range(2))
    assert differences(first, second).sentences == ()
    assert check_comparable(first, second) == ()


# EVL-09
def test_a_comparison_names_the_questions_that_only_one_has() -> None:
    first = results(question(1), question(2), failed(3))
    second = results(question(1), failed(2), question(3))
    with pytest.raises(InvalidInputError) as caught:
        check_comparable(first, second)
    assert "1 of the questions went well only in the first: q002" in str(caught.value)
    assert "1 of the questions went well only in the second: q003" in str(caught.value)
    assert check_comparable(first, second, strict=False) == (
        "1 of the questions went well only in the first: q002",
        "1 of the questions went well only in the second: q003",
    )


def test_other_data_never_compares() -> None:
    other = results(question(1, data_sha256=OTHER), data={"sha256": OTHER})
    with pytest.raises(InvalidInputError, match="of different data: dddddddddddd and eeeeeeeeeeee"):
        check_comparable(results(question(1)), other, strict=False)


def test_every_part_that_differs_is_named() -> None:
    first = results(question(1, prompts={"judge:strict": "p1", "answer": "a"}))
    second = results(
        question(1, prompts={"judge:strict": "p2", "answer": "a"}),
        spec=manifest().spec | {"models": {"judge": "b"}},
        versions={"python": "3.11.9", "scipy": "1.0"},
    )
    assert check_comparable(first, second) == (
        "models is None in the first and {'judge': 'b'} in the second",
        "backread was 0.1.0 and absent",
        "scipy was absent and 1.0",
        "the prompt 'judge:strict' differs",
    )


def test_long_lists_are_cut() -> None:
    first, second = results(*(question(n) for n in range(30))), results(question(0))
    found = differences(first, second)
    assert len(found.only_first) == 29
    assert found.sentences[0].endswith("q019, q020 and 9 more")
