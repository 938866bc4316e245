"""The hub, and an address with files, played by a real server on loopback."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from file_server import Server, serving

from backread.errors import ModelNotAvailableError
from backread.models.fetch import fetch_spec
from backread.models.sources import HubSource, Source, UrlSource
from backread.models.specs import ModelFile, ModelSpec

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket]

CONTENTS = {"weights.bin": b"weights" * 200_000, "vocabulary.json": b'{"a": 1}'}
REVISION = "1" * 40


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def spec(server: Server) -> ModelSpec:
    """A tiny model; its files lie at /files/ of the server."""
    files = tuple(ModelFile(name, hashlib.sha256(data).hexdigest(), len(data)) for name, data in CONTENTS.items())
    for name, data in CONTENTS.items():
        server.routes[f"/files/{name}"] = (200, {}, data)
    return ModelSpec("tiny", files, "org/tiny", REVISION, "nobody", "CC0", "https://example.org/tiny")


def test_files_at_an_address(tmp_path: Path, server: Server, spec: ModelSpec) -> None:
    seen: list[tuple[int, int]] = []
    report = fetch_spec(
        spec,
        directory=tmp_path / "models",
        sources=[UrlSource(f"{server.url}/files/")],
        on_progress=lambda *pair: seen.append(pair),
    )
    assert report.source == f"address {server.url}/files/"
    assert {name: (report.path / name).read_bytes() for name in CONTENTS} == CONTENTS
    assert seen == sorted(seen)
    assert seen[-1] == (spec.size, spec.size)


def test_user_password_and_query_are_sent_and_not_shown(tmp_path: Path, server: Server, spec: ModelSpec) -> None:
    for name, data in CONTENTS.items():
        server.routes[f"/files/{name}?token=t0ken"] = (200, {}, data)
    place = server.url.replace("http://", "http://me:s%40cret@") + "/files?token=t0ken"
    report = fetch_spec(spec, directory=tmp_path / "models", sources=[UrlSource(place)])
    wanted = "Basic " + base64.b64encode(b"me:s@cret").decode()
    assert [headers.get("Authorization") for _, _, headers in server.requests] == [wanted, wanted]
    server.routes.clear()
    with pytest.raises(ModelNotAvailableError, match="404") as caught:
        fetch_spec(spec, directory=tmp_path / "again", sources=[UrlSource(place)])
    for told in (report.source, str(caught.value), caught.value.hint or ""):
        assert "s%40cret" not in told
        assert "t0ken" not in told


@pytest.mark.parametrize(
    ("route", "message"),
    [
        ((503, {}, b"down"), "503"),
        ((200, {}, CONTENTS["weights.bin"][:-10]), "ended after 1399990 of 1400000 bytes"),
        ((200, {}, CONTENTS["weights.bin"][:-1] + b"!"), "expected"),
    ],
)
def test_an_address_that_gives_something_else(
    tmp_path: Path, server: Server, spec: ModelSpec, route: tuple[int, dict[str, str], bytes], message: str
) -> None:
    server.routes["/files/weights.bin"] = route
    with pytest.raises(ModelNotAvailableError, match=message):
        fetch_spec(spec, directory=tmp_path / "models", sources=[UrlSource(f"{server.url}/files")])
    assert not (tmp_path / "models" / "tiny" / "weights.bin").exists()


def _serve_hub(server: Server) -> None:
    for name, data in CONTENTS.items():
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": REVISION}
        server.routes[f"/org/tiny/resolve/{REVISION}/{name}"] = (200, headers, data)


def test_hub_through_its_own_client(tmp_path: Path, server: Server, spec: ModelSpec) -> None:
    _serve_hub(server)
    seen: list[tuple[int, int]] = []
    report = fetch_spec(
        spec,
        directory=tmp_path / "models",
        sources=[HubSource(server.url, cache=tmp_path / "cache")],
        on_progress=lambda *pair: seen.append(pair),
    )
    assert report.source == "hub org/tiny@11111111"
    assert {name: (report.path / name).read_bytes() for name in CONTENTS} == CONTENTS
    assert sorted(path.name for path in report.path.iterdir()) == sorted([*CONTENTS, "verified.json"])
    assert seen == sorted(seen)
    assert seen[-1] == (spec.size, spec.size)


def test_hub_files_in_its_cache_need_no_connection(tmp_path: Path, spec: ModelSpec) -> None:
    snapshot = tmp_path / "cache" / "models--org--tiny" / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    for name, data in CONTENTS.items():
        (snapshot / name).write_bytes(data)
    source = HubSource("http://127.0.0.1:1", cache=tmp_path / "cache")
    assert fetch_spec(spec, directory=tmp_path / "models", sources=[source]).attempts == ()


def test_hub_with_other_bytes_is_an_error_and_no_other_source_is_asked(
    tmp_path: Path, server: Server, spec: ModelSpec
) -> None:
    _serve_hub(server)
    files = (replace(spec.files[0], sha256="0" * 64), spec.files[1])
    sources: list[Source] = [HubSource(server.url, cache=tmp_path / "cache"), UrlSource(f"{server.url}/files")]
    with pytest.raises(ModelNotAvailableError, match=f"expected {'0' * 64}"):
        fetch_spec(replace(spec, files=files), directory=tmp_path / "models", sources=sources)
    assert not [path for _, path, _ in server.requests if path.startswith("/files")]


def test_no_hub_then_the_next_source(tmp_path: Path, server: Server, spec: ModelSpec) -> None:
    sources: list[Source] = [
        HubSource("http://127.0.0.1:1", cache=tmp_path / "cache"),
        UrlSource(f"{server.url}/files"),
    ]
    report = fetch_spec(spec, directory=tmp_path / "models", sources=sources)
    assert len(report.attempts) == 1
    assert report.attempts[0].startswith("hub org/tiny@11111111: [Errno")
    assert report.source.startswith("address ")


def test_hub_without_the_file_then_the_next_source(tmp_path: Path, server: Server, spec: ModelSpec) -> None:
    sources: list[Source] = [HubSource(server.url, cache=tmp_path / "cache"), UrlSource(f"{server.url}/files")]
    report = fetch_spec(spec, directory=tmp_path / "models", sources=sources)
    assert "404" in report.attempts[0]
