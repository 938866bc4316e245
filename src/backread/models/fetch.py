"""Weights on this machine: found by name, fetched only when asked, never used before their hash was checked.

    report = fetch("minilm", directory=models_dir())      # the only function of the package that downloads weights
    folder = find("minilm", models_dir())                 # None when they are not there

`directory/<name>/` holds a model's files and `verified.json`, which records size, time and hash of each file when it
was last checked, so that opening a model does not read 90 MB; a file that changed since is read and checked again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from backread.errors import InvalidInputError, ModelNotAvailableError, ModelRequestError, NotFoundError
from backread.models.gguf import HubFile, ask_hub, known_hub
from backread.models.sources import HubSource, PathSource, Progress, Source, UrlSource
from backread.models.specs import MODELS, ModelFile, ModelSpec

__all__ = [
    "MODELS",
    "FetchReport",
    "ModelSpec",
    "Progress",
    "fetch",
    "fetch_spec",
    "find",
    "find_spec",
    "known_spec",
    "models_dir",
    "named_source",
    "not_available",
]

VERIFIED = "verified.json"
STALE_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class FetchReport:
    """What `fetch` did.

    Attributes:
        source: where the bytes came from; "already there" when nothing had to be done.
        path: the folder that holds the files now.
        bytes: size of all files.
        sha256: of the weights.
        attempts: sources that were tried before and what they said, in order.
        good_for: see `ModelSpec`.
    """

    name: str
    source: str
    path: Path
    bytes: int
    sha256: str
    publisher: str
    licence: str
    attempts: tuple[str, ...] = ()
    good_for: str = ""


def models_dir(directory: str | Path | None = None) -> Path:
    """Where models are kept: the argument, else BACKREAD_MODELS_DIR, else the user's cache folder. Creates nothing."""
    if directory is None:
        directory = os.environ.get("BACKREAD_MODELS_DIR", "").strip() or None
    if directory is not None:
        return Path(directory).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("backread", appauthor=False)) / "models"


def not_available(name: str, reason: str) -> ModelNotAvailableError:
    """The error for missing or unusable weights, with the command that fetches them as its hint."""
    return ModelNotAvailableError(
        f"the weights of {name} can't be used: {reason}", hint=f"backread models fetch {name}"
    )


def find(name: str, directory: Path) -> Path | None:
    """The folder with the checked files of a model, or None when one of them is missing. Never downloads.

    Args:
        name: of a model, or of a GGUF file on the hub that was fetched, see `backread.models.gguf`.
        directory: see `models_dir`.

    Raises:
        NotFoundError: no model has this name.
        ModelNotAvailableError: the files are there but one is not the pinned file, by size or sha256.
    """
    spec = known_spec(name, directory)
    return None if spec is None else find_spec(spec, directory)


def known_spec(name: str, directory: Path) -> ModelSpec | None:
    """What a name stands for; None for a file on the hub that was not fetched.

    Raises:
        NotFoundError: no model has this name.
        InvalidInputError: a name with a slash that is no GGUF file on the hub.
    """
    if "/" not in name:
        return _spec(name)
    file = HubFile.parse(name)
    return known_hub(file, directory / file.name, VERIFIED)


def find_spec(spec: ModelSpec, directory: Path) -> Path | None:
    """`find` for a model that is not in `MODELS`."""
    folder = directory / spec.name
    if not all((folder / file.name).is_file() for file in spec.files):
        return None
    known = _read_verified(folder)
    seen = {file.name: _mark(folder / file.name, file) for file in spec.files}
    if known == seen:
        return folder
    for file in spec.files:
        _check(folder / file.name, file, spec.name)
    _write_verified(folder, seen)
    return folder


def fetch(
    name: str, *, directory: Path, place: str | Path | None = None, on_progress: Progress | None = None
) -> FetchReport:
    """Bring the weights of a model onto this machine and check them.

    They come from the hub, or from `place` alone: a folder with the files or a file in it (no connection is made), or a
    web address under which they lie. Files appear under their names in one step, so a fetch that is interrupted leaves
    nothing half-written, and two at once both end well.

    `name` may be a GGUF file on the hub (see `backread.models.gguf`): then only the hub is asked, and what it says
    about commit, size and sha256 is what the file is checked against, now and later.

    Raises:
        NotFoundError: no model has this name.
        InvalidInputError: a name with a slash that is no GGUF file on the hub, or one together with a path.
        ModelNotAvailableError: it had no such files, or other bytes (expected and found hash are named).
    """
    if "/" in name:
        return _fetch_hub(HubFile.parse(name), directory, place, on_progress)
    source = HubSource() if place is None else named_source(place)
    return fetch_spec(_spec(name), directory=directory, sources=(source,), on_progress=on_progress)


def named_source(place: str | Path) -> Source:
    """The source a user named: a web address, or a path."""
    if isinstance(place, str) and place.lower().startswith(("http://", "https://")):
        return UrlSource(place)
    return PathSource(Path(place).expanduser())


def _fetch_hub(file: HubFile, directory: Path, place: str | Path | None, on_progress: Progress | None) -> FetchReport:
    if place is not None:
        raise InvalidInputError(
            f"{file.name} is a file on the hub, not at another place",
            hint="use yours as local:/path/to/file.gguf",
        )
    known = known_hub(file, directory / file.name, VERIFIED)
    if known is not None and (folder := _there(known, directory)) is not None:
        return _report(known, "already there", folder, ())
    return fetch_spec(ask_hub(file), directory=directory, sources=(HubSource(),), on_progress=on_progress)


def fetch_spec(
    spec: ModelSpec, *, directory: Path, sources: Sequence[Source], on_progress: Progress | None = None
) -> FetchReport:
    """`fetch` for a model that is not in `MODELS`, or with other sources."""
    if (there := _there(spec, directory)) is not None:
        return _report(spec, "already there", there, ())
    folder = directory / spec.name
    _prepare(folder)
    attempts: list[str] = []
    for source in sources:
        with tempfile.TemporaryDirectory(prefix=".part-", dir=folder, ignore_cleanup_errors=True) as part:
            try:
                source.get(spec, Path(part), on_progress or _silent)
            except ModelRequestError as error:
                attempts.append(f"{source.describe(spec)}: {error}")
                continue
            for file in spec.files:
                _check(Path(part) / file.name, file, spec.name)
            _install(spec, Path(part), folder)
        return _report(spec, source.describe(spec), folder, tuple(attempts))
    if _there(spec, directory) is not None:  # another fetch at the same time was quicker
        return _report(spec, "already there", folder, tuple(attempts))
    wanted = ", ".join(file.name for file in spec.files)
    raise ModelNotAvailableError(
        f"could not fetch {spec.name}: " + "; ".join(attempts),
        hint=f"get {wanted} from {spec.homepage} elsewhere, then: backread models fetch {spec.name} --from FOLDER",
    )


def _spec(name: str) -> ModelSpec:
    if name not in MODELS:
        raise NotFoundError(f"no model is called {name!r}; there is: {', '.join(sorted(MODELS))}")
    return MODELS[name]


def _there(spec: ModelSpec, directory: Path) -> Path | None:
    """As `find_spec`; None also for damaged files, which are to be fetched again."""
    try:
        return find_spec(spec, directory)
    except ModelNotAvailableError:
        return None


def _silent(done: int, total: int) -> None:
    pass


def _report(spec: ModelSpec, source: str, folder: Path, attempts: tuple[str, ...]) -> FetchReport:
    return FetchReport(
        name=spec.name,
        source=source,
        path=folder,
        bytes=spec.size,
        sha256=spec.sha256,
        publisher=spec.publisher,
        licence=spec.licence,
        attempts=attempts,
        good_for=spec.good_for,
    )


def _prepare(folder: Path) -> None:
    """Make the folder; drop what a fetch that was killed left there more than a day ago."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part in folder.glob(".part-*"):
            if part.is_dir() and time.time() - part.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise ModelNotAvailableError(f"models can't be kept in {folder}: {error}") from error


def _install(spec: ModelSpec, part: Path, folder: Path) -> None:
    """Move checked files to their names, each in one step, and record that they were checked."""
    for file in spec.files:
        with (part / file.name).open("rb+") as handle:
            os.fsync(handle.fileno())
        (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(part / file.name, folder / file.name)
    _write_verified(folder, {file.name: _mark(folder / file.name, file) for file in spec.files})


def _check(path: Path, file: ModelFile, model: str) -> None:
    """Raise ModelNotAvailableError unless `path` is the pinned file."""
    size = path.stat().st_size
    if size != file.size:
        raise not_available(model, f"{path} has {size} bytes, expected {file.size}")
    with path.open("rb") as handle:
        found = hashlib.file_digest(handle, "sha256").hexdigest()
    if found != file.sha256:
        raise not_available(model, f"{path} has sha256 {found}, expected {file.sha256}")


def _mark(path: Path, file: ModelFile) -> list[int | str]:
    """What `verified.json` keeps of a checked file: size, modification time in ns, sha256."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, file.sha256]


def _read_verified(folder: Path) -> object:
    try:
        return json.loads((folder / VERIFIED).read_bytes())
    except (OSError, ValueError):
        return None  # not checked yet, or not readable: the files are checked again


def _write_verified(folder: Path, seen: object) -> None:
    """Record the check. A folder that can't be written only means that the files are checked again next time."""
    temporary = folder / f".part-{uuid.uuid4().hex}"
    try:
        temporary.write_text(json.dumps(seen, indent=1), encoding="utf-8")
        os.replace(temporary, folder / VERIFIED)
    except OSError:
        return
