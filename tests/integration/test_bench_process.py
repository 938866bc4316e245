"""`backread bench run` killed again and again: nothing is lost, nothing runs twice."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(180)]

QUESTIONS = 150
SPEC = """
name = "killed"
embedder = "none"
concurrency = 2
[dataset]
format = "jsonl"
path = "history.jsonl"
questions = "questions.jsonl"
[[designs]]
strategy = "naive_rag"
retrievers = ["bm25"]
depths = [3]
budgets = [100]
"""


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_kills_lose_nothing_and_repeat_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    messages = [
        {"id": f"m{number}", "role": "user", "content": f"Parcel {number} went to town {number % 7}.", "user_id": "ann"}
        | {"session_id": f"s{number // 10}", "timestamp": 1_700_000_000 + number}
        for number in range(QUESTIONS)
    ]
    questions = [
        {"question_id": f"q{number}", "question": f"Where did parcel {number} go?", "gold_turns": [f"m{number}"]}
        for number in range(QUESTIONS)
    ]
    (tmp_path / "history.jsonl").write_text("\n".join(map(json.dumps, messages)), encoding="utf-8")
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)), encoding="utf-8")
    (tmp_path / "killed.toml").write_text(SPEC, encoding="utf-8")
    records = tmp_path / "out" / "records.jsonl"
    command = [sys.executable, "-m", "backread", "bench", "run", "killed.toml", "--out", "out"]

    chance = random.Random(20240501)
    kills = 0
    for _ in range(4):
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        goal = lines(records) + chance.randint(5, 60)
        while process.poll() is None and lines(records) < goal:
            time.sleep(0.005)
        kills += process.poll() is None
        process.kill()
        process.wait()
    assert kills >= 2
    before = lines(records)
    assert before < 2 * QUESTIONS
    last = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)

    rows = [json.loads(line) for line in records.read_text(encoding="utf-8").splitlines()]
    asked = [(row["cell"].get("depth"), row["question_id"]) for row in rows if row["kind"] == "question"]
    assert set(asked) == {(depth, f"q{number}") for depth in (3, None) for number in range(QUESTIONS)}
    assert max(Counter(asked).values()) == 1
    assert f"{2 * QUESTIONS} in all, 0 failed" in last.stdout
