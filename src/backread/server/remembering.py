"""What a chat is given from memory: evidence for its last question, out of everything but the chat itself."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal, get_args

from backread.memory import Memory
from backread.rendering import render
from backread.retrieval.base import Retriever
from backread.server.chat_messages import DAY, UNSPOKEN, last_user_place, rules, text_of
from backread.store.corpus import Corpus
from backread.strategies.registry import strategy_spec
from backread.text.times import format_time
from backread.text.tokens import default_counter
from backread.types import Ranking, Recall

__all__ = ["FORMS", "Form", "Forms", "Without", "prompt_hash", "recall_for", "with_evidence"]

Form = Literal["instructions", "user"]
"""Where our rules stand; the evidence is always in the last message of the user."""

FORMS: Final[tuple[Form, ...]] = get_args(Form)

_MODELS: Final = 1000
"""Models of which a form is remembered; clients name them freely."""

_MODEL_LENGTH: Final = 200

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


def with_evidence(
    messages: Sequence[Mapping[str, Any]], recall: Recall, *, form: Form = "instructions"
) -> list[Mapping[str, Any]]:
    """The same messages, with the evidence as quotation before the last words of the user, and our rules.

    No message is added and no role changes, so what a chat template takes without evidence it takes with it. What
    stands before the user's last message stays the same from request to request, so that a server can reuse what it
    computed of it.

    Args:
        messages: the conversation, with words of the user.
        recall: what is shown.
        form: where the rules stand: "instructions" puts them at the end of the client's first message of instructions,
            "user" before the evidence. Without instructions they stand before the evidence.
    """
    place = last_user_place(messages)
    assert place is not None
    told = list(messages)
    day = format_time(recall.asked_at).partition(" ")[0]  # not the minute: the calls of a loop of tools stay the same
    evidence = f"{recall.rendered}{DAY}{day}\n\n"
    instructions = _instructions(messages) if form == "instructions" else None
    if instructions is None:
        evidence = f"{rules()}\n\n{evidence}"
    else:
        told[instructions] = _joined(messages[instructions], f"\n\n{rules()}", last=True)
    told[place] = _joined(messages[place], evidence, last=False)
    return told


class Forms:
    """In which form each model takes evidence: one that was refused is not tried first again."""

    def __init__(self) -> None:
        self._forms: dict[str, Form] = {}

    def told(
        self, model: str, messages: Sequence[Mapping[str, Any]], recall: Recall
    ) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
        """The messages with evidence in the form that the model takes, and in the other one."""
        shapes = {form: with_evidence(messages, recall, form=form) for form in FORMS}
        form = self._forms.get(model[:_MODEL_LENGTH], FORMS[0])
        return shapes.pop(form), shapes.popitem()[1]

    def refused(self, model: str) -> None:
        """From now on the other form comes first."""
        form = self._forms.pop(model[:_MODEL_LENGTH], FORMS[0])
        self._forms[model[:_MODEL_LENGTH]] = next(each for each in FORMS if each != form)
        while len(self._forms) > _MODELS:
            del self._forms[next(iter(self._forms))]


def prompt_hash() -> str:
    """Hash of our words around the evidence."""
    return hashlib.sha256(rules().encode()).hexdigest()[:16]


def _instructions(messages: Sequence[object]) -> int | None:
    """The place of the first message of instructions that can be added to."""
    for place, message in enumerate(messages):
        if isinstance(message, Mapping) and message.get("role") in UNSPOKEN:
            return place if isinstance(message.get("content"), str | list) else None
    return None


def _joined(message: Mapping[str, Any], text: str, *, last: bool) -> Mapping[str, Any]:
    """A message with a text at its beginning or end; content of parts gets one part more."""
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": content + text if last else text + content}
    part = [{"type": "text", "text": text.strip()}]
    return {**message, "content": [*content, *part] if last else [*part, *content]}
