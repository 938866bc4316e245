"""The known answers, and what is told of a judge that graded them."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, get_args

import pytest

from backread.bench.judging.calibration import (
    MOST_ACCEPTED_WRONG,
    Calibration,
    KindCount,
    KnownAnswer,
    calibrate,
    known,
)
from backread.bench.judging.judge import Graded, Judge
from backread.bench.judging.rubrics import Benchmark, Kind, prompt, rubrics_of
from backread.errors import ModelRequestError
from backread.testing.fakes import ChatRequest, FakeChat, FunctionChat


def says(verdict: str) -> str:
    return json.dumps({"reason": "", "verdict": verdict})


class Knowing:
    """Replies with the truth about a known answer, but for those of the kinds given."""

    def __init__(self, *mistaken: str, reply: str | None = None) -> None:
        self._mistaken, self._reply = mistaken, reply

    def __call__(self, request: ChatRequest) -> str:
        (answer,) = [item for item in known() if self._asks(request.messages[1].content, item)]
        right = answer.right
        if answer.kind in self._mistaken:
            if self._reply is not None:
                return self._reply
            right = not right
        return says("correct" if right else "incorrect")

    @staticmethod
    def _asks(content: str, answer: KnownAnswer) -> bool:
        return f">\n{answer.question.question}\n</" in content and f">\n{answer.hypothesis}\n</answer" in content


def run(reply: Any, benchmark: Benchmark = "own") -> Calibration:
    return calibrate(Judge(FunctionChat(reply), benchmark=benchmark))


class TestKnownAnswers:
    def test_what_is_shipped(self) -> None:
        assert Counter(answer.right for answer in known()) == {True: 21, False: 38}
        assert len({answer.answer_id for answer in known()}) == 59
        assert {"vague", "hedged", "uncommitted", "negated", "wrong", "partial", "instruction"} <= {
            answer.kind for answer in known()
        }

    def test_a_kind_is_right_or_wrong_but_never_both(self) -> None:
        kinds = {(answer.kind, answer.right) for answer in known()}
        assert len(kinds) == len({kind for kind, _ in kinds})

    @pytest.mark.parametrize("benchmark", get_args(Benchmark))
    def test_every_rubric_has_right_and_wrong_ones(self, benchmark: Benchmark) -> None:
        named = {(rubric, answer.right) for answer in known() for rubric in answer.rubrics}
        assert named >= {(rubric, right) for rubric in rubrics_of(benchmark) for right in (True, False)}

    @pytest.mark.parametrize("kind", get_args(Kind))
    def test_no_prompt_tells_the_judge_a_known_answer(self, kind: Kind) -> None:
        rubrics = (
            rubrics_of("longmemeval") if kind == "official" else {name for item in known() for name in item.rubrics}
        )
        told = " ".join(prompt(kind, rubric).rules + prompt(kind, rubric).form for rubric in rubrics).lower()
        shown = " ".join(re.findall(r"\w+", told))
        for item in known():
            for text in (item.question.question, item.question.answer or "", item.question.trap, item.hypothesis):
                words = " ".join(re.findall(r"\w+", (text or "-").lower()))
                assert f" {words} " not in f" {shown} " or not words

    def test_a_question_of_the_set(self) -> None:
        answer = next(item for item in known() if item.answer_id == "tractor:4")
        assert (answer.kind, answer.right, answer.hypothesis) == (
            "guess after refusal",
            False,
            "Not mentioned, but probably red.",
        )
        assert (answer.question.abstention, answer.question.trap) == (True, "red")


class TestCalibrate:
    # EVL-08
    def test_evl_08_a_judge_that_knows(self) -> None:
        found = run(Knowing())
        # of 59: all but the five of the rubric "preference", two of them right
        assert (found.accepted_wrong, found.n_wrong, found.rejected_right, found.n_right) == (0, 35, 0, 19)
        assert (found.accepted_share, found.rejected_share, found.unscored, found.warnings) == (0.0, 0.0, 0, ())

    # EVL-08
    def test_evl_08_a_judge_that_passes_everything(self) -> None:
        found = run(lambda request: says("correct"))
        assert (found.accepted_wrong, found.n_wrong, found.rejected_right) == (35, 35, 0)
        assert found.accepted_share == 1.0
        assert found.warnings == ("the judge accepted 35 of 35 known-wrong answers (limit 10%): scores are too high",)

    def test_a_judge_that_passes_nothing(self) -> None:
        found = run(lambda request: says("incorrect"))
        assert (found.accepted_wrong, found.rejected_right, found.n_right, found.rejected_share) == (0, 19, 19, 1.0)
        assert found.warnings == ("the judge rejected 19 of 19 known-right answers (limit 10%): scores are too low",)

    # EVL-08
    def test_evl_08_by_kind_a_judge_that_lets_vague_answers_pass(self) -> None:
        found = run(Knowing("vague"))
        vague = [answer for answer in known() if answer.kind == "vague"]
        assert found.by_kind["vague"] == KindCount(right=False, scored=len(vague), misjudged=len(vague), unscored=0)
        assert found.by_kind["hedged"].misjudged == 0
        assert found.accepted_wrong == len(vague) == 11
        assert found.accepted_wrong / 35 > MOST_ACCEPTED_WRONG
        assert len(found.warnings) == 1

    def test_right_kinds_come_first(self) -> None:
        rights = [count.right for count in run(Knowing()).by_kind.values()]
        assert rights == sorted(rights, reverse=True)

    def test_the_unscored_are_in_no_share(self) -> None:
        found = run(Knowing("vague", reply="I cannot judge this"))
        assert (found.unscored, found.n_wrong, found.accepted_wrong, found.accepted_share) == (11, 24, 0, 0.0)
        assert found.by_kind["vague"] == KindCount(right=False, scored=0, misjudged=0, unscored=11)

    def test_without_any_verdict_there_is_no_share(self) -> None:
        found = run(lambda request: "I cannot judge this")
        assert (found.accepted_share, found.rejected_share, found.warnings, found.unscored) == (None, None, (), 54)

    @pytest.mark.parametrize(("benchmark", "count"), [("locomo", 49), ("longmemeval", 54), ("own", 54)])
    # of 59: LoCoMo has no rubric "update" or "preference", LongMemEval no "inference", with five answers each
    def test_only_what_fits_the_benchmark_is_graded(self, benchmark: Benchmark, count: int) -> None:
        found = run(Knowing(), benchmark)
        assert len(found.graded) == count
        assert {graded.rubric for graded in found.graded.values()} == set(rubrics_of(benchmark))

    def test_every_reply_is_kept_and_told(self) -> None:
        told: list[tuple[str, Graded]] = []
        judge = Judge(FunctionChat(Knowing()), benchmark="own")
        found = calibrate(judge, on_graded=lambda answer, graded: told.append((answer.answer_id, graded)))
        assert dict(told) == found.graded
        assert found.graded["shop:0"].raw == (says("correct"),)

    def test_a_judge_that_is_down_is_an_error(self) -> None:
        with pytest.raises(ModelRequestError):
            calibrate(Judge(FakeChat({}), benchmark="own"))
