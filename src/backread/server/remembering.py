"""What a chat is given from memory: evidence for its last question, out of everything but the chat itself."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final

from backread.memory import Memory
from backread.rendering import render
from backread.retrieval.base import Retriever
from backread.server.conversations import last_user_place, text_of
from backread.store.corpus import Corpus
from backread.strategies.registry import strategy_spec
from backread.text.times import format_time
from backread.text.tokens import default_counter
from backread.types import Ranking, Recall

__all__ = ["Without", "prompt_hash", "recall_for", "with_evidence"]

QUESTION_CHARACTERS: Final = 4000
"""Characters of a message that are searched for; what is longer was pasted."""


class Without:
    """A retriever that leaves some turns out: those a model is shown anyway.

    Args:
        retriever: ranks all turns.
        turn_ids: which are left out.
    """

    def __init__(self, retriever: Retriever, turn_ids: Collection[str]) -> None:
        self._retriever = retriever
        self._turn_ids = frozenset(turn_ids)

    @property
    def name(self) -> str:
        """That of the retriever."""
        return self._retriever.name

    @property
    def config(self) -> Mapping[str, Any]:
        """That of the retriever, and how many turns are left out."""
        return {**self._retriever.config, "left_out": len(self._turn_ids)}

    def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
        """The best of the other units."""
        found = self._retriever.search(corpus, question, top_k + len(self._turn_ids))
        items = tuple(item for item in found.items if item.unit_id not in self._turn_ids)
        return replace(found, items=items[:top_k])


def recall_for(
    memory: Memory, user_id: str, messages: Sequence[Mapping[str, Any]], shown: Collection[str], at: datetime
) -> Recall | None:
    """Evidence for the last message of the user; None when it has no words.

    Args:
        memory: where it is looked for.
        user_id: whose history.
        messages: the conversation.
        shown: turns that are in the conversation; a line that rests on nothing else is left out.
        at: when it is asked.

    Raises:
        BackreadError: memory could not do its work.
    """
    place = last_user_place(messages)
    question = "" if place is None else text_of(messages[place])[:QUESTION_CHARACTERS]
    if not question.strip():
        return None
    spec = strategy_spec(memory.settings.strategy)
    raw = spec.unit == "turn" and not spec.builds  # others rank other things
    recall = memory.recall(
        question,
        user_id=user_id,
        retriever=Without(memory.retriever(), shown) if raw and shown else None,
        asked_at=at,
    )
    kept = tuple(
        line
        for line in recall.evidence
        if not line.sources or any(source.turn_id not in shown for source in line.sources)
    )
    if len(kept) == len(recall.evidence):
        return recall
    rendered = render(kept)
    return replace(recall, evidence=kept, rendered=rendered, tokens=default_counter().count(rendered))


def with_evidence(messages: Sequence[Mapping[str, Any]], recall: Recall) -> list[Mapping[str, Any]]:
    """The messages with one more right before the last one of the user: our rules, and the evidence as quotation.

    What stands behind it, the user's own words, has the last word; what stands before it stays the same from request
    to request, so that a server can reuse what it computed of it.
    """
    place = last_user_place(messages)
    assert place is not None
    # The two roles don't go together.
    developer = any(_role(message) == "developer" for message in messages)
    day = format_time(recall.asked_at).partition(" ")[0]  # not the minute: the calls of a loop of tools stay the same
    content = f"{_prompt().strip()}\n\n{recall.rendered}\n\nToday: {day}"
    added = {"role": "developer" if developer else "system", "content": content}
    return [*messages[:place], added, *messages[place:]]


def prompt_hash() -> str:
    """Hash of our words around the evidence."""
    return hashlib.sha256(_prompt().encode()).hexdigest()[:16]


def _role(message: object) -> object:
    return message.get("role") if isinstance(message, Mapping) else None


@cache
def _prompt() -> str:
    return files("backread.server").joinpath("prompts/proxy.md").read_text(encoding="utf-8")
