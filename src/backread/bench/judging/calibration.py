"""How a judge grades answers that are known to be right or wrong: the figures that belong beside every score.

The shipped answers are made up, each of a kind: right ones in other words, formats and languages; wrong ones that are
plain wrong, vague, hedged over several candidates, that never commit, deny the gold answer, give only a part of it, are
outdated, or try to talk to the judge. They say what a judge lets pass, not how often such answers occur.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from backread.bench.judging.judge import Graded, Judge
from backread.importers.base import Question

__all__ = [
    "MOST_ACCEPTED_WRONG",
    "MOST_REJECTED_RIGHT",
    "Calibration",
    "KindCount",
    "KnownAnswer",
    "calibrate",
    "known",
]

MOST_ACCEPTED_WRONG = 0.1
"""The share of known-wrong answers that a judge may accept before a report warns that its scores are too high.

Designs often differ by a few points, and a judge that passes more than every tenth wrong answer can add as much. The
one in general use for LoCoMo passed 62.81% of vague answers."""

MOST_REJECTED_RIGHT = 0.1
"""The share of known-right answers that a judge may reject before a report warns that its scores are too low."""


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """An answer of which it is known whether it is right.

    Attributes:
        answer_id: "shop:3", question and place.
        kind: what is right or wrong about it: "other words", "vague", "hedged", …
        rubrics: the rubrics it may be graded by, the closest first.
    """

    answer_id: str
    kind: str
    right: bool
    rubrics: tuple[str, ...]
    question: Question
    hypothesis: str


@dataclass(frozen=True, slots=True)
class KindCount:
    """Of the answers of one kind: how many had a verdict, how many of these a wrong one, and how many had none."""

    right: bool
    scored: int
    misjudged: int
    unscored: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a judge made of the known answers that fit its benchmark. Unscored ones are in no share.

    Attributes:
        accepted_wrong: known-wrong answers it called correct.
        rejected_right: known-right answers it called incorrect.
        n_wrong: known-wrong answers with a verdict.
        n_right: known-right answers with a verdict.
        unscored: answers without one.
        by_kind: the same by kind, right kinds first.
        graded: what it said of each answer, by id, in order.
    """

    accepted_wrong: int
    rejected_right: int
    n_wrong: int
    n_right: int
    unscored: int
    by_kind: Mapping[str, KindCount]
    graded: Mapping[str, Graded]

    @property
    def accepted_share(self) -> float | None:
        """Of the known-wrong answers, the share it accepted; None when none had a verdict."""
        return self.accepted_wrong / self.n_wrong if self.n_wrong else None

    @property
    def rejected_share(self) -> float | None:
        """Of the known-right answers, the share it rejected; None when none had a verdict."""
        return self.rejected_right / self.n_right if self.n_right else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to say beside every score of this judge: one sentence for each limit it is above."""
        found = []
        if self.accepted_share is not None and self.accepted_share > MOST_ACCEPTED_WRONG:
            found.append(
                f"the judge accepted {self.accepted_wrong} of {self.n_wrong} known-wrong answers"
                f" (limit {MOST_ACCEPTED_WRONG:.0%}): scores are too high"
            )
        if self.rejected_share is not None and self.rejected_share > MOST_REJECTED_RIGHT:
            found.append(
                f"the judge rejected {self.rejected_right} of {self.n_right} known-right answers"
                f" (limit {MOST_REJECTED_RIGHT:.0%}): scores are too low"
            )
        return tuple(found)


@cache
def known() -> tuple[KnownAnswer, ...]:
    """The shipped answers, in a fixed order."""
    lines = files("backread.bench.judging").joinpath("calibration.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(answer for line in lines for answer in _answers(json.loads(line)))


def calibrate(judge: Judge, *, on_graded: Callable[[KnownAnswer, Graded], None] | None = None) -> Calibration:
    """What `judge` makes of the known answers whose rubric it has; one call each, one after the other.

    Args:
        judge: graded as any other question would be: it can't tell a known answer from a real one.
        on_graded: told of every answer as it is graded.

    Raises:
        ModelError: the endpoint could not do its work.
    """
    done: list[tuple[KnownAnswer, Graded]] = []
    for answer in known():
        rubric = next((name for name in answer.rubrics if name in judge.prompts), None)
        if rubric is None:
            continue
        graded = judge.grade_as(rubric, answer.question, answer.hypothesis)
        done.append((answer, graded))
        if on_graded is not None:
            on_graded(answer, graded)
    kinds = dict.fromkeys((answer.kind, answer.right) for answer, _ in sorted(done, key=lambda pair: not pair[0].right))
    counts = {kind: _count(done, kind, right) for kind, right in kinds}
    right = [count for count in counts.values() if count.right]
    wrong = [count for count in counts.values() if not count.right]
    return Calibration(
        accepted_wrong=sum(count.misjudged for count in wrong),
        rejected_right=sum(count.misjudged for count in right),
        n_wrong=sum(count.scored for count in wrong),
        n_right=sum(count.scored for count in right),
        unscored=sum(count.unscored for count in counts.values()),
        by_kind=MappingProxyType(counts),
        graded=MappingProxyType({answer.answer_id: graded for answer, graded in done}),
    )


def _count(done: list[tuple[KnownAnswer, Graded]], kind: str, right: bool) -> KindCount:
    verdicts = [graded.verdict for answer, graded in done if answer.kind == kind]
    unscored = verdicts.count("unscored")
    misjudged = verdicts.count("incorrect" if right else "correct")
    return KindCount(right, len(verdicts) - unscored, misjudged, unscored)


def _answers(row: Mapping[str, Any]) -> Iterator[KnownAnswer]:
    """The answers of one question."""
    rubrics = tuple(row["rubrics"])
    question = Question(
        question_id=row["id"],
        user_id="calibration",
        question=row["question"],
        answer=row["gold"],
        question_type=rubrics[0],
        abstention="abstention" in rubrics,
        asked_at=datetime.fromisoformat(row["asked_at"]) if "asked_at" in row else None,
        gold_turns=(),
        gold_sessions=(),
        trap=row.get("trap"),
    )
    for number, answer in enumerate(row["answers"]):
        yield KnownAnswer(f"{row['id']}:{number}", answer["kind"], answer["right"], rubrics, question, answer["text"])
