from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from backread import errors
from backread.cli import app, failures, importing, searching
from backread.cli.failures import CODES, ExitCode, PipeClosedError, exit_code, guarded
from backread.importers import IMPORTERS
from backread.retrieval.registry import RETRIEVERS

Run = Callable[..., Result]


def commands(group: Any, *before: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of a group with the words that call it, those of groups inside it included."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *before, name)
        else:
            yield (*before, name), command


ALL = dict(commands(typer.main.get_command(app)))
PLAIN = CliRunner(env={"COLUMNS": "80"})


def test_every_command_of_the_plan_is_there() -> None:
    named = ["add", "import", "search", "recall", "ask", "users", "sessions", "show", "delete", "export"]
    named += ["verify", "scrub", "reindex", "stats", "doctor", "demo", "build", "entries", "serve", "mcp"]
    named += ["strategies", "plugins", "backup", "rescue"]
    assert sorted(words[0] for words in ALL if len(words) == 1) == sorted(named)
    assert sorted(words for words in ALL if len(words) == 2) == [
        ("bench", "choose"),
        ("bench", "compare"),
        ("bench", "report"),
        ("bench", "run"),
        ("models", "fetch"),
        ("models", "list"),
        ("models", "path"),
        ("new", "strategy"),
    ]


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_explains_itself_with_an_example(words: tuple[str, ...]) -> None:
    told = PLAIN.invoke(app, [*words, "--help"])
    assert told.exit_code == 0
    text = inspect.cleandoc(ALL[words].help)
    assert text.split("\n")[0].endswith(".")
    assert f"backread {' '.join(words)}" in text
    for line in text.split("\n"):
        assert line.strip() in told.stdout
    assert "\b" not in told.stdout


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_option_is_explained(words: tuple[str, ...]) -> None:
    for parameter in ALL[words].params:
        if parameter.name != "help":
            assert parameter.help, parameter.name


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_prints_json_and_can_name_the_store(words: tuple[str, ...]) -> None:
    options = {option for parameter in ALL[words].params for option in parameter.opts}
    if words[0] in ("serve", "mcp"):  # they print no data: a program talks to them in another way
        assert "--path" in options
        return
    assert "--json" in options
    alone = words[0] in ("models", "new", "plugins", "rescue", "strategies")
    own_store = alone or (words[0] == "bench" and words[1] != "choose")
    assert own_store or {"--path", "-p"} <= options


def test_help_fits_eighty_columns_and_lists_the_exit_codes() -> None:
    told = PLAIN.invoke(app, ["--help"])
    assert told.exit_code == 0
    assert max(len(line) for line in told.stdout.split("\n")) <= 80
    for code, meaning in CODES:
        assert f"{int(code):>3}  {meaning}" in told.stdout
    assert {code for code, _ in CODES} == set(ExitCode)


def test_without_a_command_the_help_is_shown() -> None:
    assert "Usage: backread" in PLAIN.invoke(app, []).stdout
    assert "Usage: backread models" in PLAIN.invoke(app, ["models"]).stdout


def test_version() -> None:
    from backread import __version__

    assert PLAIN.invoke(app, ["--version"]).stdout == f"backread {__version__}\n"


def test_choices_are_those_of_the_library() -> None:
    assert {*searching.Mode, "sparse"} == set(RETRIEVERS)
    assert sorted(importing.Format) == sorted(IMPORTERS)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.InvalidInputError, 2),
        (errors.ConflictError, 2),
        (errors.ImportFormatError, 2),
        (errors.MissingExtraError, 2),
        (errors.BackreadError, 2),
        (errors.NotFoundError, 3),
        (errors.StoreBusyError, 4),
        (errors.StoreCorruptError, 4),
        (errors.ModelRequestError, 5),
        (errors.ModelNotAvailableError, 5),
    ],
)
def test_exit_codes_of_errors(kind: type[errors.BackreadError], code: int) -> None:
    assert exit_code(kind("said so")) == code


def fails(error: BaseException) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call


def test_an_error_is_a_message_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    error = errors.StoreError("the file\x1b[31m is gone", hint="look for it")
    assert guarded(fails(error), []) == 4
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "error: the file\ufffd[31m is gone\nhint: look for it\n"


def test_with_json_an_error_is_json_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(fails(errors.NotFoundError("no turn 'é\ud800'")), ["show", "--json"]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert json.loads(said.err) == {
        "error": {"type": "NotFoundError", "message": "no turn 'é\ud800'", "hint": None}
    }  # fmt: skip
    assert said.err.isascii()


def test_words_after_two_dashes_are_no_options() -> None:
    assert failures.wants_json(["add", "--json", "--", "x"])
    assert not failures.wants_json(["add", "--", "--json"])
    assert not failures.wants_debug(["add", "--debug"])
    assert failures.wants_debug(["--debug", "add"])


def test_a_bug_has_a_code_of_its_own_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(fails(KeyError("x")), ["search"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("error: unexpected KeyError: 'x'\nhint: this is a bug")
    assert "Traceback" not in told


@pytest.mark.parametrize("how", ["option", "variable"])
def test_debug_shows_the_traceback(
    how: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "variable":
        monkeypatch.setenv("BACKREAD_DEBUG", "1")
    assert guarded(fails(errors.StoreError("gone")), ["--debug", "stats"] if how == "option" else ["stats"]) == 4
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), typer.Abort()])
def test_interrupted(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(fails(error), []) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("error", [BrokenPipeError(), PipeClosedError()])
def test_a_closed_pipe_is_quiet(
    error: BaseException, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.dup2", lambda *files: None)
    assert guarded(fails(error), []) == 141
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "args",
    [("search", "x"), ("search", "--nope"), ("nope",), ("show", "--user", "a"), ("search", "-u", "a", "-k", "0", "x")],
)
def test_wrong_usage_ends_with_2(run: Run, args: tuple[str, ...]) -> None:
    result = run(*args, code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert "hint: backread" in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("search", "-u", "ann", "x"),
        ("recall", "-u", "ann", "x"),
        ("ask", "-u", "ann", "x"),
        ("users",),
        ("sessions", "-u", "ann"),
        ("show", "-u", "ann", "t1"),
        ("delete", "-u", "ann", "--yes"),
        ("export", "-u", "ann"),
        ("verify",),
        ("backup", "copy.db"),
        ("reindex",),
        ("stats",),
    ],
    ids=lambda args: str(args[0]),
)
def test_a_store_that_is_not_there_is_not_made_by_reading(run: Run, store: Path, args: tuple[str, ...]) -> None:
    assert f"no store at {store}" in run(*args, code=3).stderr
    assert not store.exists()


def test_a_file_that_is_no_store(run: Run, store: Path) -> None:
    store.write_bytes(b"nothing of the kind" * 100)
    told = run("stats", code=4).stderr
    assert told.startswith("error: ")
    assert "Traceback" not in told


def test_settings_that_cannot_be_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKREAD_BUDGET", "many")
    assert "BACKREAD_BUDGET" in run("stats", code=2).stderr
