"""Builds in the background: started, looked at, cancelled, bounded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from memory_samples import opened
from rest_samples import Rest, rest, users_path
from starlette.exceptions import HTTPException

from backread import Memory
from backread.errors import ModelRequestError, NotFoundError
from backread.server.builds import Build, Builds
from backread.server.metrics import Metrics
from backread.settings import Settings
from backread.store.sqlite import SqliteStore
from backread.types import BuildReport, EntryDraft, Source, Step, Usage

WAIT = 20


class Scripted(Memory):
    """A memory whose builds do one step, wait to be let go, and end as told."""

    def __init__(self, path: Path) -> None:
        super().__init__(SqliteStore(path), Settings(embedder="none"))
        self.started, self.go = threading.Semaphore(0), threading.Event()
        self.error: Exception | None = None
        self.calls: list[dict[str, Any]] = []

    def build(self, *, on_step: Callable[[Step], None] | None = None, cancel: Any = None, **how: Any) -> BuildReport:
        self.calls.append(how)
        assert on_step is not None
        on_step(Step("session", {"done": 1}))
        self.started.release()
        assert self.go.wait(WAIT)
        if self.error is not None:
            raise self.error
        return BuildReport(how["strategy"], put=2, usage=(Usage("build", "m", input_tokens=7, output_tokens=3),))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Scripted]:
    made = Scripted(tmp_path / "m.db")
    yield made
    made.go.set()
    made.close()


@pytest.fixture
def builds(memory: Scripted) -> Iterator[Builds]:
    made = Builds(memory, Metrics(), workers=1, waiting=2, kept=1)
    yield made
    memory.go.set()
    made.close()


def start(builds: Builds, user_id: str = "ann", strategy: str = "naive_rag") -> Build:
    return builds.start(user_id, strategy, flush=False, maintain=False)


def ended(builds: Builds, build: Build) -> Build:
    """The build once the pool has done all its work."""
    builds.close()
    return builds.get(build.user_id, build.build_id)


def test_from_waiting_to_done(memory: Scripted, builds: Builds) -> None:
    first = builds.start("ann", "naive_rag", flush=True, maintain=False)
    second = start(builds, "bo")
    assert (first.status, first.steps, first.report, first.started_at) == ("waiting", 0, None, None)
    assert memory.started.acquire(timeout=WAIT)
    running = builds.get("ann", first.build_id)
    assert (running.status, running.steps, running.step, running.over) == ("running", 1, "session", False)
    assert builds.get("bo", second.build_id).status == "waiting"
    memory.go.set()
    assert memory.started.acquire(timeout=WAIT)
    done = ended(builds, first)
    assert (done.status, done.report and done.report.put, done.error) == ("done", 2, None)
    assert done.submitted_at <= (done.started_at or done.submitted_at) <= (done.ended_at or done.submitted_at)
    assert memory.calls[0] == {"user_id": "ann", "strategy": "naive_rag", "flush": True, "maintain": False}
    assert [build.build_id for build in builds.list("ann")] == [first.build_id]


def test_a_build_that_fails_says_why(memory: Scripted, builds: Builds) -> None:
    memory.error = ModelRequestError("HTTP 401", hint="set a key", status=401)
    memory.go.set()
    failed = ended(builds, start(builds))
    assert (failed.status, failed.report) == ("failed", None)
    assert failed.error is not None
    assert (failed.error.status, failed.error.detail, failed.error.hint) == (502, "HTTP 401", "set a key")


def test_a_bug_in_a_build_tells_nothing_stored(
    memory: Scripted, builds: Builds, caplog: pytest.LogCaptureFixture
) -> None:
    memory.error = ZeroDivisionError("stored words")
    memory.go.set()
    failed = ended(builds, start(builds))
    assert failed.error is not None
    assert (failed.error.status, "stored words" in failed.error.detail) == (500, False)
    assert "stored words" in caplog.text


def test_cancelling(memory: Scripted, builds: Builds) -> None:
    running, waiting = start(builds), start(builds, "bo")
    assert memory.started.acquire(timeout=WAIT)
    assert builds.cancel("bo", waiting.build_id).status == "cancelled"
    assert builds.cancel("ann", running.build_id).status == "running"  # after the piece at hand
    memory.go.set()
    over = ended(builds, running)
    assert (over.status, over.report and over.report.put) == ("cancelled", 2)
    assert builds.cancel("ann", running.build_id) == over
    assert len(memory.calls) == 1  # the one that waited never started


def test_one_build_of_a_user_and_strategy_at_a_time(memory: Scripted, builds: Builds) -> None:
    first = start(builds)
    assert memory.started.acquire(timeout=WAIT)
    with pytest.raises(HTTPException, match=first.build_id) as raised:
        start(builds)
    assert raised.value.status_code == 409
    start(builds, "ann", "full_context")
    start(builds, "bo")
    memory.go.set()
    for _ in range(2):
        assert memory.started.acquire(timeout=WAIT)


def test_no_more_wait_than_can_be_worked_off(memory: Scripted, builds: Builds) -> None:
    start(builds)
    assert memory.started.acquire(timeout=WAIT)
    start(builds, "bo")
    start(builds, "cy")
    with pytest.raises(HTTPException) as raised:
        start(builds, "di")
    assert (raised.value.status_code, raised.value.headers) == (503, {"Retry-After": "60"})


def test_old_builds_are_forgotten(memory: Scripted, builds: Builds) -> None:
    memory.go.set()
    names = []
    for user in ("ann", "bo", "cy"):
        build = start(builds, user)
        names.append(build.build_id)
        assert memory.started.acquire(timeout=WAIT)
        while not builds.get(user, build.build_id).over:
            pass
    start(builds, "di")
    with pytest.raises(NotFoundError):
        builds.get("ann", names[0])
    assert builds.get("cy", names[2]).status == "done"


def test_a_build_of_another_user_is_a_missing_one(memory: Scripted, builds: Builds) -> None:
    build = start(builds)
    for call in (builds.get, builds.cancel):
        with pytest.raises(NotFoundError) as theirs:
            call("bo", build.build_id)
        with pytest.raises(NotFoundError) as nobodys:
            call("bo", "b-nothing")
        assert str(theirs.value).replace(build.build_id, "b-nothing") == str(nobodys.value)
    assert builds.list("bo") == []


def test_the_end_of_the_server_stops_builds(memory: Scripted, builds: Builds) -> None:
    running, waiting = start(builds), start(builds, "bo")
    assert memory.started.acquire(timeout=WAIT)
    memory.go.set()
    builds.close()
    assert builds.get("ann", running.build_id).status == "cancelled"
    assert builds.get("bo", waiting.build_id).status == "waiting"
    assert len(memory.calls) == 1


class TestOverHttp:
    @pytest.fixture
    def server(self, memory: Scripted) -> Iterator[Rest]:
        with rest(memory) as made:
            yield made
            memory.go.set()

    def test_start_look_and_cancel(self, server: Rest, memory: Scripted) -> None:
        path = users_path("a/b", "builds")
        response = server.send("POST", path, {"strategy": "full_context", "flush": True})
        started = response.json()
        assert (response.status_code, started["status"], started["strategy"]) == (202, "waiting", "full_context")
        assert response.headers["location"] == f"/v1/users/a%2Fb/builds/{started['build_id']}"
        assert memory.started.acquire(timeout=WAIT)
        found = server.get(response.headers["location"])
        assert (found["status"], found["steps"], found["user_id"]) == ("running", 1, "a/b")
        assert server.problem("POST", path, {"strategy": "full_context"}, status=409)["type"] == "about:blank"
        assert server.get(path)["items"] == [found]
        server.post(f"{response.headers['location']}/cancel", None)
        memory.go.set()
        while (over := server.get(response.headers["location"]))["status"] == "running":
            pass
        assert (over["status"], over["report"]["put"], over["report"]["usage"][0]["input_tokens"]) == (
            "cancelled",
            2,
            7,
        )
        told = server.send("GET", "/metrics").text
        assert 'backread_builds_total{status="cancelled"} 1.0' in told
        assert 'backread_model_tokens_total{direction="input",model="m",purpose="build"} 7.0' in told

    @pytest.mark.parametrize("body", [{"strategy": "magic"}, {"flush": "yes"}, {"flush": 1}, {"user_id": "bo"}, []])
    def test_what_is_refused(self, server: Rest, memory: Scripted, body: object) -> None:
        server.problem("POST", users_path("ann", "builds"), body, status=422)
        assert memory.calls == []

    def test_what_is_not_there(self, server: Rest) -> None:
        for method, more in (("GET", ""), ("POST", "/cancel")):
            told = server.problem(method, users_path("ann", "builds", f"b-1{more}"), status=404)
            assert told["type"] == "urn:backread:NotFoundError"


class TestEntries:
    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[Rest]:
        with opened(tmp_path) as memory, rest(memory) as made:
            memory.add({"role": "user", "content": "tea", "id": "m1"}, user_id="ann", session_id="s1")
            memory.add({"role": "user", "content": "tea", "id": "m1"}, user_id="bo", session_id="s1")
            history, source = memory.history("ann"), Source(memory.get("m1", user_id="ann").turn_id)
            drafts = [
                EntryDraft(f"e{n}", "naive_rag", kind, {"n": n}, f"entry {n}", (source,))
                for n, kind in enumerate(("fact", "fact", "note"))
            ]
            history.commit("naive_rag", 0, put=drafts)
            yield made

    def test_pages_and_kinds(self, server: Rest) -> None:
        path = users_path("ann", "entries") + "?strategy=naive_rag"
        page = server.get(f"{path}&limit=2")
        assert [entry["entry_id"] for entry in page["items"]] == ["e0", "e1"]
        rest_of = server.get(f"{path}&limit=2&cursor={page['next_cursor']}")
        assert [entry["data"] for entry in rest_of["items"]] == [{"n": 2}]
        assert [entry["entry_id"] for entry in server.get(f"{path}&kind=note")["items"]] == ["e2"]
        assert server.get(f"{path}&kind=none")["items"] == []
        assert server.get(users_path("bo", "entries") + "?strategy=naive_rag")["items"] == []

    @pytest.mark.parametrize("query", ["", "?strategy=magic", "?strategy=naive_rag&user=bo", "?kind=fact"])
    def test_what_is_refused(self, server: Rest, query: str) -> None:
        server.problem("GET", users_path("ann", "entries") + query, status=422)
