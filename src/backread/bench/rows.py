"""The rows that `tables` makes of records. Shares and means are numbers, never text; what can't be told is None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backread.bench.records import PurposeUsage
from backread.bench.stats.intervals import Interval

__all__ = [
    "AccuracyRow",
    "BuildRow",
    "ControlRow",
    "DegradedRow",
    "ErrorRow",
    "Excluded",
    "MeasureRow",
    "QualityRow",
    "SpentRow",
    "SplitRow",
    "TokensRow",
    "TypeRow",
]


@dataclass(frozen=True, slots=True)
class Excluded:
    """Questions that a measure is undefined for, by why: no answer in the history, no gold label, or neither."""

    abstention: int = 0
    no_gold: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.abstention + self.no_gold + self.other


@dataclass(frozen=True, slots=True)
class MeasureRow:
    """The mean of a measure in a cell.

    Attributes:
        name: as in records ("turn:R@5").
        level: what its gold items are: "turn", "session", …; "answer" of measures of an answer.
        k: its cut-off, None without one.
        definition: in one line.
        interval: over the `interval.n` questions that it is defined for.
        excluded: the others.
    """

    name: str
    level: str
    k: int | None
    definition: str
    interval: Interval
    excluded: Excluded


@dataclass(frozen=True, slots=True)
class AccuracyRow:
    """Right answers by one judge.

    Attributes:
        correct: answers the judge called correct.
        unscored: verdicts that can't be read.
        total: questions of the cell, failed and unscored ones too.
        interval: accuracy over the scored ones.
        lower: accuracy over all, as if what failed or couldn't be read were wrong; None of no questions.
        undisputed: accuracy over scored questions whose gold answer isn't disputed; None where none is disputed.
    """

    judge: str
    correct: int
    unscored: int
    total: int
    interval: Interval
    lower: float | None
    undisputed: Interval | None


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One type of question in a cell: how many there are, and the mean of each value that was asked for."""

    question_type: str
    n: int
    values: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class ControlRow:
    """How many of the vague answers, which say nothing, a judge let pass; `share` is None when it read none."""

    judge: str
    passed: int
    graded: int
    unscored: int
    share: float | None


@dataclass(frozen=True, slots=True)
class QualityRow:
    """A dimension of memory quality in a cell, 1 to 5."""

    dimension: str
    interval: Interval


@dataclass(frozen=True, slots=True)
class TokensRow:
    """Tokens a question.

    Attributes:
        context: of the rendered evidence, by `counters`.
        prompt: of everything the answering model was sent, as its endpoint counted; mean None where nothing is known.
        counters: what counted the evidence; figures of two counters don't compare.
        overflow: questions whose budget held none of the evidence that there was.
    """

    context: Interval
    prompt: Interval
    counters: tuple[str, ...]
    overflow: int


@dataclass(frozen=True, slots=True)
class SpentRow:
    """What model calls of one purpose took, per question of a cell.

    `usage` is the sum over the cell's `questions`, failed ones too; its tokens and cost lack the calls that `uncounted`
    and `unpriced` count.
    """

    usage: PurposeUsage
    questions: int

    def each(self, number: float | None) -> float | None:
        """A number of the sum, per question."""
        return None if number is None or not self.questions else number / self.questions


@dataclass(frozen=True, slots=True)
class BuildRow:
    """The write-time work of a design, as recorded in this experiment; nothing of what an earlier one had built.

    Attributes:
        histories: how many were built here.
        failed: sessions that could not be built.
        usage: sums by purpose.
        tokens: input and output of all calls; None when not every call was counted.
        seconds: as they passed, summed; `median_seconds` of a history.
    """

    strategy: str
    histories: int
    put: int
    failed: int
    usage: tuple[PurposeUsage, ...]
    tokens: int | None
    seconds: float
    median_seconds: float

    @property
    def tokens_each(self) -> float | None:
        """Tokens per history."""
        return None if self.tokens is None else self.tokens / self.histories


@dataclass(frozen=True, slots=True)
class SplitRow:
    """A cell's questions by where something was lost; `of` is how many were looked at, `untold` could not be told."""

    parts: Mapping[str, int]
    untold: int
    of: int


@dataclass(frozen=True, slots=True)
class DegradedRow:
    """Something that worked less well than asked.

    `where` has the cells or builds, `records` how many records say so, and `items` how many things it touched, None
    when one of them doesn't say.
    """

    part: str
    reason: str
    where: tuple[str, ...]
    records: int
    items: int | None


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """Failures of one kind, and the (cell, question id) that they befell."""

    stage: str
    error: str
    message: str
    befell: tuple[tuple[str, str], ...]
