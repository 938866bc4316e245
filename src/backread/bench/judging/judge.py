"""Grading an answer with a chat model that knows the gold answer and nothing of where the answer comes from.

    judge = Judge(chat, benchmark="longmemeval")
    judge.grade(question, "She moved to Lyon [3].").verdict     # "correct", "incorrect" or "unscored"

The judge sees the question, the gold answer and the answer, each fenced as quotation, in that order. It is not told
which design, retriever or model made the answer, and citation marks are taken off, since they differ between designs.
The verdict is read from the judge's own reply as `verdicts` says; what can't be read is asked for once more, and is
unscored then. Errors of the endpoint are raised: they say nothing about the answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import pydantic

from backread.bench.judging.asking import ask
from backread.bench.judging.rubrics import Benchmark, Kind, Prompt, prompt, rubric_for, rubrics_of
from backread.bench.judging.verdicts import read_value, read_verdict
from backread.bench.records import Verdict
from backread.errors import InvalidInputError
from backread.importers.base import Question
from backread.models.base import ChatMessage, ChatModel
from backread.text.fencing import fence, safe
from backread.text.times import format_time
from backread.types import Usage

__all__ = ["LONGEST_ANSWER", "Graded", "Judge", "reduced"]

LONGEST_ANSWER = 1200
"""Characters of an answer that are judged."""

_MAX_TOKENS = 600
_LEFT_OUT = "[the beginning of this answer is left out] "

_NUMBERS = r"\d{1,3}(?:\s*[,;，、–-]\s*\d{1,3})*"
_MARK = re.compile(rf"(?<![ \t])[ \t]*[\[【［]\s*{_NUMBERS}\s*[\]】］]")
_FINAL = re.compile(r"^[ \t*_#>]*final[ _]answer[*_ ]*:[*_\s]*(?=\S)", re.IGNORECASE | re.MULTILINE)


class _VerdictReply(pydantic.BaseModel):
    """A judge's reply; more fields than these don't matter."""

    reason: str = ""
    verdict: Literal["correct", "incorrect"]

    @pydantic.field_validator("verdict", mode="before")
    @classmethod
    def _read(cls, value: object) -> object:
        verdict = read_value(value)
        return value if verdict == "unscored" else verdict


@dataclass(frozen=True, slots=True)
class Graded:
    """What a judge made of an answer.

    Attributes:
        verdict: unscored is not wrong.
        rubric: the rubric it was graded by.
        prompt_hash: of everything the judge was told but question, gold answer and answer.
        raw: every reply, in order.
        usage: of every reply.
        error: why it is unscored, None otherwise; quotes no text of the question or the answer.
    """

    verdict: Verdict
    rubric: str
    prompt_hash: str
    raw: tuple[str, ...] = ()
    usage: tuple[Usage, ...] = ()
    error: str | None = None

    @property
    def tries(self) -> int:
        """How often the model was asked; 0 for a blank answer, which needs no judge."""
        return len(self.raw)


class Judge:
    """Grades answers to the questions of one benchmark. One vote, at temperature 0.

    Args:
        chat: grades; retried and metered by whoever wraps it.
        benchmark: whose question types there are: "own" for a history of one's own, where any name is a type.
        kind: see `rubrics`.

    Raises:
        InvalidInputError: no such benchmark or kind, or a kind that does not fit the benchmark.
    """

    def __init__(self, chat: ChatModel, *, benchmark: Benchmark, kind: Kind = "strict") -> None:
        self._chat, self._benchmark, self._kind = chat, benchmark, kind
        self._prompts = {rubric: prompt(kind, rubric) for rubric in rubrics_of(benchmark)}

    @property
    def config(self) -> Mapping[str, Any]:
        """Everything that changes a verdict: the model, the hash of the prompt of each rubric, and settings."""
        return {
            "kind": self._kind,
            "benchmark": self._benchmark,
            "model": self._chat.name,
            "prompts": {rubric: told.hash for rubric, told in self._prompts.items()},
            "temperature": 0.0,
            "votes": 1,
            "longest_answer": LONGEST_ANSWER,
        }

    @property
    def prompts(self) -> Mapping[str, Prompt]:
        """What it is told, by the name of the rubric."""
        return MappingProxyType(self._prompts)

    def grade(self, question: Question, hypothesis: str | None) -> Graded:
        """The verdict on an answer; see `reduced` for what of it is judged.

        A blank answer is incorrect without a call, also where the question has no answer: it doesn't say so.

        Raises:
            InvalidInputError: the question has a type that the benchmark doesn't have, or no gold answer; or there is
                no answer (None): what failed is an error, not an answer.
            ModelError: the endpoint could not do its work.
        """
        return self.grade_as(rubric_for(question, self._benchmark), question, hypothesis)

    def grade_as(self, rubric: str, question: Question, hypothesis: str | None) -> Graded:
        """The verdict by a named rubric, whatever the type of the question; see `grade`."""
        if rubric not in self._prompts:
            raise InvalidInputError(f"this judge has no rubric {rubric!r}; it has: {', '.join(self._prompts)}")
        if hypothesis is None:
            raise InvalidInputError(
                f"question {question.question_id} has no answer to grade",
                hint="an answer that could not be made is recorded as an error",
            )
        told = self._prompts[rubric]
        messages = self._messages(rubric, question, hypothesis)
        if not reduced(hypothesis):
            return Graded("incorrect", rubric, told.hash)
        asked = ask(self._chat, messages, _VerdictReply, max_tokens=_MAX_TOKENS)
        verdict = read_verdict(asked.raw[-1]) if not asked.cut else "unscored"
        error = (asked.error or "the reply holds more than one verdict") if verdict == "unscored" else None
        return Graded(verdict, rubric, told.hash, asked.raw, asked.usage, error)

    def _messages(self, rubric: str, question: Question, hypothesis: str) -> list[ChatMessage]:
        told = self._prompts[rubric]
        gold = (question.answer or "").strip()
        if not gold and not question.abstention:
            raise InvalidInputError(f"question {question.question_id} has no gold answer to grade by")
        parts = [fence([question.question], label="question")]
        if question.asked_at is not None and self._kind != "official":
            parts.append(f"Asked on: {format_time(question.asked_at)}")
        parts.append(fence([gold or "The conversations don't say."], label="gold"))
        if question.trap is not None and question.abstention:
            parts.append(fence([question.trap], label="trap"))
        parts += [fence([reduced(hypothesis)], label="answer"), told.form]
        return [ChatMessage("system", told.rules), ChatMessage("user", "\n\n".join(parts))]


def reduced(hypothesis: str) -> str:
    """What of an answer is judged: its final answer without citation marks, at most `LONGEST_ANSWER` characters of it.

    Where a line starts with "Final answer:", that is what follows the last such label. Of what is longer still, the end
    is kept, since text that works its way to an answer ends with it; it starts at a word, behind a note that says so.
    """
    text = safe(hypothesis)
    *_, last = (0, *(match.end() for match in _FINAL.finditer(text)))
    text = _MARK.sub("", text[last:]).strip()
    if len(text) <= LONGEST_ANSWER:
        return text
    kept = text[len(_LEFT_OUT) - LONGEST_ANSWER :]
    space = re.search(r"\s", kept)
    return _LEFT_OUT + (kept[space.end() :] if space and space.end() < len(kept) else kept).strip()
