"""ONNX models that are fetched from the hub: those that are pinned, and any other as "ORG/NAME@REVISION".

    report = fetch_onnx("ms-marco-minilm", directory=models_dir())
    folder = find_onnx("ms-marco-minilm", models_dir())

A pinned model is only ever used when its bytes are the pinned ones. Of any other, size and sha256 are recorded when it
is fetched, and from then on the files on this machine are checked against that record; nobody vouches for the first
time.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from backread.errors import InvalidInputError, ModelNotAvailableError, ModelRequestError
from backread.models.fetch import VERIFIED, FetchReport, fetch_spec, find_spec, named_source
from backread.models.sources import HubSource, PathSource, Progress, Source
from backread.models.specs import ModelFile, ModelSpec

__all__ = ["ONNX_MODELS", "fetch_onnx", "find_onnx"]

ONNX_MODELS: Mapping[str, ModelSpec] = MappingProxyType(
    {
        "ms-marco-minilm": ModelSpec(
            name="ms-marco-minilm",
            files=(
                ModelFile(
                    "onnx/model.onnx", "5d3e70fd0c9ff14b9b5169a51e957b7a9c74897afd0a35ce4bd318150c1d4d4a", 91_011_230
                ),
                ModelFile(
                    "tokenizer.json", "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66", 711_396
                ),
            ),
            repo="cross-encoder/ms-marco-MiniLM-L6-v2",
            revision="c5ee24cb16019beea0893ab7796b1df96625c6b8",
            publisher="cross-encoder (UKP Lab, TU Darmstadt, and Hugging Face)",
            licence="Apache-2.0",
            homepage="https://huggingface.co/cross-encoder/ms-marco-MiniLM-L6-v2",
            good_for="reranks English text; trained on web questions, its worth on chats is not measured here",
        )
    }
)
"""Pinned by sha256, which many public repositories hold for this commit; by the name users give."""

_PART = r"[A-Za-z0-9_][\w.-]*"
_NAME = re.compile(rf"(?P<repo>{_PART}/{_PART})@(?P<revision>[\w.-]+)", re.ASCII)
_PLACES = ("onnx/model.onnx", "model.onnx")


def find_onnx(name: str, directory: Path) -> Path:
    """The folder with the checked files of a model. Never downloads.

    Raises:
        InvalidInputError: a name of another form.
        ModelNotAvailableError: it was not fetched, or a file is not what it was when it was pinned or fetched.
    """
    spec = ONNX_MODELS.get(name) or _recorded(name, directory)
    folder = None if spec is None else find_spec(spec, directory)
    if folder is None:
        raise ModelNotAvailableError(
            f"the files of {name} are not in {directory}", hint=f"backread models fetch {name}"
        )
    return folder


def fetch_onnx(
    name: str,
    *,
    directory: Path,
    place: str | Path | None = None,
    source: Source | None = None,
    on_progress: Progress | None = None,
) -> FetchReport:
    """Bring a model onto this machine and check it, or record what came when nobody pinned it.

    Args:
        name: one of `ONNX_MODELS`, or "ORG/NAME@REVISION".
        directory: see `backread.models.fetch.models_dir`.
        place: see `backread.models.fetch.fetch`; of a pinned model only.
        source: the hub unless given.
        on_progress: called with bytes done and bytes in all; of a model that isn't pinned they are unknown, and 0.

    Raises:
        InvalidInputError: a name of another form, or a place for a model that isn't pinned.
        ModelNotAvailableError: the hub can't be reached, has no such files, or gave other bytes than the pinned ones.
    """
    source = source or HubSource()
    if name in ONNX_MODELS:
        chosen = source if place is None else named_source(place)
        return fetch_spec(
            ONNX_MODELS[name], directory=directory, sources=(_WithFolders(chosen),), on_progress=on_progress
        )
    if place is not None:
        raise InvalidInputError(
            f"{name} is a model on the hub, not at another place", hint=f"use yours as onnx:{place}"
        )
    known = _recorded(name, directory)
    if known is not None and find_spec(known, directory) is not None:
        return fetch_spec(known, directory=directory, sources=(), on_progress=on_progress)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part-", dir=directory, ignore_cleanup_errors=True) as part:
        spec = _download(name, Path(part), source, on_progress)
        return fetch_spec(spec, directory=directory, sources=(PathSource(Path(part)),), on_progress=on_progress)


class _WithFolders:
    """A source for models whose files lie in folders."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def describe(self, spec: ModelSpec) -> str:
        return self._source.describe(spec)

    def get(self, spec: ModelSpec, into: Path, on_progress: Progress) -> None:
        for file in spec.files:
            (into / file.name).parent.mkdir(parents=True, exist_ok=True)
        self._source.get(spec, into, on_progress)


def _download(name: str, part: Path, source: Source, on_progress: Progress | None) -> ModelSpec:
    """Put model.onnx and tokenizer.json into `part`; the model that they are."""
    problems: list[str] = []
    for place in _PLACES:
        wanted = _spec(name, (ModelFile(place, "", 0), ModelFile("tokenizer.json", "", 0)))
        try:
            _WithFolders(source).get(wanted, part, on_progress or (lambda done, total: None))
        except ModelRequestError as error:
            problems.append(str(error))
            continue
        (part / place).replace(part / "model.onnx")
        return _spec(name, tuple(_described(part / file) for file in ("model.onnx", "tokenizer.json")))
    raise ModelNotAvailableError(
        f"could not fetch {name}: {'; '.join(problems)}",
        hint="a folder with model.onnx and tokenizer.json can be used as onnx:FOLDER",
    )


def _described(path: Path) -> ModelFile:
    with path.open("rb") as file:
        return ModelFile(path.name, hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size)


def _recorded(name: str, directory: Path) -> ModelSpec | None:
    """The model as it was fetched, by the record that `backread.models.fetch` keeps; None when it wasn't."""
    spec = _spec(name, ())
    try:
        record = json.loads((directory / spec.name / VERIFIED).read_bytes())
        files = tuple(
            ModelFile(file, str(record[file][2]), int(record[file][0])) for file in ("model.onnx", "tokenizer.json")
        )
    except (OSError, ValueError, TypeError, LookupError):
        return None
    return _spec(name, files)


def _spec(name: str, files: tuple[ModelFile, ...]) -> ModelSpec:
    match = _NAME.fullmatch(name)
    if match is None or ".." in name:
        raise InvalidInputError(
            f"{name!r} is no ONNX model",
            hint=f"there is {', '.join(ONNX_MODELS)}; others as ORG/NAME@REVISION, or a folder",
        )
    return ModelSpec(
        name=name,
        files=files,
        repo=match["repo"],
        revision=match["revision"],
        publisher=f"{match['repo'].partition('/')[0]} on the hub",
        licence="see its page",
        homepage=f"https://huggingface.co/{match['repo']}",
        good_for="not tried by backread",
    )
