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
from backread.cli.options import AsJson
from backread.cli.output import console, counted, emit, note, shown, table, tell
from backread.cli.progress import bar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backread.bench.datasets import Dataset
    from backread.bench.experiment import Outcome, Progress
    from backread.bench.spec import ExperimentSpec
    from backread.memory import Memory

__all__ = ["compare", "report", "run"]

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="What `bench run` wrote.")]


def run(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The experiment, a TOML file.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where records are kept.")],
    data: Annotated[
        Path | None, typer.Option("--data", metavar="PATH", help="Where the data is, in place of the spec's `path`.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N questions.")
    ] = None,
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
        interval = f"{row.low:+.3f} to {row.high:+.3f}"
        rows.add_row(
            row.cell, row.measure, str(row.n), f"{row.first:.3f}", f"{row.second:.3f}", f"{row.mean:+.3f}", interval
        )
    tell(rows)


@contextmanager
def _ready(spec: ExperimentSpec) -> Iterator[tuple[Dataset, Memory]]:
    """The data of an experiment, and a memory that holds its histories; kept in the user's cache between runs."""
    from backread.bench.datasets import fill, load_dataset
    from backread.bench.opening import open_bench

    dataset = load_dataset(spec.dataset)
    note(f"{dataset.name}: {counted(len(dataset.questions), 'question')}", label="data")
    for text in dataset.notes:
        note(shown(text), label="data")
    with open_bench(spec, dataset, store_settings(None)) as memory:
        users = len({question.user_id for question in dataset.questions})
        with bar("histories", users) as advance:
            fill(memory, dataset, on_progress=advance)
        yield dataset, memory


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
