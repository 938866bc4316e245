"""Which rubric a question is graded by, and what a judge is told for it.

A prompt is a frame that all share, what the kind of judge holds true of any answer, and the rubric; each is a file in
`prompts/`. What stands below "---" in a file is said behind the answer, where small models still follow it. Questions
without an answer in the history have their own rubric whatever their type: it is chosen by `Question.abstention`, never
by a name. Kinds of judges:

- "strict", the default: commits to the gold answer, or is incorrect.
- "lenient": on topic is enough. It is there to show what such judges let pass, in a column of its own.
- "official": what LongMemEval's own judge asks for each type, in other words (Wu et al. 2025, arXiv 2410.10813).
  Differs from it in the frame, the order of the parts, and the reply, which is JSON with a reason, not yes or no.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Literal, get_args

from backread.errors import InvalidInputError
from backread.importers.base import Question

__all__ = ["Benchmark", "Kind", "Prompt", "prompt", "rubric_for", "rubrics_of"]

Benchmark = Literal["locomo", "longmemeval", "own"]
Kind = Literal["strict", "lenient", "official"]

_ABSTENTION = "abstention"
_GENERAL = "general"
_RUBRICS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "locomo": {
            "single-hop": "fact",
            "multi-hop": "fact",
            "temporal": "temporal",
            "open-domain": "inference",
            "adversarial": _ABSTENTION,
        },
        "longmemeval": {
            "single-session-user": "fact",
            "single-session-assistant": "fact",
            "multi-session": "fact",
            "temporal-reasoning": "temporal",
            "knowledge-update": "update",
            "single-session-preference": "preference",
        },
    }
)
_ALONE = frozenset((_ABSTENTION, "preference"))  # their gold answer isn't one: what holds of others doesn't hold


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a judge is told for one rubric.

    Attributes:
        rules: the system message.
        form: what stands behind the answer: how to reply.
    """

    rules: str
    form: str

    @property
    def hash(self) -> str:
        """16 hexadecimal digits of both."""
        return hashlib.sha256(f"{self.rules}\n---\n{self.form}".encode()).hexdigest()[:16]


@cache
def prompt(kind: Kind, rubric: str) -> Prompt:
    """The prompt of a kind of judge for a rubric.

    Raises:
        InvalidInputError: there is no such kind, or it has no such rubric.
    """
    if kind not in get_args(Kind):
        raise InvalidInputError(f"no judge is called {kind!r}; there is: {', '.join(get_args(Kind))}")
    folder = files("backread.bench.judging").joinpath("prompts")
    own = folder.joinpath(kind, f"{rubric}.md")
    if rubric == "common" or not own.is_file():
        raise InvalidInputError(f"the {kind} judge has no rubric {rubric!r}")
    names = (f"{kind}/{rubric}.md",) if rubric in _ALONE else (f"{kind}/common.md", f"{kind}/{rubric}.md")
    frame, *own_parts = [_parts(folder.joinpath(name).read_text(encoding="utf-8")) for name in ("frame.md", *names)]
    rules = [frame[0], *(part[0] for part in own_parts)]
    form = [*(part[1] for part in own_parts if part[1]), frame[1]]
    return Prompt("\n\n".join(rules), "\n\n".join(form))


def _parts(text: str) -> tuple[str, str]:
    """What a file says before the question, and what it says again behind the answer."""
    before, _, behind = text.partition("\n---\n")
    return before.strip(), behind.strip()


def rubric_for(question: Question, benchmark: Benchmark) -> str:
    """The name of the rubric a question is graded by.

    Questions of one's own are free in their types: all that have an answer share one rubric.

    Raises:
        InvalidInputError: the benchmark has no such type; it is never graded by a rubric that may not fit.
    """
    rubrics_of(benchmark)
    if question.abstention:
        return _ABSTENTION
    if benchmark == "own":
        return _GENERAL
    known = _RUBRICS[benchmark]
    if question.question_type not in known:
        raise InvalidInputError(
            f"question {question.question_id}: {benchmark} has no question type {question.question_type!r}",
            hint=f"its types are: {', '.join(known)}; questions of your own are graded as benchmark 'own'",
        )
    return known[question.question_type]


def rubrics_of(benchmark: Benchmark) -> tuple[str, ...]:
    """Every rubric that questions of a benchmark are graded by, each once.

    Raises:
        InvalidInputError: no such benchmark.
    """
    if benchmark == "own":
        return _GENERAL, _ABSTENTION
    if benchmark not in _RUBRICS:
        raise InvalidInputError(f"no benchmark is called {benchmark!r}; there is: {', '.join(get_args(Benchmark))}")
    return tuple(dict.fromkeys([*_RUBRICS[benchmark].values(), _ABSTENTION]))
