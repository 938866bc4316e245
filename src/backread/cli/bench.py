"""`backread bench`: run experiments, report them, compare two, and choose a design for a history."""

from __future__ import annotations

import shlex
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backread.cli.building import stoppable
from backread.cli.failures import ExitCode
from backread.cli.opening import store_settings
from backread.cli.options import AsJson, StorePath
from backread.cli.output import console, counted, emit, note, shown, table, tell
from backread.cli.progress import bar, spinner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backread.bench.datasets import Dataset
    from backread.bench.deciding import Choice
    from backread.bench.experiment import Outcome, Progress
    from backread.bench.spec import ExperimentSpec
    from backread.memory import Memory

__all__ = ["choose", "compare", "report", "run"]

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="What `bench run` wrote.")]


def run(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The experiment, a TOML file.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="Where records are kept. Default: its name."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="PATH", help="Where the data is, in place of the spec's `path`.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N questions.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Ask no model: say what would be sent to them.")] = False,
    retry_errors: Annotated[bool, typer.Option("--retry-errors", help="Run failed questions again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment; started again, it goes on where it was.

    The exit code is 6 when questions failed: they have no score, and the
    report says which and why.

      backread bench run locomo.toml --out results/locomo
      backread bench run locomo.toml --out results/locomo --dry-run
    """
    from backread.bench.spec import read_spec

    experiment = read_spec(spec, data=data)
    if dry_run:
        _dry_run(experiment, limit, as_json=as_json)
        return
    out = out or Path(experiment.name)
    with _ready(experiment) as (dataset, memory), stoppable() as stop:
        outcome = _run(experiment, dataset, memory, out, limit, retry_errors, stop)
    if as_json:
        emit(outcome)
    else:
        tell(
            f"{counted(outcome.ran, 'question')} run, {outcome.total:,} in all, {outcome.errors:,} failed: {out}",
            f"next: backread bench report {shlex.quote(str(out))}",
        )
    if stop.is_set():
        raise KeyboardInterrupt
    if outcome.errors:
        raise typer.Exit(ExitCode.FAULTS)


def report(
    folder: Folder,
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="CELL", help="What the others are compared with.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the report of an experiment, as Markdown and as one HTML page.

    backread bench report results/locomo
    """
    from backread.bench.report import write_report

    written = write_report(folder, baseline=baseline)
    if as_json:
        emit({"markdown": written[0], "html": written[1]})
        return
    tell(*map(str, written))


def compare(
    first: Folder,
    second: Annotated[Path, typer.Argument(metavar="OTHER", help="Another one.")],
    cell: Annotated[
        str | None, typer.Option("--cell", metavar="CELL", help="Only this cell. Default: all that both have.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two experiments question by question.

    Only questions that both have scored count. What else differs (data,
    models, versions, questions) is said first; other data is refused.

      backread bench compare results/before results/after
    """
    from backread.bench.comparing import compare_folders

    found = compare_folders(first, second, cell=cell)
    if as_json:
        emit(found)
        return
    for text in found.notes:
        note(text, label="differs")
    rows = table(
        "cell", "measure", "n", "first", "second", "difference", "95 % interval", right=["n", "first", "second"]
    )
    for row in found.rows:
        means = [_number(row.first), _number(row.second), _number(row.mean, "+")]
        rows.add_row(row.cell, row.measure, f"{row.n:,}", *means, _interval(row.low, row.high))
    tell(rows)


def choose(
    user: Annotated[
        str | None, typer.Option("--user", "-u", metavar="ID", help="Whose history in the store is compared on.")
    ] = None,
    history: Annotated[
        Path | None, typer.Option("--history", metavar="FILE", help="Messages as JSON lines, in place of a user's.")
    ] = None,
    questions: Annotated[
        Path | None, typer.Option("--questions", metavar="FILE", help="Questions with the turns that answer them.")
    ] = None,
    draft: Annotated[
        int, typer.Option("--draft", metavar="N", min=1, help="Without questions: draft this many.")
    ] = 100,
    designs: Annotated[
        list[str] | None, typer.Option("--design", metavar="NAME", help="Only these; may be repeated.")
    ] = None,
    budgets: Annotated[
        list[int] | None, typer.Option("--budget", metavar="N", min=1, help="Tokens of evidence; may be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where records are kept.")] = Path(
        "choice"
    ),
    path: StorePath = None,
    as_json: AsJson = False,
) -> None:
    """Say which design suits a history, or that the data can't tell.

    Designs answer the same questions at the same budgets. Without questions
    some are drafted from the history and marked: they are easier than yours.
    With models for answer and judge answers are compared, else evidence.

      backread bench choose --user ann
      backread bench choose --history chats.jsonl --questions mine.jsonl
    """
    from backread.bench.choosing import prepare

    settings = store_settings(path)
    with stoppable() as stop:
        spec = prepare(
            settings,
            user=user,
            history=history,
            questions=questions,
            draft=draft,
            designs=designs or (),
            budgets=budgets,
            folder=out,
        )
        with _ready(spec) as (dataset, memory), _bar("choice") as show:
            from backread.bench.choose import choose as chosen

            command = shlex.join(["backread", *sys.argv[1:]])
            found = chosen(spec, dataset, memory, out, command=command, on_progress=show, cancel=stop)
    if found is None:
        raise KeyboardInterrupt
    if as_json:
        emit(found)
        return
    _tell_choice(found, out)


def _tell_choice(found: Choice, out: Path) -> None:
    numbers = ("budget", "tokens", found.measure, "difference", "95 % interval", "p Holm")
    rows = table("design", *numbers, right=numbers, fold=["design"])
    for item in found.standings:
        for place, row in enumerate(item.budgets):
            name = "" if place else item.strategy
            budget = "none" if row.budget is None else f"{row.budget:,}"
            difference = row.difference
            interval = "" if difference is None else _interval(difference.low, difference.high)
            rows.add_row(
                name,
                budget,
                "unknown" if row.tokens is None else f"{row.tokens:,.0f}",
                _number(row.value.mean),
                "" if difference is None else _number(difference.mean, "+"),
                interval,
                "" if row.adjusted is None else f"{row.adjusted:.3f}",
            )
    tell(rows, "", f"recommended: {found.recommended}" if found.recommended else "the data can't tell", found.reason)
    for text in found.notes:
        note(text)
    note(f"records in {out}; next: backread bench report {shlex.quote(str(out))}")


def _interval(low: float | None, high: float | None) -> str:
    return "unknown" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"


def _number(value: float | None, sign: str = "") -> str:
    return "unknown" if value is None else f"{value:{sign}.3f}"


@contextmanager
def _ready(spec: ExperimentSpec) -> Iterator[tuple[Dataset, Memory]]:
    """The data of an experiment, and a memory that holds its histories; kept in the user's cache between runs."""
    from backread.bench.datasets import fill
    from backread.bench.opening import open_bench

    dataset = _loaded(spec)
    with open_bench(spec, dataset, store_settings(None)) as memory:
        users = len({question.user_id for question in dataset.questions})
        with bar("histories", users) as advance:
            fill(memory, dataset, on_progress=advance)
        yield dataset, memory


def _loaded(spec: ExperimentSpec) -> Dataset:
    """The data, with what must be said of it."""
    from backread.bench.datasets import load_dataset

    dataset = load_dataset(spec.dataset)
    note(f"{dataset.name}: {counted(len(dataset.questions), 'question')}", label="data")
    for text in dataset.notes:
        note(shown(text), label="data")
    return dataset


def _dry_run(spec: ExperimentSpec, limit: int | None, *, as_json: bool) -> None:
    from backread.bench.dry_run import dry_run

    dataset = _loaded(spec)
    with spinner("counting"):
        found = dry_run(spec, dataset, store_settings(None), limit=limit)
    if as_json:
        emit(found)
        return
    numbers = ("of", "calls", "tokens sent", "tokens got, at most")
    rows = table("what", "for", *numbers, right=numbers, fold=["what"])
    for item in found:
        for row in item.usage:
            sent, got = (row.input_tokens or 0, row.output_tokens or 0)
            rows.add_row(
                item.what, row.purpose, f"{item.per:,}", f"{row.calls / item.per:,.2f}", f"{sent:,}", f"{got:,}"
            )
    tell(rows)
    note("means over questions, or over histories for write-time work; a stand-in answers, see docs/bench.md")


def _run(
    spec: ExperimentSpec,
    dataset: Dataset,
    memory: Memory,
    out: Path,
    limit: int | None,
    retry_errors: bool,
    stop: threading.Event,
) -> Outcome:
    from backread.bench.experiment import run_experiment

    with _bar(f"{spec.name}") as show:
        return run_experiment(
            spec,
            dataset,
            memory,
            out,
            command=shlex.join(["backread", *sys.argv[1:]]),
            limit=limit,
            retry_errors=retry_errors,
            on_progress=show,
            cancel=stop,
        )


@contextmanager
def _bar(title: str) -> Iterator[Callable[[Progress], None]]:
    """A bar over the records, with the time left, tokens, cost and failures; none where there is no terminal."""
    err = console(sys.stderr)
    if not err.is_terminal:
        yield lambda progress: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(title), BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn())
    left = (TextColumn("left", style="dim"), TimeRemainingColumn(), TextColumn("{task.fields[spent]}"))
    with Bar(*columns, *left, console=err) as shown_bar:
        task = shown_bar.add_task(title, total=None, spent="")

        def show(progress: Progress) -> None:
            spent = [f"{progress.tokens:,} tokens"] if progress.tokens else []
            spent += [f"cost {progress.cost:.4f}"] if progress.cost is not None else []
            spent += [f"{progress.errors} failed"] if progress.errors else []
            shown_bar.update(task, completed=progress.done, total=progress.total, spent=", ".join(spent))

        yield show
