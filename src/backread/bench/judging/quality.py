"""How good the evidence is that an answer rests on, whatever the answer: five dimensions, each from 1 to 5.

The dimensions are those of T2Mem's memory-quality judge (arXiv 2610.13348, Fig. 12). Differs from the paper in the
words of the prompt, which is not published as text, and in the scale, which the paper doesn't give.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

import pydantic

from backread.bench.judging.asking import ask
from backread.bench.judging.rubrics import Prompt
from backread.errors import InvalidInputError
from backread.importers.base import Question
from backread.models.base import ChatMessage, ChatModel
from backread.text.fencing import fence
from backread.types import Usage

__all__ = ["DIMENSIONS", "Quality", "grade_quality"]

_MAX_TOKENS = 600


class _QualityReply(pydantic.BaseModel):
    """A judge's reply; more fields than these don't matter."""

    reason: str = ""
    temporal_accuracy: int = pydantic.Field(ge=1, le=5)
    entity_coverage: int = pydantic.Field(ge=1, le=5)
    content_completeness: int = pydantic.Field(ge=1, le=5)
    factual_correctness: int = pydantic.Field(ge=1, le=5)
    detail_preservation: int = pydantic.Field(ge=1, le=5)


DIMENSIONS = tuple(name for name in _QualityReply.model_fields if name != "reason")
"""The names of the dimensions, in the order of the paper."""


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality of the evidence for one question.

    Attributes:
        scores: by dimension, 1 (nothing of it) to 5 (all of it); None when the judge's reply can't be read.
        prompt_hash: of everything the judge was told but question, gold answer and evidence.
        raw: every reply, in order; none for a question without evidence.
        usage: of every reply.
        error: why there are no scores, None otherwise; quotes no text of the question or the evidence.
    """

    scores: Mapping[str, int | None]
    prompt_hash: str
    raw: tuple[str, ...] = ()
    usage: tuple[Usage, ...] = ()
    error: str | None = None


def grade_quality(chat: ChatModel, question: Question, rendered: str) -> Quality:
    """The quality of the evidence as the answerer sees it; 1 in every dimension, without a call, when there is none.

    Args:
        chat: grades, at temperature 0.
        question: with its gold answer.
        rendered: the block of evidence (`Recall.rendered`).

    Raises:
        InvalidInputError: the history has no answer to the question, so nothing in it could support one.
        ModelError: the endpoint could not do its work.
    """
    if question.abstention or question.answer is None:
        raise InvalidInputError(f"question {question.question_id} has no answer that evidence could support")
    told = _prompt()
    if not rendered.strip():
        return Quality(MappingProxyType(dict.fromkeys(DIMENSIONS, 1)), told.hash)
    given = (("question", question.question), ("gold", question.answer), ("memory", rendered))
    content = "\n\n".join([*(fence([text], label=label) for label, text in given), told.form])
    asked = ask(
        chat, [ChatMessage("system", told.rules), ChatMessage("user", content)], _QualityReply, max_tokens=_MAX_TOKENS
    )
    value = asked.value
    scores = {name: None if value is None else getattr(value, name) for name in DIMENSIONS}
    return Quality(MappingProxyType(scores), told.hash, asked.raw, asked.usage, asked.error)


@cache
def _prompt() -> Prompt:
    text = files("backread.bench.judging").joinpath("prompts", "quality.md").read_text(encoding="utf-8")
    rules, form = text.split("\n---\n")
    return Prompt(rules.strip(), form.strip())
