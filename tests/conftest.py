"""What every test runs under: no network, user directories of its own, the weights only where a test asks for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from backread.errors import ModelNotAvailableError
from backread.models.fetch import find, models_dir

REAL_MODELS_DIR = models_dir()  # read before tests get an environment of their own

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Loopback for tests marked `integration`; tests marked `weights` are skipped, with the reason, without them."""
    missing = _missing_weights()
    for item in items:
        if item.get_closest_marker("integration"):
            item.add_marker(pytest.mark.allow_hosts(["127.0.0.1", "::1"]))
        if missing and item.get_closest_marker("weights"):
            item.add_marker(pytest.mark.skip(reason=missing))


def _missing_weights() -> str | None:
    try:
        if find("minilm", REAL_MODELS_DIR) is not None:
            return None
    except ModelNotAvailableError as error:
        return str(error)
    return f"no MiniLM weights in {REAL_MODELS_DIR}: run `backread models fetch minilm`"


@pytest.fixture(autouse=True)
def own_user_directories(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting, store, configuration or model of the person who runs the tests is seen by a test."""
    for name in os.environ:
        if name.startswith(("BACKREAD_", "OPENAI_", "XDG_")):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("BACKREAD_PATH", str(home / "memory.db"))
    weights = request.node.get_closest_marker("weights") is not None
    monkeypatch.setenv("BACKREAD_MODELS_DIR", str(REAL_MODELS_DIR if weights else home / "models"))
