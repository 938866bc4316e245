"""Where a question was lost: found, kept, shown, understood."""

from __future__ import annotations

from typing import Any

import pytest

from backread.bench.attribution import attribute, loss_stage
from backread.bench.records import Failure, QuestionRecord, ShownLine
from backread.bench.spec import Cell


def line(*turns: str, kind: Any = "verbatim", cut: bool = False) -> ShownLine:
    return ShownLine(kind=kind, rank=0, sources=tuple((turn, 0, None) for turn in turns), cut=cut)


def record(*shown: ShownLine, considered: str = "ab", gold: str = "ab", **fields: Any) -> QuestionRecord:
    given: dict[str, Any] = {
        "spec_hash": "0" * 16,
        "data_sha256": "0" * 64,
        "backread": "0.1.0",
        "cell": Cell(strategy="naive_rag", budget=500),
        "question_id": "q",
        "user_id": "u",
        "question_type": "multi-hop",
        "abstention": False,
        "status": "ok",
        "gold_turns": tuple(gold),
        "gold_considered": tuple(considered),
        "shown": shown,
        "verdicts": {"strict": "incorrect", "lenient": "correct"},
    }
    return QuestionRecord(**given | fields)


class TestAttribute:
    @pytest.mark.parametrize(
        ("shown", "considered", "sufficient", "cause"),
        [
            ([line("a")], "a", None, "retrieval miss"),
            ([line("a"), line("b")], "a", None, "retrieval miss"),  # what was not looked at goes first
            ([line("a")], "a", True, "retrieval miss"),
            ([line("a"), line("x")], "ab", None, "memory-editing loss"),
            ([], "ab", None, "memory-editing loss"),
            ([line("a")], "ab", True, "memory-editing loss"),
            ([line("a"), line("b")], "ab", False, "memory-editing loss"),
            ([line("a"), line("b")], "ab", None, "QA reasoning error"),
            ([line("a"), line("b")], "ab", True, "QA reasoning error"),
            ([line("b", "x"), line("a")], "bax", None, "QA reasoning error"),
        ],
    )
    def test_the_first_cause_that_applies(
        self, shown: list[ShownLine], considered: str, sufficient: bool | None, cause: str
    ) -> None:
        assert attribute(record(*shown, considered=considered), sufficient=sufficient) == cause

    @pytest.mark.parametrize("spoiled", [line("b", kind="rewrite"), line("b", kind="summary"), line("b", cut=True)])
    def test_only_a_judge_knows_what_a_cut_or_rewritten_line_has_lost(self, spoiled: ShownLine) -> None:
        lines = (line("a"), spoiled)
        assert attribute(record(*lines)) is None
        assert attribute(record(*lines), sufficient=True) == "QA reasoning error"
        assert attribute(record(*lines), sufficient=False) == "memory-editing loss"
        assert attribute(record(*lines, line("b"))) == "QA reasoning error"  # whole in another line

    @pytest.mark.parametrize(
        "fields",
        [
            {"verdicts": {"strict": "correct", "lenient": "incorrect"}},
            {"verdicts": {"strict": "unscored"}},
            {"verdicts": {}},
            {"gold": ""},
            {"abstention": True},
            {"status": "error", "failure": Failure(stage="judge", error="ModelRequestError", message="down")},
        ],
    )
    def test_what_has_no_cause(self, fields: dict[str, Any]) -> None:
        assert attribute(record(line("a"), **fields)) is None
        assert attribute(record(line("a"), **fields), sufficient=False) is None


class TestLossStage:
    @pytest.mark.parametrize(
        ("shown", "considered", "stage"),
        [
            ([], "", "not ranked"),
            ([line("a")], "a", "not ranked"),
            ([line("a")], "ab", "over budget"),
            ([line("a"), line("b")], "ab", "shown"),
            ([line("a", "b", kind="summary")], "ab", "shown"),
            ([line("a"), line("b", cut=True)], "ab", "shown"),
        ],
    )
    def test_of_the_turn_that_came_least_far(self, shown: list[ShownLine], considered: str, stage: str) -> None:
        assert loss_stage(record(*shown, considered=considered, verdicts={})) == stage

    def test_nothing_to_tell(self) -> None:
        failure = Failure(stage="recall", error="ModelRequestError", message="down")
        assert loss_stage(record(gold="")) is None
        assert loss_stage(record(abstention=True)) is None
        assert loss_stage(record(status="error", failure=failure)) is None
