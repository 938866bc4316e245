"""Experiments as files: what may stand in one, what its cells are, and what changes its hash."""

from __future__ import annotations

from pathlib import Path

import pytest

from backread.bench.spec import Cell, ExperimentSpec, read_spec
from backread.errors import InvalidInputError

GIVEN = """
name = "small"
[dataset]
format = "locomo"
path = "data.json"
overlay = "errors.json"
[[designs]]
strategy = "naive_rag"
retrievers = ["bm25", "hybrid"]
depths = [3]
budgets = [330, 500]
oracle = true
[[designs]]
strategy = "full_context"
unlimited = true
"""


def written(tmp_path: Path, text: str = GIVEN) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_cells_are_every_retriever_with_every_limit(tmp_path: Path) -> None:
    assert [cell.name for cell in read_spec(written(tmp_path)).cells()] == [
        "naive_rag/bm25/depth=3",
        "naive_rag/bm25/budget=330",
        "naive_rag/bm25/budget=500",
        "naive_rag/hybrid/depth=3",
        "naive_rag/hybrid/budget=330",
        "naive_rag/hybrid/budget=500",
        "naive_rag/oracle/unlimited",
        "full_context/own/unlimited",
    ]


def test_a_cell_named_twice_runs_once(tmp_path: Path) -> None:
    twice = GIVEN.replace("depths = [3]", "depths = [3, 3]")
    assert len(read_spec(written(tmp_path, twice)).cells()) == 8


def test_paths_are_relative_to_the_file_and_data_to_the_working_folder(tmp_path: Path) -> None:
    spec = read_spec(written(tmp_path))
    assert (spec.dataset.path, spec.dataset.overlay) == (tmp_path / "data.json", tmp_path / "errors.json")
    assert read_spec(written(tmp_path), data=Path("here.json")).dataset.path == Path("here.json")


def test_the_hash_is_that_of_what_changes_a_result(tmp_path: Path) -> None:
    spec = read_spec(written(tmp_path))
    elsewhere = read_spec(written(tmp_path), data=Path("elsewhere.json")).model_copy(update={"concurrency": 9})
    assert spec.hash() == elsewhere.hash()
    assert len(spec.hash()) == 16
    for changed in (
        GIVEN.replace('"bm25", "hybrid"', '"bm25"'),
        GIVEN.replace('[[designs]]\nstrategy = "full', '[models]\njudge = "j"\n[[designs]]\nstrategy = "full'),
        GIVEN.replace('format = "locomo"', 'format = "locomo"\nsample = 40'),
    ):
        assert read_spec(written(tmp_path, changed)).hash() != spec.hash()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (('strategy = "full_context"', 'strategie = "full_context"'), "designs.1.strategie: Extra inputs"),
        (("depths = [3]", "depths = [0]"), r"designs.0.depths.0: Input should be greater than 0"),
        (('retrievers = ["bm25", "hybrid"]', ""), "depths need `retrievers`"),
        (('"locomo"', '"lokomo"'), "dataset.format: Input should be 'locomo'"),
        (('name = "small"', 'name = "a/b"'), "name: String should match pattern"),
        (("unlimited = true", "["), "small.toml: Invalid initial character"),
    ],
)
def test_every_fault_is_named_with_its_place(tmp_path: Path, change: tuple[str, str], fault: str) -> None:
    with pytest.raises(InvalidInputError, match=fault):
        read_spec(written(tmp_path, GIVEN.replace(*change)))


def test_nothing_to_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="there is nothing to run"):
        ExperimentSpec.model_validate(
            {"name": "n", "dataset": {"format": "locomo", "path": "x"}, "designs": [{"strategy": "naive_rag"}]}
        ).cells()


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="No such file"):
        read_spec(tmp_path / "none.toml")


def test_a_name_tells_its_limits() -> None:
    assert Cell(strategy="a", depth=3, budget=5).name == "a/own/depth=3/budget=5"
