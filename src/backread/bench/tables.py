"""What the records of a cell add up to: pure functions from results to rows, one kind of row a table.

Means are over questions, with intervals that take a user's questions for related (`stats.clustered_mean`). A number
that is undefined for a question is left out and counted; failed questions are in no mean. A retrieval measure never
stands in a row with accuracy: its row says its level, its k, its n and why questions are left out.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, get_args

from backread.bench.attribution import Attribution, Stage, loss_stage
from backread.bench.measures.cost import added, prompt_tokens
from backread.bench.measures.names import DESCRIPTIONS
from backread.bench.records import PurposeUsage, QuestionRecord
from backread.bench.results import Results
from backread.bench.rows import (
    AccuracyRow,
    BuildRow,
    ControlRow,
    DegradedRow,
    ErrorRow,
    Excluded,
    MeasureRow,
    QualityRow,
    SpentRow,
    SplitRow,
    TokensRow,
    TypeRow,
)
from backread.bench.stats.intervals import Interval, clustered_mean

__all__ = [
    "ABSTENTION",
    "accuracy_rows",
    "build_rows",
    "control_rows",
    "degraded_rows",
    "error_rows",
    "failure_row",
    "is_answer_measure",
    "loss_row",
    "mean_of",
    "measure_rows",
    "quality_rows",
    "seconds_row",
    "spent_rows",
    "tokens_row",
    "type_rows",
    "value_of",
]

ABSTENTION: Final = "abstention"
"""The line of questions that have no answer in the history, apart from the types they are of."""

_ANSWER_STEMS: Final = ("F1", "EM", "abstention")
_LEVELS: Final = {"turn", "round", "session", "entry", "turn2session"}
_CUTOFF: Final = re.compile(r"@(\d+)\Z")


# --- values of a record


def is_answer_measure(name: str) -> bool:
    """Whether a measure is of an answer ("F1"), and not of the evidence or of a ranking."""
    return name.split(":")[0] in _ANSWER_STEMS


def value_of(record: QuestionRecord, name: str) -> float | None:
    """What a record says under a name; None when that is undefined, unscored or left out.

    "accuracy:<judge>" is 1.0 for correct and 0.0 for incorrect. "tokens" are those of the evidence. Any other name is
    a measure; one of evidence or of a ranking is undefined for a question that has no answer in the history, whatever
    its labels say.
    """
    if record.status == "error":
        return None
    if name == "tokens":
        return None if record.tokens is None else float(record.tokens)
    if name.startswith("accuracy:"):
        verdict = record.verdicts.get(name.removeprefix("accuracy:"))
        return 1.0 if verdict == "correct" else 0.0 if verdict == "incorrect" else None
    if record.abstention and not is_answer_measure(name):
        return None
    return record.measures.get(name)


def mean_of(records: Iterable[QuestionRecord], name: str) -> Interval:
    """The mean of a value, over the records that it is defined for."""
    pairs = [(value, record.user_id) for record in records if (value := value_of(record, name)) is not None]
    return clustered_mean([value for value, _ in pairs], [user for _, user in pairs])


# --- a cell


def measure_rows(results: Results, cell: str) -> tuple[MeasureRow, ...]:
    """A row for every measure of the cell, in the order of the records."""
    ok = results.ok(cell)
    names = list(dict.fromkeys(name for record in ok for name in record.measures))
    return tuple(_measure_row(ok, name) for name in names)


def accuracy_rows(results: Results, cell: str) -> tuple[AccuracyRow, ...]:
    """A row for every judge; none without verdicts."""
    counts = results.counts(cell)
    disputed = results.manifest.dataset.get("disputed") or {}
    ok = results.ok(cell)
    rows = []
    for judge in results.judges:
        name = f"accuracy:{judge}"
        correct = sum(value_of(record, name) == 1.0 for record in ok)
        kept = [record for record in ok if record.question_id not in disputed]
        rows.append(
            AccuracyRow(
                judge=judge,
                correct=correct,
                unscored=counts.unscored[judge],
                total=counts.total,
                interval=mean_of(ok, name),
                lower=correct / counts.total if counts.total else None,
                undisputed=mean_of(kept, name) if len(kept) < len(ok) else None,
            )
        )
    return tuple(rows)


def type_rows(results: Results, cell: str, names: Sequence[str]) -> tuple[TypeRow, ...]:
    """The means of some values for every type of question, by name; `ABSTENTION` last, out of the types it is of."""
    ok = results.ok(cell)
    types = sorted({record.question_type for record in ok if not record.abstention})
    groups = [(name, [r for r in ok if r.question_type == name and not r.abstention]) for name in types]
    if declined := [record for record in ok if record.abstention]:
        groups.append((ABSTENTION, declined))
    return tuple(TypeRow(kind, len(group), {name: mean_of(group, name) for name in names}) for kind, group in groups)


def tokens_row(results: Results, cell: str) -> TokensRow:
    """What a question costs in tokens."""
    ok = results.ok(cell)
    prompts = [(sent, record.user_id) for record in ok if (sent := prompt_tokens(record.usage)) is not None]
    return TokensRow(
        context=mean_of(ok, "tokens"),
        prompt=clustered_mean([sent for sent, _ in prompts], [user for _, user in prompts]),
        counters=tuple(sorted({record.counter for record in ok if record.counter is not None})),
        overflow=sum(record.overflow for record in ok),
    )


def seconds_row(results: Results, cell: str) -> dict[str, float]:
    """Median seconds of each stage of a question, in the order of the work."""
    found: dict[str, list[float]] = {}
    for record in results.ok(cell):
        for stage, seconds in record.seconds.items():
            found.setdefault(stage, []).append(seconds)
    return {stage: statistics.median(seconds) for stage, seconds in found.items()}


def spent_rows(results: Results, cell: str) -> tuple[SpentRow, ...]:
    """Model calls of a cell by purpose."""
    records = results.records(cell)
    return tuple(SpentRow(usage, len(records)) for usage in added(row for record in records for row in record.usage))


def quality_rows(results: Results, cell: str) -> tuple[QualityRow, ...]:
    """Memory quality by dimension, over the evidence that got a grade in it."""
    ok = results.ok(cell)
    rows = []
    for dimension in dict.fromkeys(name for record in ok for name in record.quality):
        graded = [(g, record.user_id) for record in ok if (g := record.quality.get(dimension)) is not None]
        rows.append(QualityRow(dimension, clustered_mean([g for g, _ in graded], [user for _, user in graded])))
    return tuple(rows)


def failure_row(results: Results, cell: str) -> SplitRow:
    """Why answers that the strict judge called incorrect are wrong."""
    wrong = [record for record in results.ok(cell) if record.verdicts.get("strict") == "incorrect"]
    return _split(get_args(Attribution), [record.attribution for record in wrong])


def loss_row(results: Results, cell: str) -> SplitRow:
    """How far the gold turns of a question came, whatever was answered; of questions that have any."""
    told = [loss_stage(record) for record in results.ok(cell) if record.gold_turns and not record.abstention]
    return _split(get_args(Stage), told)


# --- an experiment


def control_rows(results: Results) -> tuple[ControlRow, ...]:
    """What each judge said of the vague answers; none when there were none."""
    rows = []
    graded = [record for cell in results.cells for record in results.ok(cell) if record.control]
    for judge in results.judges:
        said = Counter(record.control.get(judge) for record in graded)
        read = said["correct"] + said["incorrect"]
        if read or said["unscored"]:
            share = said["correct"] / read if read else None
            rows.append(ControlRow(judge, said["correct"], read, said["unscored"], share))
    return tuple(rows)


def build_rows(results: Results) -> tuple[BuildRow, ...]:
    """The write-time work by design; a design without a row did none here."""
    rows = []
    for strategy in dict.fromkeys(build.strategy for build in results.builds):
        builds = [build for build in results.builds if build.strategy == strategy]
        usage = added(row for build in builds for row in build.usage)
        seconds = [build.seconds for build in builds]
        rows.append(
            BuildRow(
                strategy=strategy,
                histories=len(builds),
                put=sum(build.put for build in builds),
                failed=sum(len(build.failed) for build in builds),
                usage=usage,
                tokens=_all_tokens(usage),
                seconds=sum(seconds),
                median_seconds=statistics.median(seconds),
            )
        )
    return tuple(rows)


def degraded_rows(results: Results) -> tuple[DegradedRow, ...]:
    """What worked less well than asked, most frequent first."""
    told = [(cell, record.degraded) for cell in results.cells for record in results.ok(cell)]
    told += [(f"build of {build.strategy}", build.degraded) for build in results.builds]
    found: dict[tuple[str, str], list[tuple[str, int | None]]] = {}
    for where, notes in told:
        for part, reason, count in notes:
            found.setdefault((part, reason), []).append((where, count))
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(
        DegradedRow(
            part=part,
            reason=reason,
            where=tuple(dict.fromkeys(where for where, _ in said)),
            records=len(said),
            items=None if any(count is None for _, count in said) else sum(count or 0 for _, count in said),
        )
        for (part, reason), said in ordered
    )


def error_rows(results: Results) -> tuple[ErrorRow, ...]:
    """Failures by kind, most frequent first."""
    found: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for record in results.errors():
        failure = record.failure
        kind = ("", "", "") if failure is None else (failure.stage, failure.error, failure.message)
        found.setdefault(kind, []).append(record.key)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(ErrorRow(*kind, tuple(befell)) for kind, befell in ordered)


# --- parts


def _measure_row(records: Sequence[QuestionRecord], name: str) -> MeasureRow:
    head, _, rest = name.partition(":")
    level = "answer" if is_answer_measure(name) else head if head in _LEVELS else "turn"
    cutoff = _CUTOFF.search(name)
    bare = _CUTOFF.sub("", rest if head in _LEVELS else name)
    left_out = [record for record in records if value_of(record, name) is None]
    abstaining = sum(record.abstention for record in left_out)
    golds = [r.gold_sessions if level == "session" else r.gold_turns for r in left_out if not r.abstention]
    no_gold = 0 if level == "answer" else sum(not gold for gold in golds)
    return MeasureRow(
        name=name,
        level=level,
        k=int(cutoff[1]) if cutoff else None,
        definition=DESCRIPTIONS.get(bare, ""),
        interval=mean_of(records, name),
        excluded=Excluded(abstaining, no_gold, len(left_out) - abstaining - no_gold),
    )


def _split(parts: Sequence[str], told: Sequence[str | None]) -> SplitRow:
    counts = Counter(told)
    names = [*parts, *sorted(name for name in counts if name is not None and name not in parts)]
    return SplitRow({name: counts[name] for name in names}, counts[None], len(told))


def _all_tokens(usage: Sequence[PurposeUsage]) -> int | None:
    """Input and output of all calls; None when one wasn't counted."""
    if any(row.uncounted for row in usage):
        return None
    return sum((row.input_tokens or 0) + (row.output_tokens or 0) for row in usage)
