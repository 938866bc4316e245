"""Files of benchmarks and of users, read into questions and histories, with what must be said beside their figures."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from backread.bench.compact import Compact, read_compact
from backread.bench.own_questions import read_questions
from backread.bench.spec import DatasetSpec
from backread.errors import InvalidInputError
from backread.importers.base import Imported, Question, Tally
from backread.importers.jsonl import read_jsonl
from backread.importers.locomo import CATEGORIES, read_locomo
from backread.importers.longmemeval import read_longmemeval

__all__ = ["ADVERSARIAL", "LOCOMO_SHA256", "LONGMEMEVAL_FILES", "Benchmark", "Source", "read_source"]

Benchmark = Literal["locomo", "longmemeval", "own"]

LONGMEMEVAL_FILES: Mapping[str, str] = MappingProxyType(
    {
        "821a2034d219ab45846873dd14c14f12cfe7776e73527a483f9dac095d38620c": "longmemeval_oracle",
        "d6f21ea9d60a0d56f34a05b609c79c88a451d2ae03597821ea3d5a9678c3a442": "longmemeval_s_cleaned",
        "9d79e5524794a2e6900a3aa9cb7d9152c5a3e8319c9a87c25494ba1eacee495f": "longmemeval_m_cleaned",
    }
)
"""LongMemEval's official files by their SHA-256."""

LOCOMO_SHA256 = "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4"
"""The official locomo10.json."""

ADVERSARIAL = CATEGORIES[5]
"""The type of LoCoMo's questions that have no answer in the history."""


@dataclass(frozen=True, slots=True)
class Source:
    """What was read, before anything is chosen; `notes` gives those that depend on the questions chosen."""

    name: str
    benchmark: Benchmark
    sha256: str
    imported: Imported
    notes: Callable[[Sequence[Question]], list[str]]


def read_source(spec: DatasetSpec) -> Source:
    """All questions and histories of the file that a spec names.

    Nothing is chosen yet, but turns of other roles than the spec's may be left out of the sessions. Messages of the
    user's own file that name no user are those of the spec's only user, or of "own".

    Raises:
        ImportFormatError: a file can't be read as its format.
        InvalidInputError: what the spec says doesn't go together.
    """
    for option, format_ in (("variant", "longmemeval-compact"), ("questions", "jsonl")):
        given = getattr(spec, option) is not None
        if given != (spec.format == format_):
            said = "doesn't go with" if given else "is missing for"
            raise InvalidInputError(f"dataset: `{option}` {said} the format {spec.format!r}")
    if spec.adversarial and spec.format != "locomo":
        raise InvalidInputError(f"dataset: `adversarial` is of LoCoMo, not of {spec.format!r}")
    if spec.format == "locomo":
        return _read_locomo(spec)
    if spec.format == "longmemeval":
        return _read_longmemeval(spec.path)
    return _read_compact(spec) if spec.format == "longmemeval-compact" else _read_own(spec)


def _read_locomo(spec: DatasetSpec) -> Source:
    imported = read_locomo(spec.path)
    sha256 = imported.report.sha256

    def notes(questions: Sequence[Question]) -> list[str]:
        counts = Counter(question.question_type for question in questions)
        names = ", ".join(f"{number} {name} ({counts[name]})" for number, name in CATEGORIES.items() if counts[name])
        fifth = "part of the total" if spec.adversarial else "not asked"
        unknown = [] if sha256 == LOCOMO_SHA256 else [f"The file is not the official locomo10.json (sha256 {sha256})."]
        return [*unknown, f"LoCoMo categories: {names}; category 5 ({ADVERSARIAL}) is {fifth}."]

    return Source(spec.path.stem, "locomo", sha256, imported, notes)


def _read_longmemeval(path: Path) -> Source:
    imported = read_longmemeval(path)
    sha256 = imported.report.sha256
    name = LONGMEMEVAL_FILES.get(sha256)
    note = f"The file is none of LongMemEval's official ones (sha256 {sha256})."
    return Source(name or path.stem, "longmemeval", sha256, imported, lambda questions: [] if name else [note])


def _read_compact(spec: DatasetSpec) -> Source:
    variant = spec.variant
    assert variant is not None  # `read_source` looks
    read = read_compact(spec.path, variant, roles=spec.roles)
    return Source(
        name=f"longmemeval-compact {variant}",
        benchmark="longmemeval",
        sha256=read.imported.report.sha256,
        imported=read.imported,
        notes=lambda questions: _compact_notes(read, variant, questions, spec.roles),
    )


def _compact_notes(
    read: Compact, variant: str, questions: Sequence[Question], roles: Collection[str] | None
) -> list[str]:
    ids = {question.question_id for question in questions}
    notes = {
        "oracle": "The histories are LongMemEval's evidence sessions alone: there are no others to tell them from.",
        "s-real": f"Only the questions whose true longmemeval_s haystack is known: n = {len(ids)}.",
        "s-like": (
            f"This is not longmemeval_s_cleaned: {len(read.reconstructed & ids)} of the {len(ids)} haystacks are"
            " reconstructed. Never compare it with published LongMemEval_S figures."
        ),
    }[variant]
    leaky = []
    if (roles is None or "assistant" in roles) and read.gaps & ids:
        leaky.append(
            "Leaky: evidence sessions lack assistant turns, which makes them shorter than others (questions with such"
            f' sessions: {len(read.gaps & ids)}); compare designs with roles = ["user"].'
        )
    withheld = []
    if read.withheld & ids:
        withheld.append(f"Haystacks with a session whose text is withheld: {len(read.withheld & ids)}.")
    return [notes, *leaky, *withheld]


def _read_own(spec: DatasetSpec) -> Source:
    assert spec.questions is not None  # `read_source` looks
    only_user = spec.users[0] if spec.users is not None and len(spec.users) == 1 else "own"
    read = read_jsonl(spec.path, user_id=only_user)
    tally = Tally()
    questions = read_questions(spec.questions, read, tally)
    report = replace(
        read.report,
        questions=len(questions),
        irregularities=(*read.report.irregularities, *tally.irregularities),
    )
    hashes = f"{report.sha256}\n{hashlib.sha256(spec.questions.read_bytes()).hexdigest()}"
    missing = len({item.where for item in tally.irregularities})
    note = f"Gold ids that name nothing in the history don't count as gold; questions with such ids: {missing}."
    return Source(
        name=spec.path.stem,
        benchmark="own",
        sha256=hashlib.sha256(hashes.encode()).hexdigest(),
        imported=Imported(read.sessions, questions, report),
        notes=lambda questions: [note] if missing else [],
    )
