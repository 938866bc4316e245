"""`backread build` and `backread entries`: write-time work of a design without a model, and what it wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import Result

Run = Callable[..., Result]
Data = Callable[..., Any]

pytestmark = pytest.mark.usefixtures("filled")


def test_a_build_says_what_it_did_and_a_second_one_does_nothing(run: Run, data: Data) -> None:
    told = run("build", "--user", "ann", "--strategy", "t2mem", "--flush").stdout
    assert told == "t2mem: 2 written, 0 dropped; no model was called\n"
    again = data("build", "--user", "ann", "--strategy", "t2mem", "--flush")
    assert (again["put"], again["dropped"], again["failed"], again["usage"]) == (0, 0, [], [])


def test_the_open_session_waits_for_a_flush(data: Data) -> None:
    assert data("build", "--user", "ann", "--strategy", "t2mem")["put"] == 1
    assert data("build", "--user", "ann", "--strategy", "t2mem", "--flush")["put"] == 1


def test_designs_that_work_when_the_question_comes_have_nothing_to_do(run: Run) -> None:
    assert run("build", "--user", "ann").stdout == "naive_rag: 0 written, 0 dropped; no model was called\n"


def test_entries_are_listed_with_what_they_rest_on(run: Run, data: Data) -> None:
    run("build", "--user", "ann", "--strategy", "t2mem", "--flush")
    entries = data("entries", "--user", "ann", "--strategy", "t2mem")
    assert [len({source["turn_id"] for source in entry["sources"]}) for entry in entries] == [2, 1]
    told = run("entries", "--user", "ann", "--strategy", "t2mem")
    lines = told.stdout.splitlines()
    assert lines[0].split() == ["entry", "kind", "when", "turns", "text"]
    assert "2025-03-01" in lines[1]
    assert told.stderr == "entries: 2\n"


def test_nothing_built_is_an_empty_list(run: Run, data: Data) -> None:
    assert data("entries", "--user", "ann", "--strategy", "t2mem") == []
    assert data("entries", "--user", "ann", "--strategy", "t2mem", "--kind", "none") == []


def test_an_unknown_strategy_is_named_with_those_there_are(run: Run) -> None:
    assert "naive_rag:session" in run("build", "--user", "ann", "--strategy", "t3mem", code=3).stderr
