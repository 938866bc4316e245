"""What records add up to; every expected figure is worked by hand."""

from __future__ import annotations

from typing import Any

import pytest
from bench_samples import FANCY, PLAIN, built, failed, judged, question, results, used

from backread.bench.records import QuestionRecord, Record, ShownLine
from backread.bench.rows import DegradedRow, ErrorRow, Excluded
from backread.bench.tables import (
    accuracy_rows,
    build_rows,
    control_rows,
    degraded_rows,
    error_rows,
    failure_row,
    loss_row,
    mean_of,
    measure_rows,
    quality_rows,
    seconds_row,
    spent_rows,
    tokens_row,
    type_rows,
    value_of,
)

CELL = PLAIN.name


def gold(number: int, value: float | None, **changes: Any) -> QuestionRecord:
    given = {"gold_turns": ("t1",), "measures": {"turn:R@2": value}}
    return question(number, **given | changes)


# --- values


@pytest.mark.parametrize(
    ("record", "name", "expected"),
    [
        (judged(1, "correct"), "accuracy:strict", 1.0),
        (judged(1, "incorrect"), "accuracy:strict", 0.0),
        (judged(1, "unscored"), "accuracy:strict", None),
        (judged(1, "correct"), "accuracy:lenient", None),
        (failed(1, verdicts={"strict": "correct"}, tokens=5), "accuracy:strict", None),
        (failed(1, tokens=5), "tokens", None),
        (question(1, tokens=0), "tokens", 0.0),
        (question(1), "tokens", None),
        (question(1, measures={"F1": 0.5}), "F1", 0.5),
        (question(1, measures={"F1": None}), "F1", None),
        (question(1, measures={"F1": 0.5}, abstention=True), "F1", 0.5),
        (question(1, measures={"abstention:strict": 1.0}, abstention=True), "abstention:strict", 1.0),
        (question(1, measures={"turn:R@5": 1.0}, abstention=True), "turn:R@5", None),
        (question(1, measures={"coverage:words": 1.0}, abstention=True), "coverage:words", None),
    ],
)
def test_value_of_a_record(record: QuestionRecord, name: str, expected: float | None) -> None:
    assert value_of(record, name) == expected


def test_a_mean_knows_whose_questions_are_related() -> None:
    # Ann 1, 1 and Ben 0, 0: mean 0.5. SE^2 = 2/1 / 16 * ((2 - 1)^2 + (0 - 1)^2) = 0.25, t(1 df, 0.975) = 12.7062.
    records = [judged(n, "correct" if n < 2 else "incorrect", user_id="ann" if n < 2 else "ben") for n in range(4)]
    found = mean_of(records, "accuracy:strict")
    assert (found.mean, found.n, found.clusters) == (0.5, 4, 2)
    assert found.low == pytest.approx(0.5 - 12.7062 * 0.5, abs=1e-3)
    assert found.error == pytest.approx(0.5)


# --- measures


# EVL-05
def test_questions_without_gold_are_in_no_retrieval_measure() -> None:
    # R@2: q1 finds 1 of 1, q2 finds 1 of 2; q3 has no answer in the history, q4 no gold. Success 1 and 1, all 1 and 0.
    both = {"turn:R@2": 0.5, "turn:Success@2": 1.0, "turn:AllEvidence@2": 0.0}
    none = dict.fromkeys(both)
    records = [
        question(1, gold_turns=("t1",), measures=dict.fromkeys(both, 1.0)),
        question(2, gold_turns=("t1", "t3"), measures=both),
        question(3, abstention=True, measures=none),
        question(4, measures=none),
    ]
    rows = {row.name: row for row in measure_rows(results(records), CELL)}
    assert {name: row.interval.mean for name, row in rows.items()} == {
        "turn:R@2": 0.75,
        "turn:Success@2": 1.0,
        "turn:AllEvidence@2": 0.5,
    }
    for row in rows.values():
        assert (row.interval.n, row.excluded, row.excluded.total) == (2, Excluded(1, 1, 0), 2)
        assert (row.level, row.k) == ("turn", 2)
    assert rows["turn:R@2"].definition == "share of the gold items among the first k of the ranking"
    assert "any gold item" in rows["turn:Success@2"].definition


def test_an_abstention_question_with_gold_turns_is_left_out_all_the_same() -> None:
    rows = measure_rows(results([gold(1, 0.5), gold(2, 1.0, abstention=True)]), CELL)
    assert (rows[0].interval.mean, rows[0].interval.n, rows[0].excluded) == (0.5, 1, Excluded(1, 0, 0))


def test_every_measure_says_what_its_gold_items_are() -> None:
    names = (
        "session:nDCG@10",
        "turn:RR",
        "coverage:words",
        "session:coverage:claimed",
        "F1",
        "abstention:strict",
        "new",
    )
    record = question(1, gold_turns=("t",), gold_sessions=("s",), measures=dict.fromkeys(names, 1.0))
    rows = {row.name: row for row in measure_rows(results([record]), CELL)}
    assert {name: (row.level, row.k) for name, row in rows.items()} == {
        "session:nDCG@10": ("session", 10),
        "turn:RR": ("turn", None),
        "coverage:words": ("turn", None),
        "session:coverage:claimed": ("session", None),
        "F1": ("answer", None),
        "abstention:strict": ("answer", None),
        "new": ("turn", None),
    }
    assert rows["session:coverage:claimed"].definition.startswith("share of the gold turns (or sessions)")
    assert rows["new"].definition == ""


def test_undefined_for_another_reason_is_counted_apart() -> None:
    records = [gold(1, None), question(2, gold_sessions=("s",), measures={"session:R@2": None})]
    rows = {row.name: row for row in measure_rows(results(records), CELL)}
    assert rows["turn:R@2"].excluded == Excluded(0, 1, 1)  # q2 has no gold turn, q1 has one and no value
    assert rows["session:R@2"].excluded == Excluded(0, 1, 1)  # and here it is the other way round
    assert rows["turn:R@2"].interval.mean is None


# --- accuracy


# EVL-09
def test_failed_and_unread_answers_are_in_the_lower_bound_only() -> None:
    records = [judged(n, verdict) for n, verdict in enumerate(["correct"] * 3 + ["incorrect"] * 2 + ["unscored"])]
    row = accuracy_rows(results([*records, failed(6), failed(7)]), CELL)[0]
    assert (row.judge, row.correct, row.unscored, row.total) == ("strict", 3, 1, 8)
    assert (row.interval.mean, row.interval.n) == (0.6, 5)
    assert row.lower == 3 / 8
    assert row.undisputed is None


def test_accuracy_without_disputed_questions_stands_beside_the_other() -> None:
    records = [judged(0, "correct"), judged(1, "correct"), judged(2, "incorrect"), judged(3, "incorrect")]
    row = accuracy_rows(results(records, disputed={"q000": "TEMPORAL", "q999": "TEMPORAL"}), CELL)[0]
    assert row.interval.mean == 0.5
    assert row.undisputed is not None
    assert row.undisputed.mean == pytest.approx(1 / 3)
    assert row.undisputed.n == 3


def test_judges_have_rows_of_their_own() -> None:
    record = question(1, verdicts={"lenient": "correct", "strict": "incorrect"})
    rows = accuracy_rows(results([record]), CELL)
    assert [(row.judge, row.interval.mean) for row in rows] == [("strict", 0.0), ("lenient", 1.0)]
    assert accuracy_rows(results([question(1)]), CELL) == ()


def test_types_by_name_and_abstention_out_of_them() -> None:
    records = [
        judged(1, "correct", question_type="temporal"),
        judged(2, "incorrect", question_type="fact"),
        judged(3, "correct", question_type="fact", measures={"F1": 0.5}),
        judged(4, "incorrect", question_type="fact", abstention=True),
        failed(5, question_type="fact"),
    ]
    rows = type_rows(results(records), CELL, ["accuracy:strict", "F1"])
    assert [(row.question_type, row.n, row.values["accuracy:strict"].mean) for row in rows] == [
        ("fact", 2, 0.5),
        ("temporal", 1, 1.0),
        ("abstention", 1, 0.0),
    ]
    assert (rows[0].values["F1"].mean, rows[0].values["F1"].n) == (0.5, 1)


def test_control_is_the_share_of_vague_answers_that_pass() -> None:
    said = [("correct", "correct"), ("incorrect", "correct"), ("incorrect", "unscored")]
    records = [
        question(n, verdicts={"strict": "correct", "lenient": "correct"}, control={"strict": one, "lenient": other})
        for n, (one, other) in enumerate(said)
    ]
    rows = control_rows(results([*records, judged(9, "correct")]))
    assert [(row.judge, row.passed, row.graded, row.unscored, row.share) for row in rows] == [
        ("strict", 1, 3, 0, pytest.approx(1 / 3)),
        ("lenient", 2, 2, 1, 1.0),
    ]
    assert control_rows(results([judged(1, "correct")])) == ()


def test_quality_leaves_out_what_was_not_graded() -> None:
    records = [question(1, quality={"detail": 4, "entities": None}), question(2, quality={"detail": 1}), question(3)]
    rows = quality_rows(results(records), CELL)
    assert [(row.dimension, row.interval.mean, row.interval.n) for row in rows] == [
        ("detail", 2.5, 2),
        ("entities", None, 0),
    ]


# --- costs


def test_tokens_and_prompts_are_two_things() -> None:
    records = [
        question(1, tokens=100, counter="estimate", usage=(used("answer", 1, 300),)),
        question(2, tokens=200, counter="estimate", usage=(used("answer", 1, None),)),
        question(3, tokens=0, counter="estimate", overflow=True),
        failed(4, tokens=900),
    ]
    row = tokens_row(results(records), CELL)
    assert (row.context.mean, row.context.n) == (100.0, 3)
    assert (row.prompt.mean, row.prompt.n) == (300.0, 1)  # of q2 unknown, q3 was not answered
    assert (row.counters, row.overflow) == (("estimate",), 1)


def test_calls_are_per_question_failed_ones_too() -> None:
    records = [
        question(1, usage=(used("answer", 1, 300, 20), used("recall", 3, 900, 60, cost=0.5, unpriced=0))),
        question(2, usage=(used("answer", 1, None, None),)),
        failed(3, usage=(used("answer", 2, 600, 40),)),
    ]
    rows = {row.usage.purpose: row for row in spent_rows(results(records), CELL)}
    assert list(rows) == ["recall", "answer"]
    answer = rows["answer"]
    assert (answer.questions, answer.usage.calls, answer.usage.uncounted) == (3, 4, 1)
    assert answer.each(answer.usage.input_tokens) == 300  # 900 of the counted calls over three questions
    assert answer.each(answer.usage.cost) is None
    assert rows["recall"].each(rows["recall"].usage.cost) == pytest.approx(0.5 / 3)


def test_seconds_are_medians_by_stage() -> None:
    records = [question(n, seconds={"recall": s, "answer": 10 * s}) for n, s in enumerate((1.0, 2.0, 9.0))]
    assert seconds_row(results([*records, question(9)]), CELL) == {"recall": 2.0, "answer": 20.0}


def test_building_is_summed_by_design() -> None:
    builds = [
        built("ann", put=3, seconds=1.0, usage=(used("build", 10, 1000, 100),)),
        built("ben", put=4, seconds=5.0, usage=(used("build", 20, 3000, 300),), failed=(("s1", "ModelRequestError"),)),
        built("ann", "other", usage=(used("build", 1, None),)),
    ]
    rows = {row.strategy: row for row in build_rows(results([question(1), *builds]))}
    fancy = rows["fancy"]
    assert (fancy.histories, fancy.put, fancy.failed, fancy.usage[0].calls) == (2, 7, 1, 30)
    assert (fancy.tokens, fancy.tokens_each) == (4400, 2200.0)
    assert (fancy.seconds, fancy.median_seconds) == (6.0, 3.0)
    assert (rows["other"].tokens, rows["other"].tokens_each) == (None, None)  # a call that nobody counted
    assert "plain" not in rows


# --- what was lost


def test_wrong_answers_by_cause() -> None:
    causes = ["retrieval miss", "retrieval miss", "QA reasoning error", None]
    records = [judged(n, "incorrect", attribution=cause) for n, cause in enumerate(causes)]
    row = failure_row(results([*records, judged(8, "correct"), failed(9)]), CELL)
    assert row.parts == {"retrieval miss": 2, "memory-editing loss": 0, "QA reasoning error": 1}
    assert (row.untold, row.of) == (1, 4)


def test_evidence_by_how_far_it_came() -> None:
    line = ShownLine(kind="verbatim", rank=0, sources=(("a", 0, None),))
    records = [
        question(1, gold_turns=("a",), gold_considered=("a",), shown=(line,)),
        question(2, gold_turns=("a", "b"), gold_considered=("a", "b"), shown=(line,)),
        question(3, gold_turns=("a", "b"), gold_considered=("a",), shown=(line,)),
        question(4),  # no gold
        question(5, gold_turns=("a",), abstention=True),
    ]
    row = loss_row(results(records), CELL)
    assert (row.parts, row.untold, row.of) == ({"not ranked": 1, "over budget": 1, "shown": 1}, 0, 3)


def test_failures_and_shortfalls_are_gathered_over_cells() -> None:
    note = ("rerank", "reranking was skipped", 3)
    records: list[Record] = [
        failed(1),
        failed(2),
        failed(2, FANCY),
        question(3, degraded=(note, ("dense", "2 vectors pending", None))),
        question(3, FANCY, degraded=(note,)),
        built("ann", degraded=(note,)),
    ]
    found = results(records)
    befell = ((CELL, "q001"), (CELL, "q002"), (FANCY.name, "q002"))
    assert error_rows(found) == (ErrorRow("answer", "ModelRequestError", "the endpoint is down", befell),)
    assert degraded_rows(found) == (
        DegradedRow("rerank", "reranking was skipped", (CELL, FANCY.name, "build of fancy"), 3, 9),
        DegradedRow("dense", "2 vectors pending", (CELL,), 1, None),
    )


def test_nothing_known_is_none_and_never_zero() -> None:
    found = results([question(1)])
    tokens = tokens_row(found, CELL)
    assert (tokens.context.mean, tokens.prompt.mean) == (None, None)
    assert measure_rows(found, CELL) == ()
    assert (build_rows(found), spent_rows(found, CELL), seconds_row(found, CELL)) == ((), (), {})
    assert failure_row(found, CELL).of == 0
