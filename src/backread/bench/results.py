"""An experiment's folder, read: which records count, what is missing or failed, and whether two experiments compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import pydantic

from backread.bench.journal import read_manifest, read_records
from backread.bench.records import BuildRecord, ConfigRecord, Manifest, QuestionRecord, Record
from backread.bench.spec import Cell, DesignSpec
from backread.errors import InvalidInputError

__all__ = [
    "UNSCORED_FROM",
    "UNSCORED_LIMIT",
    "Counts",
    "Difference",
    "Results",
    "Status",
    "check_comparable",
    "differences",
    "of_records",
    "read_results",
]

UNSCORED_LIMIT: Final = 0.01
"""The share of unreadable verdicts above which a judge's figures say nothing."""

UNSCORED_FROM: Final = 100
"""Verdicts from which that share can be told."""

_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the questions of a cell; error and unscored are not wrong.

    Attributes:
        total: records.
        error: those whose recall, answer or judge failed for good.
        scored: by judge, those with a verdict that can be read.
        unscored: by judge, those whose verdict can't be read.
        missing: questions of the experiment that have no record here.
    """

    total: int
    error: int
    scored: Mapping[str, int]
    unscored: Mapping[str, int]
    missing: int

    @property
    def ok(self) -> int:
        """Records that are not errors."""
        return self.total - self.error


@dataclass(frozen=True, slots=True)
class Status:
    """Whether the figures of an experiment can be used.

    "failed": a judge's verdicts can't be read too often. "degraded": some figures rest on fewer questions than there
    are, or on memory that was not built whole. `reasons` has one sentence for each.
    """

    name: Literal["ok", "degraded", "failed"]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Results:
    """The records of one experiment.

    Attributes:
        manifest: what they share.
        questions: by cell name in the order of the spec; in each, records by question id.
        builds: by (strategy, user id), in the order of both.
        configs: settings by the hash that records name them by.
    """

    manifest: Manifest
    questions: Mapping[str, Mapping[str, QuestionRecord]]
    builds: tuple[BuildRecord, ...]
    configs: Mapping[str, Mapping[str, Any]]

    @property
    def cells(self) -> tuple[str, ...]:
        """Names of the cells that have records."""
        return tuple(self.questions)

    def cell(self, name: str) -> Cell:
        """The cell of a name."""
        return self.records(name)[0].cell

    @cached_property
    def question_ids(self) -> tuple[str, ...]:
        """Every question that has a record in any cell, sorted."""
        return tuple(sorted({question_id for records in self.questions.values() for question_id in records}))

    def records(self, cell: str) -> tuple[QuestionRecord, ...]:
        """All records of a cell by question id, errors too.

        Raises:
            InvalidInputError: there is no such cell.
        """
        self._require(cell)
        return tuple(self.questions[cell].values())

    def _require(self, cell: str) -> None:
        if cell not in self.questions:
            raise InvalidInputError(f"no records of a cell {cell!r}", hint=f"cells are: {', '.join(self.cells)}")

    def ok(self, cell: str) -> tuple[QuestionRecord, ...]:
        """The records of a cell that are not errors, by question id."""
        self._require(cell)
        return self._ok[cell]

    @cached_property
    def _ok(self) -> Mapping[str, tuple[QuestionRecord, ...]]:
        return {
            cell: tuple(record for record in records.values() if record.status == "ok")
            for cell, records in self.questions.items()
        }

    def errors(self) -> tuple[QuestionRecord, ...]:
        """Every record that is an error, by cell and question id."""
        return tuple(r for records in self.questions.values() for r in records.values() if r.status == "error")

    @cached_property
    def judges(self) -> tuple[str, ...]:
        """Judges that gave verdicts, in the order of the records ("strict" before "lenient")."""
        found = {judge: None for cell in self.cells for record in self.ok(cell) for judge in record.verdicts}
        return tuple(sorted(found, key=lambda judge: (judge != "strict", judge)))

    def counts(self, cell: str) -> Counts:
        """What became of a cell's questions."""
        records, ok = self.records(cell), self.ok(cell)
        unscored = {judge: sum(r.verdicts.get(judge) == "unscored" for r in ok) for judge in self.judges}
        judged = {judge: sum(judge in r.verdicts for r in ok) for judge in self.judges}
        return Counts(
            total=len(records),
            error=len(records) - len(ok),
            scored={judge: judged[judge] - unscored[judge] for judge in self.judges},
            unscored=unscored,
            missing=len(self.question_ids) - len(records),
        )

    @cached_property
    def status(self) -> Status:
        """Whether the figures can be used; worst first among the reasons."""
        failed, degraded = _unreadable(self)
        asked = self.manifest.dataset.get("questions")
        if isinstance(asked, int) and asked > len(self.question_ids):
            degraded.append(f"{len(self.question_ids):,} of the {asked:,} questions of the data have a record")
        counts = {cell: self.counts(cell) for cell in self.cells}
        failures = {cell: (found.error, found.total) for cell, found in counts.items()}
        missing = {cell: (found.missing, len(self.question_ids)) for cell, found in counts.items()}
        degraded += _gaps(failures, "records failed and are in no figure")
        degraded += _gaps(missing, "records are missing")
        broken = Counter(build.strategy for build in self.builds if build.failed)
        degraded += [
            f"{strategy}: histories whose memory was not built whole: {histories}"
            for strategy, histories in broken.items()
        ]
        name: Literal["ok", "degraded", "failed"] = "failed" if failed else "degraded" if degraded else "ok"
        return Status(name, (*failed, *degraded))


def read_results(folder: Path) -> Results:
    """The records of an experiment's folder; of several with one key the last one, a torn last line is not there.

    Raises:
        InvalidInputError: there is no experiment, a line can't be read, there is no record of a question, or records
            belong to another experiment than the manifest.
    """
    return of_records(read_manifest(folder), read_records(folder), where=str(folder))


def of_records(manifest: Manifest, records: Iterable[Record], *, where: str = "records") -> Results:
    """The results that records make, in an order that doesn't depend on theirs.

    Raises:
        InvalidInputError: there is no record of a question, or one belongs to another experiment or other data.
    """
    questions: dict[str, dict[str, QuestionRecord]] = {name: {} for name in _cells(manifest)}
    builds: dict[tuple[str, str], BuildRecord] = {}
    configs: dict[str, Mapping[str, Any]] = {}
    for record in records:
        _check_owner(record, manifest, where)
        if isinstance(record, BuildRecord):
            builds[record.key] = record
        elif isinstance(record, ConfigRecord):
            configs[record.config_hash] = record.config
        else:
            questions.setdefault(record.cell.name, {})[record.question_id] = record
    found = {cell: dict(sorted(by_id.items())) for cell, by_id in questions.items() if by_id}
    if not found:
        raise InvalidInputError(f"{where}: there is no record of a question yet", hint="run the experiment first")
    return Results(manifest, found, tuple(builds[key] for key in sorted(builds)), configs)


def _cells(manifest: Manifest) -> list[str]:
    """Cell names in the order of the spec; none when it names no designs that can be read."""
    try:
        designs = [DesignSpec.model_validate(item) for item in manifest.spec.get("designs", ())]
    except pydantic.ValidationError:
        return []  # a spec of another version: the order of the records will do
    return list(dict.fromkeys(cell.name for design in designs for cell in design.cells()))


def _check_owner(record: Record, manifest: Manifest, where: str) -> None:
    """Raise InvalidInputError when the record is not of the manifest's experiment."""
    data = manifest.dataset.get("sha256")
    owner = "/".join(filter(None, record.key))
    if record.spec_hash != manifest.spec_hash:
        raise InvalidInputError(
            f"{where}: the record of {owner} is of spec {record.spec_hash}, the experiment is {manifest.spec_hash};"
            " records of two specs are never mixed"
        )
    if not isinstance(record, ConfigRecord) and data is not None and record.data_sha256 != data:
        raise InvalidInputError(
            f"{where}: the record of {owner} is of other data ({record.data_sha256[:12]}) than the experiment"
            f" ({data[:12]})"
        )


def _gaps(found: Mapping[str, tuple[int, int]], what: str) -> list[str]:
    """A sentence about (how many, of how many) of each cell, none when there are none."""
    lacking = sum(count for count, _ in found.values())
    if not lacking:
        return []
    cell, (most, of) = max(found.items(), key=lambda item: item[1][0])
    return [
        f"{lacking:,} of {sum(of for _, of in found.values()):,} {what}, at most {most:,} of {of:,} of a cell ({cell})"
    ]


def _unreadable(results: Results) -> tuple[list[str], list[str]]:
    """Sentences about judges whose verdicts can't be read too often: from `UNSCORED_FROM` on, and below."""
    failed: list[str] = []
    degraded: list[str] = []
    for judge in results.judges:
        pooled = [0, 0]
        for cell in results.cells:
            counts = results.counts(cell)
            unscored, asked = counts.unscored[judge], counts.unscored[judge] + counts.scored[judge]
            pooled[0] += unscored
            pooled[1] += asked
            if asked >= UNSCORED_FROM and unscored > UNSCORED_LIMIT * asked:
                failed.append(f"{cell}: {unscored} of {asked} verdicts of the {judge} judge can't be read")
        unscored, asked = pooled
        if unscored > UNSCORED_LIMIT * asked:
            sentence = f"{unscored} of all {asked} verdicts of the {judge} judge can't be read"
            (failed if asked >= UNSCORED_FROM else degraded).append(sentence)
    return failed, degraded


@dataclass(frozen=True, slots=True)
class Difference:
    """What tells two experiments apart.

    Attributes:
        data: both hashes, when they are of different data.
        only_first: questions that went well in all cells of the first (of those that both have), not so in the second.
        only_second: the same of the second.
        spec: parts of the spec as (dotted name, first, second).
        versions: packages as (name, first, second); "" where one has none.
        prompts: the bench's prompts by role whose hashes differ.
    """

    data: tuple[str, str] | None
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    spec: tuple[tuple[str, Any, Any], ...]
    versions: tuple[tuple[str, str, str], ...]
    prompts: tuple[str, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """One for each part that differs; none when the experiments agree."""
        found = []
        if self.data is not None:
            found.append("they are of different data: {:.12} and {:.12}".format(*self.data))
        for ids, which in ((self.only_first, "first"), (self.only_second, "second")):
            if ids:
                found.append(f"{len(ids)} of the questions went well only in the {which}: {_list(ids)}")
        found += [f"{name} is {first!r} in the first and {second!r} in the second" for name, first, second in self.spec]
        found += [f"{name} was {first or 'absent'} and {second or 'absent'}" for name, first, second in self.versions]
        found += [f"the prompt {role!r} differs" for role in self.prompts]
        return tuple(found)


def differences(first: Results, second: Results) -> Difference:
    """What tells two experiments apart; questions are compared over the cells that both have, or over all if none."""
    shared = [cell for cell in first.cells if cell in second.cells]
    usable = [_usable(results, shared or results.cells) for results in (first, second)]
    data = (str(first.manifest.dataset.get("sha256")), str(second.manifest.dataset.get("sha256")))
    prompts = [_prompts(results) for results in (first, second)]
    versions = (first.manifest.versions, second.manifest.versions)
    return Difference(
        data=None if data[0] == data[1] else data,
        only_first=tuple(sorted(usable[0] - usable[1])),
        only_second=tuple(sorted(usable[1] - usable[0])),
        spec=tuple(_parts("", first.manifest.spec, second.manifest.spec)),
        versions=tuple(
            (name, versions[0].get(name, ""), versions[1].get(name, ""))
            for name in sorted({*versions[0], *versions[1]})
            if versions[0].get(name) != versions[1].get(name)
        ),
        prompts=tuple(sorted({key[1] for key in prompts[0].keys() & prompts[1] if prompts[0][key] != prompts[1][key]})),
    )


def check_comparable(first: Results, second: Results, *, strict: bool = True) -> tuple[str, ...]:
    """What has to be said beside a comparison of two experiments, a sentence each.

    Args:
        first: one experiment.
        second: the other.
        strict: refuse when a question has a usable record in one of them only; otherwise that is said, and pairs are
            made of the others.

    Raises:
        InvalidInputError: they are of different data, or `strict` and of different questions; every difference is
            named.
    """
    found = differences(first, second)
    if found.data is not None or (strict and (found.only_first or found.only_second)):
        raise InvalidInputError(
            "these experiments can't be compared: " + "; ".join(found.sentences),
            hint="compare runs of the same data; repeat what failed, or ask for the common questions only",
        )
    return found.sentences


def _usable(results: Results, cells: Sequence[str]) -> set[str]:
    """Questions that are no error in any of the cells and missing in none."""
    sets = [{record.question_id for record in results.ok(cell)} for cell in cells]
    return set.intersection(*sets) if sets else set()


def _prompts(results: Results) -> dict[tuple[str, str], frozenset[str]]:
    """Hashes of the bench's prompts by (question id, role): a judge's prompt may hang on the question's type."""
    found: dict[tuple[str, str], set[str]] = {}
    for cell in results.cells:
        for record in results.ok(cell):
            for role, digest in record.prompts.items():
                found.setdefault((record.question_id, role), set()).add(digest)
    return {key: frozenset(digests) for key, digests in found.items()}


def _parts(name: str, first: object, second: object) -> Iterable[tuple[str, Any, Any]]:
    """The leaves of two specs that differ."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in dict.fromkeys([*first, *second]):
            yield from _parts(f"{name}.{key}" if name else str(key), first.get(key), second.get(key))
    elif first != second:
        yield name, first, second


def _list(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(ids[:_SHOWN]) + more
