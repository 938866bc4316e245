"""Running an experiment: every question in every cell, through the `Memory` and the strategies that users run.

A history's write-time work is done once for each design, before its first question there. Questions run `concurrency`
at a time; a failure is recorded with the stage it came from and is never graded. What was written is never run again.
"""

from __future__ import annotations

import importlib.metadata
import platform
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final

import backread
from backread.bench.datasets import Dataset
from backread.bench.journal import Journal
from backread.bench.questioning import Desk
from backread.bench.records import BuildRecord, ConfigRecord, Manifest, QuestionRecord
from backread.bench.spec import Cell, ExperimentSpec
from backread.importers.base import Question
from backread.memory import Memory

__all__ = ["Outcome", "Progress", "manifest_of", "run_experiment"]

_PACKAGES: Final = (
    "numpy",
    "onnxruntime",
    "pydantic",
    "scipy",
    "snowballstemmer",
    "tiktoken",
    "tokenizers",
    "xllamacpp",
)
"""Packages whose versions can change a result."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where an experiment is.

    Attributes:
        done: records there are, those of earlier runs included.
        total: records there will be.
        cost: of the model calls of this run, None when unknown.
        tokens: of the model calls of this run.
        errors: questions of this run that failed.
    """

    done: int
    total: int
    cost: float | None
    tokens: int
    errors: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `complete` when every question of every cell has a record; `errors` counts failed ones."""

    folder: Path
    total: int
    ran: int
    errors: int
    complete: bool


def manifest_of(spec: ExperimentSpec, dataset: Dataset, memory: Memory, command: str) -> Manifest:
    """What all records of this experiment share."""
    versions = {"python": platform.python_version(), "backread": backread.__version__}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    report = dataset.report
    return Manifest(
        spec_hash=spec.hash(),
        spec=spec.model_dump(mode="json", exclude={"dataset": {"path", "questions", "overlay"}}),
        dataset={
            "name": dataset.name,
            "benchmark": dataset.benchmark,
            "sha256": dataset.sha256,
            "questions": len(dataset.questions),
            "users": len({question.user_id for question in dataset.questions}),
            "roles": dataset.roles,
            "notes": list(dataset.notes),
            "irregularities": dict(report.kinds),
            "disputed": dict(dataset.disputed),
            "overlay_sha256": dataset.overlay_sha256,
        },
        versions=versions,
        embedder=None if memory.embedder is None else memory.embedder.fingerprint,
        command=command,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def run_experiment(
    spec: ExperimentSpec,
    dataset: Dataset,
    memory: Memory,
    folder: Path,
    *,
    command: str,
    limit: int | None = None,
    retry_errors: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    cancel: threading.Event | None = None,
) -> Outcome:
    """Run what has no record yet; the memory must hold the dataset's histories (`datasets.fill`).

    Args:
        spec: what to run.
        dataset: of `spec.dataset`.
        memory: with the spec's embedder and models.
        folder: where records are kept; one that holds another experiment is refused.
        command: as typed, for the manifest.
        limit: only the first questions of the dataset; their records are the same as in a whole run.
        retry_errors: run questions again whose record is an error.
        on_progress: called after every record, from the calling thread.
        cancel: set to stop after the questions at work; what is done is kept.

    Raises:
        InvalidInputError: another experiment is in the folder.
        StoreBusyError: another process runs it.
    """
    cells = spec.cells()
    questions = dataset.questions[:limit]
    with Journal(folder, manifest_of(spec, dataset, memory, command)) as journal:
        finished = {
            record.key
            for record in journal.done
            if isinstance(record, QuestionRecord) and (record.status == "ok" or not retry_errors)
        }
        configs = {record.config_hash for record in journal.done if isinstance(record, ConfigRecord)}
        built = {record.key for record in journal.done if isinstance(record, BuildRecord) and not record.failed}
        left = [
            (cell, question)
            for question in questions
            for cell in cells
            if (cell.name, question.question_id) not in finished
        ]
        total = len(questions) * len(cells)
        run = _Run(Desk(spec, dataset, memory, first_cell=cells[0]), journal, built, configs, spec)
        for ran, record in enumerate(run.records(left, cancel or threading.Event()), 1):
            if on_progress is not None:
                on_progress(run.progress(total - len(left) + ran, total, record))
    return Outcome(folder, total, run.count, run.errors, run.count == len(left))


Task = tuple[Cell, Question]


@dataclass
class _Run:
    """The state of one run."""

    desk: Desk
    journal: Journal
    built: set[tuple[str, str]]
    configs: set[str]
    spec: ExperimentSpec
    count: int = 0
    errors: int = 0
    _tokens: int = 0
    _cost: float | None = None
    _locks: dict[tuple[str, str], threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def records(self, tasks: Sequence[Task], cancel: threading.Event) -> Iterator[QuestionRecord]:
        """The record of every task, each durable before it is given; in the order they end."""
        waiting = deque(tasks)
        with ThreadPoolExecutor(self.spec.concurrency, thread_name_prefix="bench") as pool:
            running: set[Future[QuestionRecord]] = set()
            try:
                while waiting or running:
                    room = 0 if cancel.is_set() else 2 * self.spec.concurrency - len(running)
                    for task in list(islice(waiting, max(0, room))):
                        waiting.popleft()
                        running.add(pool.submit(self._work, task))
                    if not running:
                        return
                    ended, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in ended:
                        yield future.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _work(self, task: Task) -> QuestionRecord:
        cell, question = task
        self._build(cell.strategy, question.user_id)
        record, texts = self.desk.ask(cell, question)
        self._configure(record)
        self.journal.write(record, texts)
        with self._lock:
            self.count += 1
            self.errors += record.status == "error"
        return record

    def _configure(self, record: QuestionRecord) -> None:
        """Write the settings of a record before it, once."""
        named = record.config_hash
        with self._lock:
            if named is not None and named not in self.configs:
                self.configs.add(named)
                self.journal.write(self.desk.config(named))

    def _build(self, strategy: str, user_id: str) -> None:
        """The write-time work of a design on a history, once."""
        key = (strategy, user_id)
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key in self.built or not any(d.strategy == strategy and d.build for d in self.spec.designs):
                return
            record = self.desk.build(strategy, user_id)
            if record is not None:
                self.journal.write(record)
            self.built.add(key)

    def progress(self, done: int, total: int, record: QuestionRecord) -> Progress:
        """Where the run is after a record."""
        for usage in record.usage:
            self._tokens += (usage.input_tokens or 0) + (usage.output_tokens or 0)
            if usage.cost is not None:
                self._cost = (self._cost or 0.0) + usage.cost
        return Progress(done, total, self._cost, self._tokens, self.errors)
