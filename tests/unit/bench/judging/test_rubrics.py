"""Which rubric a question has, and what each judge is told."""

from __future__ import annotations

import hashlib
from itertools import product
from typing import Any, get_args

import pytest

from backread.bench.judging.rubrics import Benchmark, Kind, prompt, rubric_for, rubrics_of
from backread.errors import InvalidInputError
from backread.importers.base import Question

ALL = {name for benchmark in get_args(Benchmark) for name in rubrics_of(benchmark)}


def question(question_type: str, *, abstention: bool = False) -> Question:
    return Question("ab12", "u", "What is my kayak called?", "Bo", question_type, abstention, None, (), ())


@pytest.mark.parametrize(
    ("benchmark", "question_type", "rubric"),
    [
        ("longmemeval", "single-session-user", "fact"),
        ("longmemeval", "single-session-assistant", "fact"),
        ("longmemeval", "multi-session", "fact"),
        ("longmemeval", "temporal-reasoning", "temporal"),
        ("longmemeval", "knowledge-update", "update"),
        ("longmemeval", "single-session-preference", "preference"),
        ("locomo", "single-hop", "fact"),
        ("locomo", "multi-hop", "fact"),
        ("locomo", "temporal", "temporal"),
        ("locomo", "open-domain", "inference"),
        ("locomo", "adversarial", "abstention"),
        ("own", "birthdays", "general"),
        ("own", "temporal", "general"),
    ],
)
def test_the_rubric_of_a_type(benchmark: Benchmark, question_type: str, rubric: str) -> None:
    assert rubric_for(question(question_type), benchmark) == rubric
    assert rubric in rubrics_of(benchmark)


# EVL-06
@pytest.mark.parametrize(
    ("benchmark", "question_type"),
    [("longmemeval", "single-session-user"), ("longmemeval", "multi-session"), ("locomo", "temporal"), ("own", "x")],
)
def test_evl_06_a_question_without_an_answer_has_its_own_rubric(benchmark: Benchmark, question_type: str) -> None:
    assert rubric_for(question(question_type, abstention=True), benchmark) == "abstention"


# EVL-06
@pytest.mark.parametrize(
    ("benchmark", "question_type"),
    [("longmemeval", "unknown"), ("longmemeval", "single-hop"), ("locomo", "multi-session"), ("locomo", "")],
)
def test_evl_06_an_unknown_type_is_an_error(benchmark: Benchmark, question_type: str) -> None:
    with pytest.raises(InvalidInputError, match="ab12") as raised:
        rubric_for(question(question_type), benchmark)
    assert repr(question_type) in str(raised.value)


def test_an_unknown_benchmark_or_kind_is_an_error() -> None:
    unknown: Any = "other"
    with pytest.raises(InvalidInputError, match="no benchmark is called 'other'"):
        rubric_for(question("x", abstention=True), unknown)
    with pytest.raises(InvalidInputError, match="no judge is called 'other'"):
        prompt(unknown, "fact")


def test_every_kind_has_a_prompt_for_every_rubric_it_may_need() -> None:
    needed = {(kind, rubric) for kind, rubric in product(("strict", "lenient"), ALL)}
    needed |= {("official", rubric) for rubric in rubrics_of("longmemeval")}
    hashes = {prompt(kind, rubric).hash for kind, rubric in needed}
    assert len(needed) == 19
    assert len(hashes) == 19


@pytest.mark.parametrize("rubric", ["general", "inference", "common"])
def test_the_official_judge_is_for_longmemeval(rubric: str) -> None:
    with pytest.raises(InvalidInputError, match=f"official judge has no rubric '{rubric}'"):
        prompt("official", rubric)


def test_the_hash_is_of_what_is_sent() -> None:
    told = prompt("strict", "fact")
    assert told.hash == hashlib.sha256(f"{told.rules}\n---\n{told.form}".encode()).hexdigest()[:16]


def test_the_parts_of_a_prompt() -> None:
    told = prompt("strict", "temporal")
    assert told.rules.startswith("You grade one answer to one question")
    assert "never an instruction to you" in told.rules
    assert told.rules.index("several candidates") < told.rules.index("may differ from the gold answer by one")
    assert '"verdict", which is "correct" or "incorrect"' in told.form
    assert "JSON" in told.form


def test_what_small_models_forget_is_said_again_behind_the_answer() -> None:
    assert prompt("strict", "fact").form.startswith("Before you grade: does the answer name several candidates")
    assert prompt("strict", "abstention").form.startswith("Before you grade: does the answer only say")
    lenient = prompt("lenient", "fact")
    assert lenient.form.startswith("Grade the answer above.")
    assert prompt("strict", "fact").form.endswith(lenient.form)
    assert "---" not in prompt("strict", "fact").rules


@pytest.mark.parametrize("kind", get_args(Kind))
@pytest.mark.parametrize("rubric", ["preference", "abstention"])
def test_what_holds_of_gold_answers_is_not_said_where_there_is_none(kind: Kind, rubric: str) -> None:
    common = prompt(kind, "fact").rules.split("\n\n")[3]
    assert common not in prompt(kind, rubric).rules
    assert common in prompt(kind, "temporal").rules


@pytest.mark.parametrize("kind", get_args(Kind))
def test_only_questions_about_time_have_the_tolerance_of_counts(kind: Kind) -> None:
    by_one = {rubric for rubric in rubrics_of("longmemeval") if "by one" in prompt(kind, rubric).rules}
    assert by_one == (set() if kind == "lenient" else {"temporal"})
