"""GGUF files from the hub by name; the hub is played by a server on loopback."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_server import Server, serving

from backread.errors import InvalidInputError, ModelNotAvailableError
from backread.models.fetch import fetch, find
from backread.models.gguf import HubFile, ask_hub
from backread.models.local import open_local

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket]

COMMIT = "c" * 40
DATA = b"GGUF" + b"weights" * 1000


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


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
            fetch(self.NAME, directory=tmp_path, place=tmp_path)


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
