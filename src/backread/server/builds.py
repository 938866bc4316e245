"""Builds in the background: a bounded pool that works them off, and what became of each.

They are kept in memory only. Nothing is lost when the server ends: a build that was stopped is taken up where it was by
the next one.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Literal

from starlette.exceptions import HTTPException

from backread.errors import NotFoundError
from backread.memory import Memory
from backread.server.metrics import Metrics
from backread.server.problems import Problem, problem_of
from backread.types import BuildReport, Step

__all__ = ["Build", "Builds", "Status"]

Status = Literal["waiting", "running", "done", "failed", "cancelled"]

WORKERS: Final = 2
WAITING: Final = 100
PER_USER: Final = 8
KEPT: Final = 1000


@dataclass(frozen=True, slots=True)
class Build:
    """A build as it stands.

    Attributes:
        build_id: names it, for its user only.
        status: "cancelled" has a report too: what was done until then is kept.
        steps: pieces of work that are finished.
        step: the latest of them.
        report: what it did, with the usage of models; None until it is over, and when it failed.
        error: why it failed.
    """

    build_id: str
    user_id: str
    strategy: str
    flush: bool
    maintain: bool
    status: Status
    submitted_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    steps: int = 0
    step: str | None = None
    report: BuildReport | None = None
    error: Problem | None = None

    @property
    def over(self) -> bool:
        """True when nothing more will happen to it."""
        return self.status in {"done", "failed", "cancelled"}


@dataclass(slots=True)
class _Job:
    build: Build
    cancel: threading.Event = field(default_factory=threading.Event)


class Builds:
    """Starts builds and knows what became of them. Thread-safe.

    Args:
        memory: what is built on.
        metrics: told of every build that ends.
        workers: builds at the same time.
        waiting: builds that may wait; more are refused.
        per_user: builds of one user that are not over; more are refused.
        kept: builds that are over and remembered, the latest of them.
    """

    def __init__(
        self,
        memory: Memory,
        metrics: Metrics,
        *,
        workers: int = WORKERS,
        waiting: int = WAITING,
        per_user: int = PER_USER,
        kept: int = KEPT,
    ) -> None:
        self._memory = memory
        self._metrics = metrics
        self._per_user = per_user
        self._waiting, self._kept = waiting, kept
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="build")
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, _Job] = OrderedDict()

    def start(self, user_id: str, strategy: str, *, flush: bool, maintain: bool) -> Build:
        """A build that waits for its turn.

        Raises:
            HTTPException: 409 while another of this user and strategy is not over, 429 when too many of this user are
                not over, 503 when too many of all wait.
        """
        build_id = f"b-{uuid.uuid4().hex[:16]}"
        job = _Job(Build(build_id, user_id, strategy, flush, maintain, "waiting", datetime.now(UTC)))
        with self._lock:
            open_ = [other.build for other in self._jobs.values() if not other.build.over]
            same = [build.build_id for build in open_ if (build.user_id, build.strategy) == (user_id, strategy)]
            if same:
                raise HTTPException(409, f"build {same[0]} of this user and strategy is not over")
            if sum(build.user_id == user_id for build in open_) >= self._per_user:
                told = f"{self._per_user} builds of this user are not over"
                raise HTTPException(429, told, headers={"Retry-After": "60"})
            if sum(build.status == "waiting" for build in open_) >= self._waiting:
                raise HTTPException(503, f"{self._waiting} builds are waiting already", headers={"Retry-After": "60"})
            self._jobs[build_id] = job
            over = [name for name, other in self._jobs.items() if other.build.over]
            for name in over[: max(0, len(over) - self._kept)]:
                del self._jobs[name]
            self._pool.submit(self._run_next)  # under the lock, so that none is taken in once `close` began
            return job.build

    def get(self, user_id: str, build_id: str) -> Build:
        """The build as it stands.

        Raises:
            NotFoundError: this user has no such build, or it was long ago.
        """
        return self._job(user_id, build_id).build

    def list(self, user_id: str) -> list[Build]:
        """The builds of a user that are remembered, in the order they were asked for."""
        with self._lock:
            return [job.build for job in self._jobs.values() if job.build.user_id == user_id]

    def cancel(self, user_id: str, build_id: str) -> Build:
        """Stop a build after the piece at hand; one that still waits never starts, one that is over stays as it is.

        Raises:
            NotFoundError: see `get`.
        """
        job = self._job(user_id, build_id)
        job.cancel.set()
        with self._lock:
            if job.build.status == "waiting":
                self._end(job, "cancelled")
            return job.build

    def close(self) -> None:
        """Stop all builds, each after the piece at hand, and wait for that."""
        with self._lock:
            for job in self._jobs.values():
                job.cancel.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _job(self, user_id: str, build_id: str) -> _Job:
        with self._lock:
            job = self._jobs.get(build_id)
        if job is None or job.build.user_id != user_id:
            raise NotFoundError(f"user {user_id!r} has no build {build_id!r}", hint="builds end with the server")
        return job

    def _run_next(self) -> None:
        """Run the build that waited longest, of a user of whom none runs when there is one."""
        with self._lock:
            running = {job.build.user_id for job in self._jobs.values() if job.build.status == "running"}
            waiting = [job for job in self._jobs.values() if job.build.status == "waiting"]
            if not waiting:
                return
            job = next((job for job in waiting if job.build.user_id not in running), waiting[0])
            job.build = replace(job.build, status="running", started_at=datetime.now(UTC))
        self._run(job)

    def _run(self, job: _Job) -> None:
        build = job.build
        try:
            report = self._memory.build(
                user_id=build.user_id,
                strategy=build.strategy,
                flush=build.flush,
                maintain=build.maintain,
                on_step=lambda step: self._stepped(job, step),
                cancel=job.cancel,
            )
        except Exception as error:  # noqa: BLE001 -- nobody waits for it: what became of it is asked for later
            with self._lock:
                self._end(job, "failed", error=problem_of(error))
            return
        self._metrics.used(report.usage)
        with self._lock:
            self._end(job, "cancelled" if job.cancel.is_set() else "done", report=report)

    def _stepped(self, job: _Job, step: Step) -> None:
        with self._lock:
            job.build = replace(job.build, steps=job.build.steps + 1, step=step.name)

    def _end(
        self, job: _Job, status: Status, *, report: BuildReport | None = None, error: Problem | None = None
    ) -> None:
        job.build = replace(job.build, status=status, ended_at=datetime.now(UTC), report=report, error=error)
        self._metrics.built(status)
