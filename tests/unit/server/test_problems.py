"""Failures as problems: one table, a hint, and nothing of the server's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from memory_samples import opened
from rest_samples import Rest, rest, users_path

from backread import Memory, errors
from backread.errors import BackreadError, ModelRequestError, StoreBusyError, StoreError
from backread.server.problems import STATUS, problem_of
from backread.settings import Settings
from backread.store.base import TurnStore
from backread.store.sqlite import SqliteStore


class Failing:
    """A store that fails in one method, with one error."""

    def __init__(self, store: SqliteStore, method: str, error: Exception) -> None:
        self._store, self._method, self._error = store, method, error

    def __getattr__(self, name: str) -> Any:
        return self._fail if name == self._method else getattr(self._store, name)

    def _fail(self, *args: object, **kwargs: object) -> None:
        raise self._error


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(tmp_path / "m.db")
    yield made
    made.close()


def failing(store: SqliteStore, method: str, error: Exception) -> Memory:
    return Memory(cast(TurnStore, Failing(store, method, error)), Settings(embedder="none"))


def test_every_error_has_a_status() -> None:
    kinds = {item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, BackreadError)}
    assert set(STATUS) == kinds
    assert all(400 <= status < 600 for status in STATUS.values())


def test_a_new_kind_of_error_has_the_status_of_its_parent() -> None:
    class OddTimeError(errors.TimeError):
        pass

    told = problem_of(OddTimeError("no", hint="yes"))
    assert (told.status, told.type, told.detail, told.hint) == (422, "urn:backread:OddTimeError", "no", "yes")


def test_a_busy_store_says_when_to_come_back(store: SqliteStore) -> None:
    memory = failing(store, "append", StoreBusyError("/secret/m.db: locked", hint="stop the process"))
    with rest(memory) as server:
        response = server.send("POST", users_path("ann", "turns"), {"messages": [{"role": "user", "content": "x"}]})
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")
    assert response.json() == {
        "type": "urn:backread:StoreBusyError",
        "title": "Service Unavailable",
        "status": 503,
        "detail": "Another process held the write lock for longer than the busy timeout.",
        "hint": "try again",
        "errors": [],
    }


def test_files_of_the_server_are_not_told(store: SqliteStore, caplog: pytest.LogCaptureFixture) -> None:
    memory = failing(store, "sessions", StoreError("/secret/m.db: disk full"))
    with rest(memory) as server:
        told = server.problem("GET", users_path("ann", "sessions"), status=500)
        assert server.send("GET", "/readyz").status_code == 500
    assert (told["detail"], told["hint"]) == (
        "The record could not be read or written.",
        "the log of the server says more",
    )
    assert "/secret/m.db: disk full" in caplog.text


def test_a_bug_is_a_problem_too_and_says_nothing(store: SqliteStore) -> None:
    memory = failing(store, "users", ZeroDivisionError("stored words"))
    with rest(memory) as server:
        response = server.send("GET", "/v1/users")
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "stored words" not in response.text
    assert "ZeroDivision" not in response.text


@pytest.mark.parametrize(
    ("error", "status", "wait"),
    [
        (ModelRequestError("HTTP 401", status=401), 502, None),
        (ModelRequestError("HTTP 429", status=429, retryable=True, retry_after=7.2), 503, "8"),
        (ModelRequestError("HTTP 500", status=500, retryable=True), 503, "5"),
    ],
)
def test_a_model_that_fails(store: SqliteStore, error: ModelRequestError, status: int, wait: str | None) -> None:
    memory = failing(store, "layout", error)
    with rest(memory) as server:
        response = server.send("POST", users_path("ann", "ask"), {"question": "what?"})
    assert (response.status_code, response.headers.get("retry-after")) == (status, wait)
    assert response.json()["detail"] == str(error)


class TestShapes:
    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[Rest]:
        with opened(tmp_path) as memory, rest(memory) as made:
            yield made

    def test_an_unknown_path_and_an_unknown_method(self, server: Rest) -> None:
        assert server.problem("GET", "/v2/users", status=404)["detail"] == "there is nothing at this path"
        response = server.send("PATCH", users_path("ann", "turns"))
        assert (response.status_code, response.headers["content-type"]) == (405, "application/problem+json")
        assert response.json()["detail"] == "this path has no method PATCH"
        assert server.send("GET", "/v1/users/").status_code == 404  # and no redirect
        assert server.send("DELETE", users_path("ann", "")).status_code == 404

    @pytest.mark.parametrize("body", [b"{", b"\xff\xfe\xff", b"nope", b'{"query": ' + b"[" * 100_000])
    def test_what_is_not_json(self, server: Rest, body: bytes) -> None:
        assert server.problem("POST", users_path("ann", "search"), body, status=400)["hint"] == "send JSON in UTF-8"

    @pytest.mark.parametrize("sent", ["text/plain", "application/x-www-form-urlencoded", ""])
    def test_what_a_form_of_a_web_page_could_send(self, server: Rest, sent: str) -> None:
        path = users_path("ann", "turns")
        body = {"messages": [{"role": "user", "content": "forged"}]}
        told = server.problem("POST", path, body, status=415, Content_Type=sent)
        assert told["detail"] == "the body is sent as application/json"
        assert server.get(path)["items"] == []

    def test_every_place_is_named(self, server: Rest) -> None:
        told = server.problem("POST", users_path("ann", "search"), {"top_k": "5", "filters": {}}, status=422)
        assert [place["where"] for place in told["errors"]] == ["body.query", "body.top_k", "body.filters"]
        assert told["errors"][0]["what"] == "Field required"
        assert "body.filters" in told["detail"]

    def test_no_more_places_than_a_person_reads(self, server: Rest) -> None:
        told = server.problem("POST", users_path("ann", "search"), {f"k{n}": n for n in range(5000)}, status=422)
        assert len(told["errors"]) == 20
