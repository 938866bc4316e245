"""What the bench needs beside the core install, and what it says when it isn't there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from backread.bench.extra import INSTALL, needs
from backread.bench.stats.intervals import clustered_mean
from backread.bench.stats.paired import paired_t
from backread.errors import MissingExtraError


def test_what_is_there_is_not_complained_of() -> None:
    needs()
    needs("json", "scipy")


def test_everything_that_is_missing_is_named_with_the_command() -> None:
    with pytest.raises(
        MissingExtraError, match=r"\(no_such_one, no_such_two\): pip install 'backread\[bench\]'"
    ) as error:
        needs("json", "no_such_one", "no_such_two")
    assert error.value.hint == INSTALL == "pip install 'backread[bench]'"


def test_statistics_without_scipy_name_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingExtraError, match="scipy"):
        paired_t([1, 2, 4], [0, 0, 0])
    with pytest.raises(MissingExtraError, match="scipy"):
        clustered_mean([1, 0], ["a", "b"])
    assert clustered_mean([1, 0], ["a", "a"]).mean == 0.5  # needs no quantile


def test_importing_measures_and_statistics_loads_no_extra() -> None:
    code = (
        "import sys, backread.bench.measures.names, backread.bench.measures.cost, backread.bench.stats.paired,"
        " backread.bench.stats.intervals, backread.bench.stats.correction;"
        " print(*sorted({'scipy', 'matplotlib', 'jinja2', 'statsmodels'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
