from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from backread.errors import ModelNotAvailableError, ModelRequestError, NotFoundError
from backread.models.fetch import MODELS, fetch, fetch_spec, find, find_spec, models_dir, named_source
from backread.models.sources import PathSource, Progress
from backread.models.specs import ModelFile, ModelSpec

CONTENTS = {"weights.bin": b"weights" * 1000, "vocabulary.json": b'{"a": 1}'}


def _file(name: str, data: bytes) -> ModelFile:
    return ModelFile(name, hashlib.sha256(data).hexdigest(), len(data))


SPEC = ModelSpec(
    name="tiny",
    files=tuple(_file(name, data) for name, data in CONTENTS.items()),
    repo="org/tiny",
    revision="0" * 40,
    publisher="nobody",
    licence="CC0",
    homepage="https://example.org/tiny",
)


class Given:
    """A source that gives what it is told, or fails."""

    def __init__(self, contents: Mapping[str, bytes] | Exception) -> None:
        self.contents, self.calls = contents, 0

    def describe(self, spec: ModelSpec) -> str:
        return f"given {spec.name}"

    def get(self, spec: ModelSpec, into: Path, on_progress: Progress) -> None:
        self.calls += 1
        if isinstance(self.contents, Exception):
            raise self.contents
        for name, data in self.contents.items():
            (into / name).write_bytes(data)
        on_progress(spec.size, spec.size)


def _write(folder: Path, contents: Mapping[str, bytes] = CONTENTS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return folder


def _left_over(directory: Path) -> list[str]:
    return [path.name for path in directory.rglob(".part-*")]


def test_fetch_checks_installs_and_reports(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = fetch_spec(
        SPEC, directory=tmp_path, sources=[Given(CONTENTS)], on_progress=lambda *pair: seen.append(pair)
    )
    assert report.path == tmp_path / "tiny" == find_spec(SPEC, tmp_path)
    assert {name: (report.path / name).read_bytes() for name in CONTENTS} == CONTENTS
    assert (report.name, report.source, report.attempts) == ("tiny", "given tiny", ())
    assert (report.bytes, report.sha256) == (7008, SPEC.files[0].sha256)
    assert (report.publisher, report.licence) == ("nobody", "CC0")
    assert seen == [(7008, 7008)]
    assert _left_over(tmp_path) == []


def test_a_second_fetch_asks_no_source(tmp_path: Path) -> None:
    source = Given(CONTENTS)
    fetch_spec(SPEC, directory=tmp_path, sources=[source])
    report = fetch_spec(SPEC, directory=tmp_path, sources=[source])
    assert (report.source, source.calls) == ("already there", 1)


def test_a_source_that_cannot_be_reached_is_recorded_and_the_next_is_tried(tmp_path: Path) -> None:
    sources = [Given(ModelRequestError("no route")), Given(CONTENTS)]
    report = fetch_spec(SPEC, directory=tmp_path, sources=sources)
    assert report.attempts == ("given tiny: no route",)


def test_when_every_source_fails_the_error_says_what_each_said(tmp_path: Path) -> None:
    sources = [Given(ModelRequestError("no route")), Given(ModelRequestError("HTTP 503"))]
    with pytest.raises(ModelNotAvailableError, match=r"no route.*HTTP 503") as caught:
        fetch_spec(SPEC, directory=tmp_path, sources=sources)
    assert caught.value.hint
    assert "--from" in caught.value.hint
    assert find_spec(SPEC, tmp_path) is None
    assert _left_over(tmp_path) == []


@pytest.mark.parametrize("data", [b"Weights" * 1000, b"weights", b"weights" * 1001], ids=["same-size", "short", "long"])
def test_wrong_bytes_are_an_error_that_names_both_and_leaves_nothing(tmp_path: Path, data: bytes) -> None:
    second = Given(CONTENTS)
    with pytest.raises(ModelNotAvailableError) as caught:
        fetch_spec(SPEC, directory=tmp_path, sources=[Given(CONTENTS | {"weights.bin": data}), second])
    message, expected = str(caught.value), SPEC.files[0]
    if len(data) == expected.size:
        assert expected.sha256 in message
        assert hashlib.sha256(data).hexdigest() in message
    else:
        assert f"{len(data)} bytes, expected {expected.size}" in message
    assert second.calls == 0
    assert not (tmp_path / "tiny" / "weights.bin").exists()
    assert _left_over(tmp_path) == []


def test_an_interrupted_fetch_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_spec(SPEC, directory=tmp_path, sources=[Given(CONTENTS)], on_progress=interrupt)
    assert find_spec(SPEC, tmp_path) is None
    assert _left_over(tmp_path) == []


def test_what_a_killed_fetch_left_is_dropped_after_a_day(tmp_path: Path) -> None:
    old, new = tmp_path / "tiny" / ".part-old", tmp_path / "tiny" / ".part-new"
    for folder in (old, new):
        _write(folder)
    os.utime(old, (time.time() - 2 * 86400,) * 2)
    fetch_spec(SPEC, directory=tmp_path, sources=[Given(CONTENTS)])
    assert not old.exists()
    assert new.exists()


def test_find_is_none_when_a_file_is_missing(tmp_path: Path) -> None:
    assert find_spec(SPEC, tmp_path / "nowhere") is None
    _write(tmp_path / "tiny", {"weights.bin": CONTENTS["weights.bin"]})
    assert find_spec(SPEC, tmp_path) is None


def test_find_checks_files_put_there_by_hand_once(tmp_path: Path) -> None:
    folder = _write(tmp_path / "tiny")
    assert find_spec(SPEC, tmp_path) == folder
    record = json.loads((folder / "verified.json").read_text("utf-8"))
    assert record["weights.bin"][2] == SPEC.files[0].sha256
    marker = (folder / "verified.json").stat().st_mtime_ns
    assert find_spec(SPEC, tmp_path) == folder
    assert (folder / "verified.json").stat().st_mtime_ns == marker


@pytest.mark.parametrize("data", [b"WEIGHTS" * 1000, b"cut"])
def test_find_refuses_a_file_that_changed_and_fetch_repairs_it(tmp_path: Path, data: bytes) -> None:
    fetch_spec(SPEC, directory=tmp_path, sources=[Given(CONTENTS)])
    weights = tmp_path / "tiny" / "weights.bin"
    weights.write_bytes(data)
    os.utime(weights, ns=(1, 1))
    with pytest.raises(ModelNotAvailableError, match="expected") as caught:
        find_spec(SPEC, tmp_path)
    assert caught.value.hint == "backread models fetch tiny"
    assert fetch_spec(SPEC, directory=tmp_path, sources=[Given(CONTENTS)]).source == "given tiny"
    assert find_spec(SPEC, tmp_path)


@pytest.mark.parametrize("record", [b"", b"not json", b"[]", b'{"weights.bin": [1, 2, "3"]}', b"\xff"])
def test_a_damaged_record_only_means_another_check(tmp_path: Path, record: bytes) -> None:
    fetch_spec(SPEC, directory=tmp_path, sources=[Given(CONTENTS)])
    (tmp_path / "tiny" / "verified.json").write_bytes(record)
    assert find_spec(SPEC, tmp_path)


def test_a_new_pin_is_checked_even_when_the_file_did_not_change(tmp_path: Path) -> None:
    fetch_spec(SPEC, directory=tmp_path, sources=[Given(CONTENTS)])
    other = replace(SPEC, files=(replace(SPEC.files[0], sha256="0" * 64), SPEC.files[1]))
    with pytest.raises(ModelNotAvailableError, match="0" * 64):
        find_spec(other, tmp_path)


def test_a_place_that_cannot_hold_models_is_a_model_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(ModelNotAvailableError, match="can't be kept"):
        fetch_spec(SPEC, directory=tmp_path / "file", sources=[Given(CONTENTS)])


def test_path_to_a_folder_or_to_a_file_in_it(tmp_path: Path) -> None:
    folder = _write(tmp_path / "mine")
    for number, path in enumerate([folder, folder / "weights.bin"]):
        directory = tmp_path / str(number)
        assert fetch_spec(SPEC, directory=directory, sources=[PathSource(path)]).source == f"path {path}"
        assert find_spec(SPEC, directory)


def test_path_without_the_files_says_which_are_missing(tmp_path: Path) -> None:
    for path in (_write(tmp_path / "half", {"weights.bin": b""}), tmp_path / "nowhere" / "x"):
        with pytest.raises(ModelNotAvailableError, match=r"missing .*vocabulary\.json"):
            fetch_spec(SPEC, directory=tmp_path / "models", sources=[PathSource(path)])


@pytest.mark.parametrize("address", ["http://", "https://"])
def test_addresses_without_a_host_are_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(ModelNotAvailableError, match="not an http"):
        fetch_spec(SPEC, directory=tmp_path / "models", sources=[named_source(address)])


@pytest.mark.parametrize("place", ["file:///etc", "ftp://host/simple", "weights"])
def test_other_places_are_paths(place: str) -> None:
    assert isinstance(named_source(place), PathSource)


def test_models_dir_argument_then_environment_then_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BACKREAD_MODELS_DIR", str(tmp_path / "env"))
    assert models_dir(tmp_path / "argument") == tmp_path / "argument"
    assert models_dir() == tmp_path / "env"
    monkeypatch.setenv("BACKREAD_MODELS_DIR", "~/models")
    assert models_dir() == Path.home() / "models"
    monkeypatch.delenv("BACKREAD_MODELS_DIR")
    assert models_dir().parts[-2:] == ("backread", "models")


def test_unknown_names_list_the_names(tmp_path: Path) -> None:
    for call in (lambda: find("bert", tmp_path), lambda: fetch("bert", directory=tmp_path)):
        with pytest.raises(NotFoundError, match="'bert'; there is: minilm"):
            call()


def test_every_model_is_pinned_in_full() -> None:
    for name, spec in MODELS.items():
        assert spec.name == name
        assert len(spec.revision) == 40
        for file in spec.files:
            assert len(bytes.fromhex(file.sha256)) == 32
        assert spec.publisher
        assert spec.licence


def test_two_processes_at_once_both_end_well(tmp_path: Path) -> None:
    folder = _write(tmp_path / "mine")
    code = (
        "import sys; from pathlib import Path\n"
        "from backread.models.fetch import fetch_spec, find_spec\n"
        "from backread.models.sources import PathSource\n"
        "from backread.models.specs import ModelFile, ModelSpec\n"
        f"spec = {SPEC!r}\n"
        "models = Path(sys.argv[1])\n"
        "for _ in range(30):\n"
        "    fetch_spec(spec, directory=models, sources=[PathSource(Path(sys.argv[2]))])\n"
        "    assert find_spec(spec, models)\n"
        "    (models / 'tiny' / 'verified.json').unlink(missing_ok=True)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "models"), str(folder)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[1] for process in running] == ["", ""]
    assert _left_over(tmp_path) == []
