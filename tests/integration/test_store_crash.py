"""kill -9 at moments spread over a write; the harness is `benchmarks/crash.py`, which does the same by the thousand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).resolve().parents[2] / "benchmarks" / "crash.py"
KILLS = 40


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(300)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the harness forks its writers")
def test_a_killed_writer_loses_nothing_and_leaves_nothing_half_done() -> None:
    command = [sys.executable, str(HARNESS), "--kills", str(KILLS), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["errors"] == []
    assert (found["kills"], found["lost"], found["partial"], found["verify_faults"]) == (KILLS, 0, 0, 0)
    assert found["acknowledged_calls"] > KILLS
    assert done.returncode == 0
