"""One question in one cell: evidence, answer, verdicts, measures, and the record of it all.

Gold labels stay here: a strategy is handed the question's words and a history, as everywhere. The one exception is the
oracle, a retriever of the bench that is made for one question and says so in the cell's name.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import backread
from backread.answering.answerer import prompt_hash
from backread.bench.attribution import attribute
from backread.bench.datasets import Dataset, evidence_turns
from backread.bench.judging.control import vague_answer
from backread.bench.judging.judge import Graded, Judge
from backread.bench.judging.quality import grade_quality
from backread.bench.judging.rubrics import Kind
from backread.bench.measures.cost import usage_rows
from backread.bench.measures.names import (
    answer_measures,
    coverage_measures,
    longmemeval_measures,
    ranking_measures,
    session_ranking,
)
from backread.bench.records import (
    BuildRecord,
    ConfigRecord,
    Failure,
    QuestionRecord,
    ShownLine,
    StepRecord,
    Texts,
)
from backread.bench.retrievers import Capped, OracleRetriever
from backread.bench.spec import Cell, ExperimentSpec
from backread.errors import BackreadError, ModelError, ModelOutputError
from backread.importers.base import Question
from backread.memory import Memory
from backread.retrieval.base import Retriever
from backread.strategies.registry import strategy_spec
from backread.types import Answer, Recall, Step, Turn, Usage

__all__ = ["Desk"]

_KEPT_HISTORIES: Final = 16
_ERROR_TEXT: Final = re.compile(r"\s*(?:error|traceback \(most recent call last\))\s*:", re.IGNORECASE)
"""What an endpoint that reports its failure as an answer begins with."""

_LEVELS: Final[Mapping[str, Literal["turn", "round", "session"]]] = {
    "turn": "turn",
    "user_turn": "turn",
    "round": "round",
    "session": "session",
}


@dataclass(frozen=True)
class KnownHistory:
    """One user's turns by turn id, as the record has them."""

    turns: Mapping[str, Turn]

    def external(self, turn_id: str) -> str:
        """The id a benchmark knows a turn by; the turn id of one it doesn't know."""
        turn = self.turns.get(turn_id)
        return turn_id if turn is None or turn.external_id is None else turn.external_id

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Text by external id."""
        return {self.external(turn_id): turn.text for turn_id, turn in self.turns.items()}

    @cached_property
    def captions(self) -> Mapping[str, str]:
        """Caption by external id, of turns that have one."""
        return {self.external(key): turn.caption for key, turn in self.turns.items() if turn.caption is not None}

    @cached_property
    def session_of(self) -> Mapping[str, str]:
        """Session id by external id."""
        return {self.external(turn_id): turn.session_id for turn_id, turn in self.turns.items()}


class Desk:
    """Asks questions and grades answers; threads may share it.

    Args:
        spec: what is run.
        dataset: whose questions.
        memory: holds the histories.
        first_cell: where the vague answers are graded, once for each question.
    """

    def __init__(self, spec: ExperimentSpec, dataset: Dataset, memory: Memory, *, first_cell: Cell) -> None:
        self.spec, self.dataset, self.memory, self._first = spec, dataset, memory, first_cell
        self._histories: OrderedDict[str, KnownHistory] = OrderedDict()
        self._configs: dict[str, ConfigRecord] = {}
        self._lock = threading.Lock()
        self._shared: dict[str, Any] = {
            "spec_hash": spec.hash(),
            "data_sha256": dataset.sha256,
            "backread": backread.__version__,
        }

    def build(self, strategy: str, user_id: str) -> BuildRecord | None:
        """The write-time work of a design on a history; None when there was none to do."""
        started = time.monotonic()
        report = self.memory.build(user_id=user_id, strategy=strategy, flush=True, maintain=True)
        if not (report.put or report.dropped or report.usage or report.failed):
            return None
        return BuildRecord(
            **self._shared,
            strategy=strategy,
            user_id=user_id,
            put=report.put,
            dropped=report.dropped,
            failed=report.failed,
            usage=usage_rows(report.usage),
            seconds=time.monotonic() - started,
            degraded=tuple((item.part, item.reason, item.count) for item in report.degraded),
        )

    def ask(self, cell: Cell, question: Question) -> tuple[QuestionRecord, Texts | None]:
        """The record of one question in one cell, and its words."""
        work = _Work(self, cell, question)
        work.run(control=self.spec.control and cell == self._first)
        record = QuestionRecord(
            **self._shared,
            cell=cell,
            question_id=question.question_id,
            user_id=question.user_id,
            question_type=question.question_type,
            abstention=question.abstention,
            gold_turns=question.gold_turns,
            gold_sessions=question.gold_sessions,
            **work.fields(),
        )
        if record.status == "ok" and record.verdicts:
            record = record.model_copy(update={"attribution": attribute(record)})
        return record, work.texts()

    def config_hash(self, config: Mapping[str, Any]) -> str:
        """The hash of a strategy's settings; `config` gives them back."""
        text = json.dumps(config, sort_keys=True, default=str)
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        with self._lock:
            if key not in self._configs:
                spec_hash = self._shared["spec_hash"]
                self._configs[key] = ConfigRecord(spec_hash=spec_hash, config_hash=key, config=json.loads(text))
        return key

    def config(self, config_hash: str) -> ConfigRecord:
        """The settings behind a hash of `config_hash`."""
        return self._configs[config_hash]

    def history(self, user_id: str) -> KnownHistory:
        """The turns of a user; those of the latest few are kept."""
        with self._lock:
            if user_id not in self._histories:
                turns = {turn.turn_id: turn for turn in self.memory.turns(user_id=user_id)}
                self._histories[user_id] = KnownHistory(turns)
                if len(self._histories) > _KEPT_HISTORIES:
                    self._histories.popitem(last=False)
            self._histories.move_to_end(user_id)
            return self._histories[user_id]


class _Work:
    """What is known of one question in one cell so far."""

    def __init__(self, desk: Desk, cell: Cell, question: Question) -> None:
        self._desk = desk
        self._spec, self._dataset, self._memory = desk.spec, desk.dataset, desk.memory
        self._cell, self._question, self._known = cell, question, desk.history(question.user_id)
        self._recall: Recall | None = None
        self._answer: Answer | None = None
        self._failure: Failure | None = None
        self._meter: list[Usage] = []
        self._seconds: dict[str, float] = {}
        self._graded: dict[str, Graded] = {}
        self._control: dict[str, Graded] = {}
        self._quality: dict[str, int | None] = {}
        self._scores: dict[str, float | None] = {}

    def run(self, *, control: bool) -> None:
        """Recall, answer and grade, as far as it goes; the first failure ends it and is kept."""
        stage: Literal["recall", "answer", "judge"] = "recall"
        try:
            self._recall = self._timed("recall", self._recalled)
            if self._spec.models.answer is None:
                return
            stage = "answer"
            self._answer = self._timed("answer", self._answered)
            stage = "judge"
            locomo = self._dataset.benchmark == "locomo"
            self._scores = answer_measures(self._answer.text, self._question, locomo=locomo)
            if self._spec.models.judge is None:
                return
            self._timed("judge", lambda: self._judged(self._answer, control=control))
        except BackreadError as error:
            message = str(error) if not isinstance(error, ModelOutputError) else "the reply can't be used"
            self._failure = Failure(stage=stage, error=type(error).__name__, message=message[:500])

    def _timed(self, name: str, call: Any) -> Any:  # noqa: ANN401 -- what the call gives
        started = time.monotonic()
        try:
            return call()
        finally:
            self._seconds[name] = round(time.monotonic() - started, 6)

    def _recalled(self) -> Recall:
        return self._memory.recall(
            self._question.question,
            user_id=self._question.user_id,
            budget=self._cell.budget,
            strategy=self._cell.strategy,
            retriever=self._retriever(),
            asked_at=self._question.asked_at,
        )

    def _retriever(self) -> Retriever | None:
        name, depth = self._cell.retriever, self._cell.depth
        if name is None:
            return None
        if name == "oracle":
            return OracleRetriever(evidence_turns(self._memory, self._question))
        chosen = self._memory.retriever(name)
        return chosen if depth is None else Capped(chosen, depth)

    def _answered(self) -> Answer:
        """The model's answer.

        Raises:
            ModelError: it could not answer, or what came is the text of an error.
        """
        assert self._recall is not None
        answer = self._memory.answer(self._recall, user_id=self._question.user_id)
        if not answer.extractive and _ERROR_TEXT.match(answer.text):
            raise ModelError("the endpoint gave the text of an error as its answer")
        return answer

    def _judged(self, answer: Answer | None, *, control: bool) -> None:
        assert answer is not None
        chat = self._memory.metered(self._meter).judge
        assert chat is not None
        kinds: tuple[Kind, ...] = ("strict", "lenient") if self._spec.lenient else ("strict",)
        for kind in kinds:
            judge = Judge(chat, kind=kind, benchmark=self._dataset.benchmark)
            self._graded[kind] = judge.grade(self._question, answer.text)
            if control:
                self._control[kind] = judge.grade(self._question, vague_answer(self._question))
        if self._spec.quality and self._recall is not None:
            quality = grade_quality(chat, self._question, self._recall.rendered)
            self._quality = dict(quality.scores)

    def fields(self) -> dict[str, Any]:
        """What of it goes into the record."""
        recall, answer = self._recall, self._answer
        given: dict[str, Any] = {
            "status": "ok" if self._failure is None else "error",
            "failure": self._failure,
            "seconds": self._seconds,
            "models": {k: v for k, v in self._spec.models.model_dump().items() if v is not None},
            "verdicts": {kind: graded.verdict for kind, graded in self._graded.items()},
            "control": {kind: graded.verdict for kind, graded in self._control.items()},
            "judge_tries": {kind: graded.tries for kind, graded in self._graded.items()},
            "quality": self._quality,
        }
        if recall is not None:
            given |= self._of_recall(recall)
        prompts = {f"judge:{kind}": graded.prompt_hash for kind, graded in self._graded.items()}
        if answer is not None:
            given["measures"] |= self._scores
            given["hypothesis_sha256"] = hashlib.sha256(answer.text.encode("utf-8", "surrogatepass")).hexdigest()
            prompts["answer"] = answer.prompt_hash or prompt_hash()
        spent = [*(answer.usage if answer is not None else recall.usage if recall is not None else ()), *self._meter]
        return given | {"prompts": prompts, "usage": usage_rows(spent)}

    def _of_recall(self, recall: Recall) -> dict[str, Any]:
        known, question = self._known, self._question
        level = _LEVELS.get(strategy_spec(self._cell.strategy).unit, "entry")
        ids = [item.unit_id for item in recall.ranked]
        ranked = [known.external(unit_id) for unit_id in ids] if level in ("turn", "round") else ids
        shown = _shown(recall, known)
        measures = self._ranking_measures(ranked, level) | coverage_measures(
            shown,
            recall.rendered,
            {turn_id: known.texts[turn_id] for turn_id in question.gold_turns},
            question.gold_sessions,
            known.session_of,
            captions=known.captions,
        )
        considered = {known.external(turn_id) for turn_id in recall.considered}
        return {
            "level": level,
            "ranked": tuple(ranked[: max(self._spec.cutoffs)]),
            "gold_considered": tuple(gold for gold in question.gold_turns if gold in considered),
            "shown": shown,
            "tokens": recall.tokens,
            "counter": recall.counter,
            "overflow": recall.overflow,
            "measures": {name: None if value is None else round(value, 6) for name, value in measures.items()},
            "degraded": tuple((item.part, item.reason, item.count) for item in recall.degraded),
            "config_hash": self._desk.config_hash(recall.config),
            "steps": tuple(_numbers(step) for step in recall.steps),
        }

    def _ranking_measures(self, ranked: Sequence[str], level: str) -> dict[str, float | None]:
        """Of a whole ranking: a capped one ends before the deeper cut-offs, and rounds and entries have no gold."""
        gold, sessions, cutoffs = self._question.gold_turns, self._question.gold_sessions, self._spec.cutoffs
        if self._cell.depth is not None or level not in ("turn", "session"):
            return {}
        if level == "session":
            return ranking_measures(ranked, sessions, cutoffs, "session")
        session_of = self._known.session_of
        measures = ranking_measures(ranked, gold, cutoffs, "turn")
        measures |= ranking_measures(session_ranking(ranked, session_of), sessions, cutoffs, "session")
        if self._dataset.benchmark == "longmemeval":
            measures |= longmemeval_measures(ranked, gold, cutoffs, session_of)
        return measures

    def texts(self) -> Texts | None:
        """The words of it; None when no model wrote any, so that another run gives the same."""
        recall = self._recall
        if self._answer is None and not (recall is not None and recall.usage):
            return None
        return Texts(
            cell=self._cell.name,
            question_id=self._question.question_id,
            question=self._question.question,
            answer=self._question.answer,
            hypothesis=None if self._answer is None else self._answer.text,
            rendered=None if recall is None else recall.rendered,
            steps=() if recall is None else tuple({"name": s.name, **_plain(s.detail)} for s in recall.steps),
            judged={kind: graded.raw for kind, graded in self._graded.items()},
        )


def _shown(recall: Recall, known: KnownHistory) -> tuple[ShownLine, ...]:
    return tuple(
        ShownLine(
            kind=line.kind,
            rank=line.rank,
            sources=tuple((known.external(s.turn_id), s.start, s.end) for s in line.sources),
            cut=line.cut,
        )
        for line in recall.evidence
    )


def _numbers(step: Step) -> StepRecord:
    """A step without its words."""
    kept = {
        name: value
        for name, value in step.detail.items()
        if isinstance(value, bool | int | float)
        or name in ("action", "unit", "form", "entry_id", "observation", "stop")
    }
    return StepRecord(name=step.name, seconds=step.seconds, detail=_plain(kept))


def _plain(detail: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON holds it."""

    def value_of(value: object) -> object:
        if isinstance(value, Mapping):
            return {str(key): value_of(item) for key, item in value.items()}
        if isinstance(value, str | bool | int | float) or value is None:
            return value
        if isinstance(value, Sequence):
            return [value_of(item) for item in value]
        return str(value)

    return {name: value_of(value) for name, value in detail.items()}
