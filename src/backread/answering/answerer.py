"""Answering with a chat model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from backread.answering.citations import check
from backread.models.base import ChatMessage, ChatModel
from backread.models.structured import complete_with_room
from backread.text.fencing import quote
from backread.text.times import format_time
from backread.types import Answer, Degradation, Recall, Turn

__all__ = ["answer", "prompt_hash", "request"]

_MAX_TOKENS = 600


@cache
def _prompt() -> str:
    return files("backread.answering").joinpath("prompt.md").read_text(encoding="utf-8")


def prompt_hash() -> str:
    """Hash of the prompt's text, kept beside every answer."""
    return hashlib.sha256(_prompt().encode()).hexdigest()[:16]


def request(recall: Recall) -> list[ChatMessage]:
    """The messages sent for a recall.

    The part that stays the same comes first, so that servers can reuse it; how to write the answer comes last, behind
    the question, where small models still follow it.
    """
    rules, form = _prompt().split("\n---\n")
    now = f"Now: {format_time(recall.asked_at)}\n" if recall.asked_at is not None else ""
    evidence = recall.rendered or "There is no evidence."
    question = quote(recall.question)
    asked = f"{evidence}\n\n{now}Question: {question}\n\n{form.strip()}"
    return [ChatMessage("system", rules), ChatMessage("user", asked)]


def answer(recall: Recall, turns: Mapping[str, Turn], chat: ChatModel) -> Answer:
    """The model's answer with checked citations.

    Args:
        recall: the evidence, as rendered.
        turns: the turns behind the evidence by turn id.
        chat: the model.

    Raises:
        ModelError: the model could not answer; an answer is never made up instead.
    """
    reply, spent = complete_with_room(chat, request(recall), purpose="answer", max_tokens=_MAX_TOKENS)
    checked = check(reply.text, recall.evidence, turns)
    degraded = list(recall.degraded)
    if checked.dropped:
        degraded.append(Degradation("citations", "could not be tied to a turn and were removed", checked.dropped))
    if reply.cut:
        degraded.append(Degradation("answer", "broke off before its end"))
    return Answer(
        text=checked.text,
        citations=checked.citations,
        recall=recall,
        extractive=False,
        model=chat.name,
        dropped_citations=checked.dropped,
        prompt_hash=prompt_hash(),
        usage=(*recall.usage, *spent),
        degraded=tuple(degraded),
    )
