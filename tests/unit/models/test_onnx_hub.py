"""ONNX models from the hub: pinned ones are checked against the pin, others against what came the first time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from backread.errors import InvalidInputError, ModelNotAvailableError, ModelRequestError
from backread.models.onnx_hub import ONNX_MODELS, fetch_onnx, find_onnx
from backread.models.sources import Progress
from backread.models.specs import ModelSpec
from backread.testing.tiny_models import write_cross_encoder

NAME = "org/reranker@abc123"


class Hub:
    """A source that has some files."""

    def __init__(self, folder: Path, files: Sequence[str]) -> None:
        self.folder, self.files = folder, files
        self.asked: list[str] = []

    def describe(self, spec: ModelSpec) -> str:
        return f"hub {spec.repo}@{spec.revision}"

    def get(self, spec: ModelSpec, into: Path, on_progress: Progress) -> None:
        self.asked.append(spec.files[0].name)
        for file in spec.files:
            if file.name not in self.files:
                raise ModelRequestError(f"{file.name}: HTTP 404")
            (into / file.name).write_bytes((self.folder / file.name).read_bytes())


@pytest.mark.parametrize("graph", ["onnx/model.onnx", "model.onnx"])
def test_what_came_is_recorded_and_checked(tmp_path: Path, graph: str) -> None:
    hub = Hub(write_cross_encoder(tmp_path / "hub", ["dog"], graph=graph), [graph, "tokenizer.json"])
    with pytest.raises(ModelNotAvailableError) as missing:
        find_onnx(NAME, tmp_path / "models")
    assert missing.value.hint == f"backread models fetch {NAME}"
    report = fetch_onnx(NAME, directory=tmp_path / "models", source=hub)
    folder = find_onnx(NAME, tmp_path / "models")
    assert folder == report.path == tmp_path / "models" / NAME
    assert (folder / "model.onnx").read_bytes() == (tmp_path / "hub" / graph).read_bytes()
    assert not list((tmp_path / "models").glob(".part-*"))
    hub.asked.clear()
    assert fetch_onnx(NAME, directory=tmp_path / "models", source=hub).source == "already there"
    assert hub.asked == []
    (folder / "model.onnx").write_bytes(b"x" * (folder / "model.onnx").stat().st_size)
    with pytest.raises(ModelNotAvailableError, match="sha256"):
        find_onnx(NAME, tmp_path / "models")


def test_a_hub_without_the_files(tmp_path: Path) -> None:
    hub = Hub(tmp_path, [])
    with pytest.raises(ModelNotAvailableError, match=r"onnx/model.onnx: HTTP 404; model.onnx: HTTP 404"):
        fetch_onnx(NAME, directory=tmp_path / "models", source=hub)
    assert list((tmp_path / "models").iterdir()) == []


@pytest.mark.parametrize("name", ["reranker", "org/reranker", "org/../x@1", "org/reranker@", "/abs/x@1", "org/x@../.."])
def test_names_of_another_form(tmp_path: Path, name: str) -> None:
    for use in (
        lambda: find_onnx(name, tmp_path),
        lambda: fetch_onnx(name, directory=tmp_path, source=Hub(tmp_path, [])),
    ):
        with pytest.raises(InvalidInputError, match="is no ONNX model"):
            use()


def test_a_pinned_model_is_never_other_bytes(tmp_path: Path) -> None:
    hub = Hub(write_cross_encoder(tmp_path / "hub", ["dog"]), ["onnx/model.onnx", "tokenizer.json"])
    with pytest.raises(ModelNotAvailableError, match="bytes, expected 91011230"):
        fetch_onnx("ms-marco-minilm", directory=tmp_path / "models", source=hub)
    with pytest.raises(ModelNotAvailableError, match="bytes, expected 91011230"):
        fetch_onnx("ms-marco-minilm", directory=tmp_path / "models", place=tmp_path / "hub")
    with pytest.raises(ModelNotAvailableError) as caught:
        find_onnx("ms-marco-minilm", tmp_path / "models")
    assert caught.value.hint == "backread models fetch ms-marco-minilm"


def test_a_path_is_for_pinned_models(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as caught:
        fetch_onnx(NAME, directory=tmp_path, place=tmp_path)
    assert caught.value.hint == f"use yours as onnx:{tmp_path}"


def test_pins_are_whole() -> None:
    for name, spec in ONNX_MODELS.items():
        assert spec.name == name
        assert len(spec.revision) == 40
        assert all(len(file.sha256) == 64 and file.size for file in spec.files)
