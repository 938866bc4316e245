"""What an experiment leaves behind: one JSON line a question and cell, ids, numbers and hashes only.

Texts (questions, answers, evidence, what a judge wrote) go to a file of their own, which is never published: benchmark
data has licences, and a history is private. Reports are made from records alone.

Measures have the names of the field with their level before a colon: "turn:R@5", "session:AllEvidence@10", "turn:RR",
"coverage:verbatim", "F1". A measure that is undefined for a question (no gold turns) is None and left out of means;
None is never 0.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import pydantic

from backread.bench.spec import Cell

__all__ = [
    "BuildRecord",
    "ConfigRecord",
    "Digest",
    "Failure",
    "Manifest",
    "PurposeUsage",
    "QuestionRecord",
    "Record",
    "ShownLine",
    "StepRecord",
    "Texts",
    "Verdict",
]

Verdict = Literal["correct", "incorrect", "unscored"]


class _Row(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Failure(_Row):
    """Why something could not be done: where, the error's class, and its message, which quotes no stored text."""

    stage: Literal["build", "recall", "answer", "judge"]
    error: str
    message: str


class PurposeUsage(_Row):
    """Model calls of one purpose; see `models.usage.UsageTotal` for what is in what. Unknown is None."""

    purpose: str
    models: tuple[str, ...]
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cost: float | None
    seconds: float | None
    uncounted: int = 0
    unpriced: int = 0


class ShownLine(_Row):
    """A line of evidence: its kind, its rank, and its sources as (external turn id, start, end); end None is all."""

    kind: Literal["verbatim", "rewrite", "summary"]
    rank: int
    sources: tuple[tuple[str, int, int | None], ...]
    cut: bool = False


class StepRecord(_Row):
    """A step of a recall: its name, its seconds, and what of its detail is a number, a truth value or an id."""

    name: str
    seconds: float | None = None
    detail: dict[str, Any] = {}


class Digest(_Row):
    """What tables need of the lists that a packed record leaves out.

    Attributes:
        spans: see `QuestionRecord.spans`.
        rewritten: see `QuestionRecord.rewritten`.
        stage: see `attribution.loss_stage`.
    """

    spans: str
    rewritten: bool
    stage: str | None


class QuestionRecord(_Row):
    """One question in one cell.

    Attributes:
        spec_hash: of the experiment (`ExperimentSpec.hash`); records of two hashes are never mixed.
        data_sha256: of the questions and histories.
        backread: the version that made it.
        level: what `ranked` ranks; "entry" ids name entries of a design, not turns.
        ranked: external ids, best first, at most 50.
        gold_turns: external ids. `gold_considered` are those of them that the design looked at.
        shown: the lines of evidence, in the order shown.
        tokens: of the rendered evidence, by `counter`.
        config_hash: of the strategy's settings, prompt hashes included; a `ConfigRecord` has them.
        prompts: hash of the bench's own prompts by role ("answer", "judge:strict", …).
        verdicts: by judge ("strict", "lenient"); unscored is not wrong.
        control: what each judge said of the vague answer, when there was one.
        quality: memory quality by dimension, 1 to 5.
        attribution: why a wrong answer is wrong, when that could be told.
        judge_tries: how often a judge had to be asked for one readable verdict, by judge.
        digest: only in packed records, which have no `ranked`, `shown`, `gold_considered` and `seconds`.
        status: "error" when recall, answer or judge failed for good; then `failure` says why, and nothing of this
            record counts as right or wrong.
    """

    kind: Literal["question"] = "question"
    spec_hash: str
    data_sha256: str
    backread: str
    cell: Cell
    question_id: str
    user_id: str
    question_type: str
    abstention: bool
    status: Literal["ok", "error"]
    failure: Failure | None = None
    level: Literal["turn", "round", "session", "entry"] = "turn"
    ranked: tuple[str, ...] = ()
    gold_turns: tuple[str, ...] = ()
    gold_sessions: tuple[str, ...] = ()
    gold_considered: tuple[str, ...] = ()
    shown: tuple[ShownLine, ...] = ()
    tokens: int | None = None
    counter: str | None = None
    overflow: bool = False
    measures: dict[str, float | None] = {}
    usage: tuple[PurposeUsage, ...] = ()
    seconds: dict[str, float] = {}
    degraded: tuple[tuple[str, str, int | None], ...] = ()
    config_hash: str | None = None
    models: dict[str, str] = {}
    prompts: dict[str, str] = {}
    hypothesis_sha256: str | None = None
    verdicts: dict[str, Verdict] = {}
    control: dict[str, Verdict] = {}
    judge_tries: dict[str, int] = {}
    quality: dict[str, int | None] = {}
    attribution: str | None = None
    steps: tuple[StepRecord, ...] = ()
    digest: Digest | None = None

    @property
    def spans(self) -> str:
        """A hash of the stretches of turns that were shown, in whatever order: eight hexadecimal digits."""
        if self.digest is not None:
            return self.digest.spans
        shown = sorted({repr(source) for line in self.shown for source in line.sources})
        return hashlib.blake2b("\n".join(shown).encode(), digest_size=4).hexdigest()

    @property
    def rewritten(self) -> bool:
        """Whether a line that was shown is in other words than its turns."""
        return any(line.kind != "verbatim" for line in self.shown) if self.digest is None else self.digest.rewritten

    @property
    def key(self) -> tuple[str, str]:
        """What a record is about: (cell name, question id)."""
        return self.cell.name, self.question_id


class BuildRecord(_Row):
    """The write-time work of a design on one history; `seconds` as they passed, of models only in `usage`."""

    kind: Literal["build"] = "build"
    spec_hash: str
    data_sha256: str
    backread: str
    strategy: str
    user_id: str
    put: int
    dropped: int
    failed: tuple[tuple[str, str], ...] = ()
    usage: tuple[PurposeUsage, ...] = ()
    seconds: float
    degraded: tuple[tuple[str, str, int | None], ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """What a record is about: (strategy, user id)."""
        return self.strategy, self.user_id


class ConfigRecord(_Row):
    """The settings behind a `QuestionRecord.config_hash`, once in a file."""

    kind: Literal["config"] = "config"
    spec_hash: str
    config_hash: str
    config: dict[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        """What a record is about: (config hash, nothing)."""
        return self.config_hash, ""


Record = QuestionRecord | BuildRecord | ConfigRecord


class Texts(_Row):
    """The words of one record; kept beside the records in a file that is not published."""

    cell: str
    question_id: str
    question: str
    answer: str | None
    hypothesis: str | None = None
    rendered: str | None = None
    steps: tuple[dict[str, Any], ...] = ()
    judged: dict[str, tuple[str, ...]] = {}


class Manifest(_Row):
    """What all records of an experiment share.

    Attributes:
        spec: as run, without the places of files.
        dataset: name, hash, counts, and the notes that belong beside every figure.
        versions: of Python and of the packages that change results.
        embedder: its fingerprint, None without one.
        command: as typed.
        started_at: ISO 8601, UTC.
    """

    spec_hash: str
    spec: dict[str, Any]
    dataset: dict[str, Any]
    versions: dict[str, str]
    embedder: str | None
    command: str
    started_at: str
