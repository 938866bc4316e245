"""A few of each attack of `benchmarks/attack.py`, which does the same by the thousand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "attack.py"
SEED = 1

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="victims are forked"),
]


def attacked(*arguments: str) -> dict[str, Any]:
    """The outcomes by name; whatever a fault says is shown when a test fails."""
    command = [sys.executable, str(BENCHMARK), *arguments, "--json", "--seed", str(SEED), "--parallel", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    outcomes = {item["name"]: item for item in json.loads(done.stdout)["outcomes"]}
    assert done.returncode == int(any(item["faults"] for item in outcomes.values()))
    return outcomes


@pytest.mark.parametrize(
    ("victim", "kills", "calls"),
    [("library", 10, 30), ("builds", 8, 12), ("cli", 6, 4), ("server", 6, 10), ("proxy", 6, 2)],
)
def test_what_was_acknowledged_outlives_a_kill_and_what_was_erased_does_not(
    victim: str, kills: int, calls: int
) -> None:
    (outcome,) = attacked("kills", "--victims", victim, "--kills", str(kills)).values()
    assert outcome["faults"] == []
    assert outcome["attempts"] == kills
    assert outcome["figures"]["acknowledged calls"] >= calls


def test_a_damaged_store_never_gives_what_was_not_said() -> None:
    (outcome,) = attacked("flips", "--flips", "40").values()
    assert outcome["faults"] == []
    assert outcome["attempts"] == 40
    assert outcome["figures"]["right"] > 400


@pytest.mark.parametrize("surface", ["importers", "rest", "mcp", "page", "proxy"])
def test_no_input_ends_in_an_error_of_ours(surface: str) -> None:
    (outcome,) = attacked("fuzz", "--surfaces", surface, "--inputs", "150").values()
    assert outcome["faults"] == []
    assert outcome["attempts"] == 150
    done = sum(outcome["figures"].get(f"answered {name}", 0) for name in ("read", "200", "202", "well"))
    assert done >= 15, "most inputs never get far"


@pytest.mark.parametrize("load", ["dots", "long queries", "abandoned asks", "half requests", "large pages"])
def test_a_server_that_is_made_to_work_says_how_it_is_and_ends_when_told(load: str) -> None:
    (outcome,) = attacked("health", "--loads", load, "--seconds", "4", "--bound", "3").values()
    assert outcome["faults"] == []
    assert outcome["attempts"] >= 2
