"""Sessions of onnxruntime: what they are set to, and that nothing of them is reported to anybody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from backread.models.onnx_session import open_session
from backread.testing.tiny_models import write_cross_encoder

OPEN = "from backread.models.onnx_session import open_session; open_session(sys.argv[1], 1)"


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return write_cross_encoder(tmp_path / "tiny", ["dog", "cat"]) / "onnx" / "model.onnx"


def test_a_session_runs_on_the_cpu_with_as_many_threads(graph: Path) -> None:
    session = open_session(str(graph), 3, {"session.disable_prepacking": "1"})
    options = session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (3, 1)
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert options.get_session_config_entry("session.disable_prepacking") == "1"
    assert session.get_providers() == ["CPUExecutionProvider"]


def kept(graph: Path, home: Path, code: str) -> list[str]:
    """Files in the home of a user who runs `code`. onnxruntime reports nothing where it takes a run for a test."""
    home.mkdir()
    env = {"HOME": str(home), "PYTHONPATH": str(Path(__file__).resolve().parents[3] / "src")}
    subprocess.run([sys.executable, "-c", f"import sys; {code}", str(graph)], env=env, check=True)
    return sorted(path.name for path in home.rglob("*") if path.is_file())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere telemetry is kept in other places")
def test_opening_a_session_reports_nothing(graph: Path, tmp_path: Path) -> None:
    """From 1.29 on onnxruntime keeps an id of the machine, and what it is about to report, in the user's cache."""
    assert kept(graph, tmp_path / "home", OPEN) == []
