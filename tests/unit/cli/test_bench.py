"""`backread bench` as people type it: on a small history of their own, without a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from backread.cli import app
from backread.errors import BackreadError

PLACES = ("Riga", "Turku", "Porto", "Lyon", "Gent", "Bergen")
SPEC = """
name = "trips"
embedder = "none"
cutoffs = [1, 3]
[dataset]
format = "jsonl"
path = "history.jsonl"
questions = "questions.jsonl"
[[designs]]
strategy = "naive_rag"
retrievers = ["bm25"]
budgets = [60]
[[designs]]
strategy = "full_context"
unlimited = true
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec beside its data, in the working folder, with the caches of a user who never ran one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    messages = [
        {"id": f"m{number}", "role": "user", "content": f"On trip {number} we saw {place}.", "session_id": f"s{number}"}
        | {"timestamp": f"2024-03-0{number + 1}T09:00:00Z", "user_id": "ann"}
        for number, place in enumerate(PLACES)
    ]
    questions = [
        {"question": f"What did we see on trip {number}?", "answer": place, "gold_turns": [f"m{number}"]}
        for number, place in enumerate(PLACES)
    ]
    (tmp_path / "history.jsonl").write_text("\n".join(map(json.dumps, messages)), encoding="utf-8")
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)), encoding="utf-8")
    path = tmp_path / "trips.toml"
    path.write_text(SPEC, encoding="utf-8")
    return path


def bench(*args: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["bench", *map(str, args)])
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result


def test_a_run_and_its_report(spec: Path) -> None:
    told = bench("run", spec, "--out", "out")
    assert told.stdout.splitlines() == ["12 questions run, 12 in all, 0 failed: out", "next: backread bench report out"]
    assert "data: history: 6 questions" in told.stderr
    again: dict[str, Any] = json.loads(bench("run", spec, "--out", "out", "--json").stdout)
    assert (again["ran"], again["total"], again["complete"]) == (0, 12, True)
    assert bench("report", "out").stdout.splitlines() == ["out/report.md", "out/report.html"]
    page = Path("out/report.md").read_text(encoding="utf-8")
    assert "| naive\\_rag/bm25/budget=60 |" in page
    assert "<script" not in Path("out/report.html").read_text(encoding="utf-8")


def test_a_slice_goes_on_to_the_whole(spec: Path) -> None:
    assert json.loads(bench("run", spec, "--out", "out", "--limit", 2, "--json").stdout)["ran"] == 4
    assert json.loads(bench("run", spec, "--out", "out", "--json").stdout)["ran"] == 8


def test_other_data_is_named_on_the_command_line(spec: Path, tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").rename(tmp_path / "elsewhere.jsonl")
    bench("run", spec, "--out", "out", code=2)
    assert json.loads(bench("run", spec, "--data", "elsewhere.jsonl", "--out", "out", "--json").stdout)["ran"] == 12


def test_two_runs_compared(spec: Path) -> None:
    for out in ("first", "second"):
        bench("run", spec, "--out", out)
    cell = "naive_rag/bm25/budget=60"
    rows = json.loads(bench("compare", "first", "second", "--cell", cell, "--json").stdout)["rows"]
    verbatim = next(row for row in rows if row["measure"] == "coverage:verbatim")
    assert (verbatim["n"], verbatim["first"], verbatim["mean"]) == (6, 1.0, 0.0)
    assert "coverage:verbatim" in bench("compare", "first", "second").stdout
    bench("compare", "first", "none", code=2)


def test_a_dry_run_asks_nobody_and_keeps_nothing(spec: Path, tmp_path: Path) -> None:
    text = spec.read_text(encoding="utf-8") + '[models]\nanswer = "gpt-x"\njudge = "gpt-y"\n'
    spec.write_text(text, encoding="utf-8")
    found = json.loads(bench("run", spec, "--dry-run", "--limit", 3, "--json").stdout)
    rows = {(item["what"], row["purpose"]): row for item in found for row in item["usage"]}
    cell = "naive_rag/bm25/budget=60"
    assert rows[cell, "answer"]["calls"] == 3
    # strict and lenient for each of 3 answers, and as many for the vague ones, which are graded in the first cell
    assert rows[cell, "judge"]["calls"] == 12
    assert rows["full_context/own/unlimited", "judge"]["calls"] == 6
    whole = rows["full_context/own/unlimited", "answer"]["input_tokens"]
    assert whole > rows[cell, "answer"]["input_tokens"] > 100
    assert not (tmp_path / "trips").exists()
    assert "tokens sent" in bench("run", spec, "--dry-run", "--limit", 1).stdout


def test_choosing_on_a_file(spec: Path) -> None:
    args = ("choose", "--history", "history.jsonl", "--questions", "questions.jsonl", "--design", "full_context")
    found = json.loads(bench(*args, "--budget", 60, "--json").stdout)
    assert found["default"] == "naive_rag"
    assert found["questions"] == 6
    assert {item["strategy"] for item in found["standings"]} == {"naive_rag", "full_context"}
    told = bench(*args, "--budget", 60)
    assert "coverage:verbatim" in told.stdout
    assert "records in choice" in told.stderr


def test_choosing_on_a_user_of_a_store_with_drafted_questions(spec: Path, tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    CliRunner().invoke(app, ["import", "--path", str(store), "--format", "jsonl", "history.jsonl"])
    args = ("choose", "--path", store, "--user", "ann", "--draft", 3, "--design", "naive_rag:round", "--budget", 80)
    found = json.loads(bench(*args, "--json").stdout)
    assert found["drafted"] == found["questions"] == 3
    questions = [json.loads(line) for line in Path("choice/questions.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {item["question_type"] for item in questions} == {"drafted"}
    bench("choose", "--path", store, "--user", "zoe", "--out", "other", code=3)


@pytest.mark.parametrize("args", [("choose",), ("choose", "--user", "ann", "--history", "h.jsonl")])
def test_choosing_takes_a_user_or_a_file(spec: Path, args: tuple[str, ...]) -> None:
    assert "one of the two" in bench(*args, code=2).stderr


def test_a_failed_question_ends_with_its_own_code(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from backread.strategies.full_context.strategy import FullContext

    def fail(*args: object, **kwargs: object) -> object:
        raise BackreadError("out of paper")

    monkeypatch.setattr(FullContext, "recall", fail)
    told = bench("run", spec, "--out", "out", code=6)
    assert "6 failed" in told.stdout
