"""What an experiment is: a TOML file, checked, with a hash that tells one experiment from another.

    name = "locomo-raw"

    [dataset]
    format = "locomo"
    path = "locomo10.json"

    [[designs]]
    strategy = "naive_rag"
    retrievers = ["bm25", "hybrid"]
    depths = [3, 5, 10]
    budgets = [330, 500, 935]

Every design, retriever and depth or budget is a *cell*; a record is one question in one cell.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Self

import pydantic

from backread.errors import InvalidInputError

__all__ = ["Cell", "DatasetSpec", "DesignSpec", "ExperimentSpec", "ModelsSpec", "read_spec"]

Budget = pydantic.PositiveInt
Depth = pydantic.PositiveInt


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class DatasetSpec(_Part):
    """Which questions over which histories.

    Attributes:
        format: how `path` is read; "jsonl" is the user's own history, with `questions` beside it.
        path: the file; relative to the spec's folder. A folder for "longmemeval-compact".
        variant: of "longmemeval-compact": "oracle", "s-real" or "s-like".
        questions: of "jsonl": the file of questions with their gold labels.
        sha256: the data's hash, lower-case hexadecimal; another one is refused.
        overlay: a file of corrected or disputed gold answers; what it corrects is said with every figure.
        roles: only turns of these roles are imported; None is all. Said with every figure.
        users: only these histories.
        types: only questions of these types.
        exclude_types: no questions of these.
        adversarial: also questions that have no answer in the history, where the benchmark keeps them apart (LoCoMo).
        sample: this many questions, spread over types in proportion and over the file evenly; None is all.
    """

    format: Literal["locomo", "longmemeval", "longmemeval-compact", "jsonl"]
    path: Path
    variant: Literal["oracle", "s-real", "s-like"] | None = None
    questions: Path | None = None
    sha256: str | None = None
    overlay: Path | None = None
    roles: tuple[str, ...] | None = None
    users: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    exclude_types: tuple[str, ...] = ()
    adversarial: bool = False
    sample: pydantic.PositiveInt | None = None


class Cell(_Part):
    """One way of working that every question goes through.

    Attributes:
        strategy: the design's name, preset included.
        retriever: what it searches with in place of its own; None is its own; "oracle" ranks gold first.
        depth: units the retriever gives at most (matched depth); None doesn't cap.
        budget: tokens of evidence at most (matched budget, per question); None doesn't limit.
    """

    strategy: str
    retriever: str | None = None
    depth: Depth | None = None
    budget: Budget | None = None

    @property
    def name(self) -> str:
        """How a cell is written in records, tables and plots: "naive_rag/hybrid/budget=500"."""
        limits = [f"{what}={value}" for what, value in (("depth", self.depth), ("budget", self.budget)) if value]
        return "/".join([self.strategy, self.retriever or "own", *(limits or ["unlimited"])])


class DesignSpec(_Part):
    """A strategy and the cells to run it in: every retriever with every depth, every budget, and with the oracle.

    Attributes:
        strategy: its name, preset included.
        retrievers: names; empty is the design's own.
        depths: matched depths; without a budget.
        budgets: matched budgets; without a depth.
        unlimited: also once without depth and budget.
        oracle: also once with gold ranked first, without depth and budget: a reference, not an upper bound.
        build: run its write-time work before the first question of a history.
    """

    strategy: str
    retrievers: tuple[str, ...] = ()
    depths: tuple[Depth, ...] = ()
    budgets: tuple[Budget, ...] = ()
    unlimited: bool = False
    oracle: bool = False
    build: bool = True

    @pydantic.model_validator(mode="after")
    def _depth_needs_a_retriever(self) -> Self:
        if self.depths and not self.retrievers:
            raise ValueError("depths need `retrievers`: a design's own can't be capped")
        return self

    def cells(self) -> Iterator[Cell]:
        """Its cells, in the order of the spec."""
        for retriever in self.retrievers or (None,):
            for depth in self.depths:
                yield Cell(strategy=self.strategy, retriever=retriever, depth=depth)
            for budget in self.budgets:
                yield Cell(strategy=self.strategy, retriever=retriever, budget=budget)
            if self.unlimited:
                yield Cell(strategy=self.strategy, retriever=retriever)
        if self.oracle:
            yield Cell(strategy=self.strategy, retriever="oracle")


class ModelsSpec(_Part):
    """Chat models by role, as settings name them ("gpt-5-mini", "local:qwen-1.5b"); None does without.

    Without `answer` nothing is answered and only evidence is measured; without `judge` answers get F1 and EM only.
    """

    build: str | None = None
    recall: str | None = None
    answer: str | None = None
    judge: str | None = None


class ExperimentSpec(_Part):
    """An experiment.

    Attributes:
        name: short, for headings and folders.
        dataset: questions and histories.
        designs: what is compared.
        models: chat models by role.
        embedder: makes vectors, as settings name it; "none" does without.
        concurrency: questions at work at the same time.
        lenient: ask the lenient judge as well, for its own column.
        control: grade also a vague answer made for every judged question: what the judge lets pass that says nothing.
        quality: grade the evidence by the five dimensions of memory quality as well.
        cutoffs: the k of R@k and its kin.
    """

    name: str = pydantic.Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    dataset: DatasetSpec
    designs: tuple[DesignSpec, ...] = pydantic.Field(min_length=1)
    models: ModelsSpec = ModelsSpec()
    embedder: str = "minilm"
    concurrency: pydantic.PositiveInt = 1
    lenient: bool = True
    control: bool = True
    quality: bool = False
    cutoffs: tuple[Depth, ...] = (1, 3, 5, 10)

    def cells(self) -> tuple[Cell, ...]:
        """Every cell once, in the order of the spec.

        Raises:
            InvalidInputError: there is none.
        """
        cells = tuple(dict.fromkeys(cell for design in self.designs for cell in design.cells()))
        if not cells:
            raise InvalidInputError("no design has a depth, a budget, `unlimited` or `oracle`: there is nothing to run")
        return cells

    def hash(self) -> str:
        """16 hexadecimal digits of everything that changes a result; not where files lie, nor how many run at once."""
        content = self.model_dump(mode="json", exclude={"concurrency": True, "dataset": {"path", "questions"}})
        if self.dataset.overlay is not None:
            content["dataset"]["overlay"] = self.dataset.overlay.name
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def read_spec(path: Path, *, data: Path | None = None) -> ExperimentSpec:
    """The experiment of a TOML file; its paths are relative to the file's folder.

    Args:
        path: the file.
        data: where the data is, in place of `dataset.path`; relative to the working folder.

    Raises:
        InvalidInputError: it can't be read, or says something that isn't understood; every fault is named.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror}", hint="name the TOML file of an experiment") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: {error}", hint="mend the TOML file") from error
    try:
        spec = ExperimentSpec.model_validate(given)
    except pydantic.ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise InvalidInputError(f"{path}: {faults}", hint="see docs/bench.md for what a spec may say") from error
    dataset = spec.dataset
    places = {
        name: path.parent / place.expanduser()
        for name in ("path", "questions", "overlay")
        if (place := getattr(dataset, name)) is not None
    }
    if data is not None:
        places["path"] = data
    spec.cells()
    return spec.model_copy(update={"dataset": dataset.model_copy(update=places)})
