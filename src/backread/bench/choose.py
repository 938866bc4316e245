"""Choosing a design for one's own history: the available designs over one's own questions at the same budgets.

spec = choice_spec(Path("history.jsonl"), Path("questions.jsonl"))
dataset = load_dataset(spec.dataset)
with open_bench(spec, dataset, settings) as memory:
    fill(memory, dataset)
    choice = choose(spec, dataset, memory, Path("choice"), command="…")
choice.recommended          # a design's name, or None: the data can't tell
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from backread.bench.datasets import Dataset
from backread.bench.deciding import DEFAULT, Choice, recommend
from backread.bench.experiment import Progress, run_experiment
from backread.bench.results import read_results
from backread.bench.spec import DatasetSpec, DesignSpec, ExperimentSpec, ModelsSpec
from backread.errors import NotFoundError
from backread.memory import Memory
from backread.strategies.registry import STRATEGIES

__all__ = ["BUDGETS", "choice_spec", "choose", "export_history"]

BUDGETS: Final = (500, 1000, 2000)
"""Tokens of evidence at which designs are compared: the default budget, half and twice of it."""

_UNITS: Final = "naive_rag:"


def choice_spec(
    history: Path,
    questions: Path,
    *,
    designs: Sequence[str] = (),
    budgets: Sequence[int] = BUDGETS,
    retriever: str | None = None,
    models: ModelsSpec | None = None,
    embedder: str = "minilm",
    default: str = DEFAULT,
) -> ExperimentSpec:
    """The experiment that compares designs on a history.

    A design that wants a chat model and gets none is compared in its form without one: that is what its user would
    get. With models for answer and judge answers are compared, else evidence. Write-time work of a design is done once.

    Args:
        history: messages as JSON lines.
        questions: see `own_questions`.
        designs: names; empty is every design as it is meant, and naive RAG over every unit. Other presets leave a part
            out: each more that is compared takes more questions to tell.
        budgets: tokens of evidence.
        retriever: what every design searches with; None is what each has of its own.
        models: by role; None is none.
        embedder: as settings name it.
        default: the design the others have to beat; compared even when `designs` lacks it.

    Raises:
        NotFoundError: there is no design of a name.
    """
    every = [name for name in sorted(STRATEGIES) if ":" not in name or name.startswith(_UNITS)]
    names = list(dict.fromkeys((default, *(designs or every))))
    for name in names:
        if name not in STRATEGIES:
            raise NotFoundError(f"there is no strategy {name!r}", hint=f"strategies: {', '.join(sorted(STRATEGIES))}")
    retrievers = () if retriever is None else (retriever,)
    return ExperimentSpec(
        name="choice",
        dataset=DatasetSpec(format="jsonl", path=history, questions=questions),
        designs=tuple(DesignSpec(strategy=name, retrievers=retrievers, budgets=tuple(budgets)) for name in names),
        models=models or ModelsSpec(),
        embedder=embedder,
        lenient=False,
    )


def choose(
    spec: ExperimentSpec,
    dataset: Dataset,
    memory: Memory,
    folder: Path,
    *,
    command: str,
    default: str = DEFAULT,
    seed: int = 0,
    on_progress: Callable[[Progress], None] | None = None,
    cancel: threading.Event | None = None,
) -> Choice | None:
    """Run what of the experiment has no record yet, and say which design to choose; see `deciding`.

    Args:
        spec: of `choice_spec`.
        dataset: of `spec.dataset`.
        memory: holds the dataset's histories, with the spec's embedder and models.
        folder: where records are kept; `backread bench report` reads it too.
        command: as typed, for the manifest.
        default: the design the others have to beat.
        seed: of the draws.
        on_progress: called after every record.
        cancel: set to stop; what is done is kept.

    Returns:
        None when it was stopped before every question had a record.

    Raises:
        InvalidInputError: another experiment is in the folder.
        StoreBusyError: another process runs it.
    """
    outcome = run_experiment(spec, dataset, memory, folder, command=command, on_progress=on_progress, cancel=cancel)
    return recommend(read_results(folder), default=default, seed=seed) if outcome.complete else None


def export_history(memory: Memory, users: Iterable[str], path: Path) -> int:
    """Write the histories of users to a file that `choice_spec` takes; returns how many messages.

    Turns without an id of their own get their turn id, so that questions can name them.
    """
    count = 0
    with path.open("w", encoding="ascii", newline="\n") as file:
        for user in users:
            for message in memory.export(user_id=user):
                file.write(json.dumps(message) + "\n")
                count += 1
    return count
