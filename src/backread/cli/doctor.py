"""`backread doctor`: whether this machine and these settings work, and what to do where they don't."""

from __future__ import annotations

import os
import platform
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

import typer

from backread.cli.failures import ExitCode
from backread.cli.opening import open_memory, store_settings, typed
from backread.cli.options import AsJson, StorePath
from backread.cli.output import counted, emit, note, shown, size, table, tell
from backread.errors import BackreadError, InvalidInputError
from backread.secret import Secret
from backread.settings import ENVIRONMENT, Settings, resolve

__all__ = ["Check", "Setting", "doctor"]

Status = Literal["ok", "warning", "error"]

_STYLES: Final = {"ok": "green", "warning": "yellow", "error": "bold red"}
_OLDEST_SQLITE: Final = (3, 37, 0)  # STRICT tables


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at, and what to do about it."""

    name: str
    status: Status
    detail: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as it stands, and who set it."""

    name: str
    value: str | None
    origin: str


def doctor(path: StorePath = None, as_json: AsJson = False) -> None:
    """Check Python, SQLite, the store, the models and the settings.

    Says what to do about each warning and error. Asks no model and no network.
    Ends with 6 when there is an error.

      backread doctor
      backread doctor --path memory.db --json
    """
    checks = list(_checks(path))
    settings = _settings(path)
    ok = all(check.status != "error" for check in checks)
    if as_json:
        emit({"ok": ok, "checks": checks, "settings": settings})
    else:
        _print(checks, settings)
    if not ok:
        raise typer.Exit(ExitCode.FAULTS)


def _print(checks: list[Check], settings: list[Setting]) -> None:
    from rich.text import Text

    made = table("check", "", "what was found", fold=("what was found",))
    for check in checks:
        told = Text(shown(check.detail))
        if check.hint:
            told.append(f"\n→ {shown(check.hint)}")
        made.add_row(check.name, Text(check.status, _STYLES[check.status]), told)
    tell(made, "")
    listed = table("setting", "value", "set by", fold=("value",))
    for setting in settings:
        listed.add_row(setting.name, shown(setting.value or "not set"), setting.origin)
    tell(listed)


def _checks(path: Path | None) -> Iterator[Check]:
    yield _python()
    yield _sqlite()
    try:
        settings = store_settings(path)
        settings.zone_info  # noqa: B018 -- raises for a zone there isn't
    except InvalidInputError as error:
        yield Check("settings", "error", str(error), error.hint)
        return
    yield Check("settings", "ok", "can be read")
    parts: tuple[tuple[str, Callable[[Settings], Check]], ...] = (
        ("store", _store),
        ("embedder", _embedder),
        ("chat model", _chat),
        ("tokens", _counter),
    )
    for name, look in parts:
        try:
            yield look(settings)
        except BackreadError as error:
            yield Check(name, "error", str(error), error.hint)


def _python() -> Check:
    from backread import __version__

    found = f"{platform.python_implementation()} {platform.python_version()}, backread {__version__}"
    fine = sys.version_info >= (3, 11)
    return Check("python", "ok" if fine else "error", found, None if fine else "install Python 3.11 or later")


def _sqlite() -> Check:
    import sqlite3

    fine = sqlite3.sqlite_version_info >= _OLDEST_SQLITE
    hint = None if fine else "use a Python whose SQLite is 3.37 or later"
    return Check("sqlite", "ok" if fine else "error", f"SQLite {sqlite3.sqlite_version}", hint)


def _store(settings: Settings) -> Check:
    path = settings.path
    if not path.exists():
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        if not os.access(folder, os.W_OK):
            return Check("store", "error", f"{path} can't be made: {folder} can't be written", "choose another --path")
        return Check("store", "ok", f"{path} is not there yet", "`backread add` and `backread import` make it")
    from backread.store.migrations import MIGRATIONS

    with open_memory(path) as memory:
        found = memory.stats()
    counts = f"{counted(found.turns, 'turn')} in {counted(found.sessions, 'session')} of {counted(found.users, 'user')}"
    told = f"{path}, {size(found.bytes)}, schema {len(MIGRATIONS)}: {counts}, {found.vectors:,} vectors"
    others = stat.S_IMODE(path.stat().st_mode) & 0o077 if os.name == "posix" else 0
    if others:
        return Check("store", "warning", f"{told}; others on this machine may read it", f"chmod 600 {path}")
    return Check("store", "ok", told, f"{_next('verify', settings)} proves it")


def _next(command: str, settings: Settings) -> str:
    return typed(command, None if settings.path == resolve().path else settings.path)


def _embedder(settings: Settings) -> Check:
    if settings.embedder == "none":
        return Check("embedder", "ok", "none: search is by words only, as set")
    from backread.cli.models import state
    from backread.models.embedders import open_embedder
    from backread.models.fetch import MODELS

    folder = settings.models_dir or Path()
    if settings.embedder in MODELS:
        found = state(MODELS[settings.embedder], folder)
        if found.status != "ready":
            told = found.problem or f"{settings.embedder}: the weights are not in {found.path}; search is by words only"
            return Check(
                "embedder",
                "error" if found.problem else "warning",
                told,
                f"`backread models fetch {settings.embedder}` ({size(found.bytes)}), or BACKREAD_EMBEDDER=none",
            )
    embedder = open_embedder(settings.embedder, directory=folder)
    embedder.embed(["doctor"])
    told = f"{embedder.name}: weights checked by hash, embeds ({embedder.dimension} dimensions)"
    if settings.path.exists():
        with open_memory(settings.path, embedder=True) as memory:
            stored, pending = memory.stats().embedder, memory.pending()
        if stored not in (None, embedder.fingerprint):
            return Check(
                "embedder",
                "warning",
                f"{told}; the store's vectors are of {stored}, not searched",
                _next("reindex", settings),
            )
        if pending:
            return Check(
                "embedder", "warning", f"{told}; {counted(pending, 'turn')} pending", _next("reindex", settings)
            )
    return Check("embedder", "ok", told)


def _chat(settings: Settings) -> Check:
    key = f"key {'set' if settings.api_key else 'not set'}"
    where = settings.base_url or "OpenAI's own endpoint"
    if settings.model is None and settings.api_key is None and settings.base_url is None:
        hint = "OPENAI_API_KEY (or OPENAI_BASE_URL) and BACKREAD_MODEL turn on written answers"
        return Check("chat model", "ok", "none: answers quote the record", hint)
    if settings.model is None:
        return Check(
            "chat model", "warning", f"an endpoint is set ({where}, {key}), but no model", "set BACKREAD_MODEL"
        )
    if settings.api_key is None and settings.base_url is None:
        hint = "set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own"
        return Check("chat model", "error", f"{settings.model} has no endpoint: no address and no key", hint)
    return Check("chat model", "ok", f"{settings.model} at {where}, {key}; not called here")


def _counter(settings: Settings) -> Check:
    from backread.text.tokens import EstimateCounter, default_counter

    counter = default_counter()
    if isinstance(counter, EstimateCounter):
        return Check("tokens", "ok", f"{counter.name}", "exact counts: pip install 'backread[tiktoken]'")
    return Check("tokens", "ok", counter.name)


def _settings(path: Path | None) -> list[Setting]:
    """Every setting with its origin; a key is only said to be there or not."""
    try:
        filed = resolve({name: os.environ[name] for name in ("BACKREAD_CONFIG",) if os.environ.get(name)})
        settings = resolve(path=path)
    except InvalidInputError as error:
        note(f"settings are shown as far as they can be read: {error}")
        filed, settings = Settings(), replace(Settings(), path=path) if path else Settings()
    listed = []
    for name in (item.name for item in fields(Settings)):
        value: Any = getattr(settings, name)
        if type(value) is Secret:
            value = "set" if value else None
        listed.append(Setting(name, None if value is None else str(value), _origin(name, path, filed)))
    return listed


def _origin(name: str, path: Path | None, filed: Settings) -> str:
    if name == "path" and path is not None:
        return "--path"
    if os.environ.get(ENVIRONMENT[name]):
        return ENVIRONMENT[name]
    return "configuration file" if getattr(filed, name) != getattr(Settings(), name) else "default"
