"""`backread models`: the weights backread knows, where they are, and fetching them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backread.cli.completing import model_names
from backread.cli.opening import store_settings
from backread.cli.options import AsJson
from backread.cli.output import emit, note, pairs, shown, size, tell
from backread.cli.progress import bar

if TYPE_CHECKING:
    from backread.models.fetch import FetchReport
    from backread.models.specs import ModelSpec

__all__ = ["ModelState", "fetch", "list_models", "model_path", "state"]


@dataclass(frozen=True, slots=True)
class ModelState:
    """A model and how it stands on this machine: "ready", "not fetched" or "damaged"."""

    name: str
    status: str
    path: Path
    bytes: int
    sha256: str
    publisher: str
    licence: str
    homepage: str
    kind: str
    good_for: str | None = None
    problem: str | None = None


def list_models(as_json: AsJson = False) -> None:
    """List the models backread knows, and whether their weights are here.

    backread models list
    """
    from backread.models.fetch import MODELS

    folder = _folder()
    found = [state(spec, folder) for _, spec in sorted(MODELS.items())]
    if as_json:
        emit(found)
        return
    for number, item in enumerate(found):
        rows = [("model", item.name), ("weights", item.status if item.problem is None else item.problem)]
        rows += [("publisher", item.publisher), ("licence", item.licence), ("size", size(item.bytes))]
        rows += [("sha256", item.sha256), ("from", item.homepage), ("folder", str(item.path))]
        rows += [("good for", item.good_for)] if item.good_for else []
        tell(*([""] if number else []), pairs(rows))
        if item.status != "ready":
            note(f"fetch them: backread models fetch {item.name}")


def model_path(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A model; without it the folder of all.", autocompletion=model_names),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the folder where weights are kept.

    backread models path minilm
    """
    folder = _folder()
    folder = folder if name is None else folder / (name if "/" in name else _spec(name).name)
    if as_json:
        emit({"name": name, "path": folder, "exists": folder.is_dir()})
    else:
        sys.stdout.write(f"{folder}\n")


def fetch(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="See `backread models list`; or a hub's ORG/REPO/FILE.gguf.",
            autocompletion=model_names,
        ),
    ],
    source: Annotated[
        str | None,
        typer.Option("--from", "--path", metavar="PLACE", help="A folder with the files, or their address."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch weights and check their hash.

    The one command that downloads anything, from the hub unless another place
    is named. Bytes with another hash are refused, whoever gave them.

      backread models fetch minilm
      backread models fetch minilm --from /media/usb/minilm
      backread models fetch minilm --from https://mirror.example/minilm
    """
    size_known = None if "/" in name or "@" in name else _spec(name).size
    with bar(f"fetching {name}", size_known, in_bytes=True) as advance:
        reached = 0

        def moved(done: int, total: int) -> None:
            nonlocal reached
            advance(done - reached)
            reached = done

        report = _fetched(name, source, moved)
        moved(report.bytes, report.bytes)
    if as_json:
        emit(report)
        return
    rows = [("model", report.name), ("publisher", report.publisher), ("licence", report.licence)]
    rows += [("size", size(report.bytes)), ("sha256", f"{report.sha256} (checked)")]
    rows += [("source", report.source), ("folder", str(report.path))]
    rows += [("tried before", shown(attempt)) for attempt in report.attempts]
    rows += [("good for", report.good_for)] if report.good_for else []
    tell(pairs(rows))


def _fetched(name: str, source: str | None, on_progress: Callable[[int, int], None]) -> FetchReport:
    """Fetch by whatever the name is: a model backread knows, a GGUF of the hub, or ONNX weights of the hub."""
    from backread.models import fetch, onnx_hub

    if name in onnx_hub.ONNX_MODELS or ("@" in name and not name.endswith(".gguf")):
        return onnx_hub.fetch_onnx(name, directory=_folder(), place=source, on_progress=on_progress)
    return fetch.fetch(name, directory=_folder(), place=source, on_progress=on_progress)


def state(spec: ModelSpec, folder: Path) -> ModelState:
    """How a model stands on this machine; its hash is checked when its files changed since the last time."""
    from backread.errors import ModelNotAvailableError
    from backread.models.fetch import find

    problem = None
    try:
        status = "not fetched" if find(spec.name, folder) is None else "ready"
    except ModelNotAvailableError as error:
        status, problem = "damaged", str(error)
    return ModelState(
        name=spec.name,
        status=status,
        path=folder / spec.name,
        bytes=spec.size,
        sha256=spec.sha256,
        publisher=spec.publisher,
        licence=spec.licence,
        homepage=spec.homepage,
        kind=spec.kind,
        good_for=spec.good_for or None,
        problem=problem,
    )


def _folder() -> Path:
    from backread.models.fetch import models_dir

    return models_dir(store_settings(None).models_dir)


def _spec(name: str) -> ModelSpec:
    from backread.errors import NotFoundError
    from backread.models.fetch import MODELS

    if name not in MODELS:
        raise NotFoundError(f"no model is called {name!r}", hint=f"there is: {', '.join(sorted(MODELS))}")
    return MODELS[name]
