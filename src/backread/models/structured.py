"""Replies in a format: asked for by schema, found in whatever the model wrote, validated, asked again once.

found = complete_as(chat, messages, Facts, purpose="build", max_tokens=800)
found.value.facts          # a `Facts`, never one that was made up from a reply that had none
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from backread.errors import ModelOutputError
from backread.models.base import ChatMessage, ChatModel, ChatReply
from backread.models.context_window import RAISE_WINDOW
from backread.models.json_reply import Candidate, candidates, starts_complete
from backread.text.fencing import for_model
from backread.types import Usage

if TYPE_CHECKING:
    import pydantic

__all__ = ["KnownIds", "Structured", "complete_as", "complete_with_room", "known_ids", "reply_schema"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_ModelT = TypeVar("_ModelT", bound="pydantic.BaseModel")

DOUBLINGS = 2
LONGEST_SHOWN = 4000
MOST_ERRORS = 8


@dataclass(frozen=True, slots=True)
class Structured(Generic[_ModelT]):
    """A reply as a value.

    Attributes:
        value: validated.
        reply: the reply it was read from.
        repaired: True when the JSON was broken and mended, or a bare array was taken for the only field.
        attempts: requests that were made.
        usage: of every attempt that said what it took, in order.
    """

    value: _ModelT
    reply: ChatReply
    repaired: bool
    attempts: int
    usage: tuple[Usage, ...]


def complete_as(
    chat: ChatModel,
    messages: Sequence[ChatMessage],
    model_type: type[_ModelT],
    *,
    purpose: str,
    max_tokens: int,
    most_tokens: int | None = None,
    temperature: float = 0.0,
    instruct: bool = True,
) -> Structured[_ModelT]:
    """The reply to `messages` as a `model_type`.

    The JSON is looked for as `json_reply` says. An object that shares no field with `model_type` is not it; a bare
    array that the reply starts with is taken for the value of the only field. A reply that can't be used is shown to
    the model once, with what is wrong; a reply that was cut is asked again with twice the room, at most twice in all.

    Args:
        chat: answers; wrap it with `RetryingChat` outside.
        messages: what is asked.
        model_type: says what is allowed; forbid extra fields unless they don't matter.
        purpose: kept in the usage.
        max_tokens: limit of the first reply.
        most_tokens: limit of any reply, instead of four times `max_tokens`.
        temperature: of every attempt.
        instruct: add the schema to the messages. False when they describe the format themselves, with the word JSON.

    Raises:
        ModelOutputError: no attempt gave a value; `raw` is the last text, `cut` says that room was what lacked.
    """
    schema = reply_schema(model_type)
    asked = _with_instructions(messages, schema) if instruct else list(messages)
    talk = _Talk(chat, purpose, max_tokens, temperature, schema, most_tokens)
    for last in (False, True):
        try:
            reply = talk.ask(asked, enough=lambda reply: starts_complete(reply.text))
        except ModelOutputError as error:
            if error.cut or last:
                raise
            fault, raw = str(error), error.raw
        else:
            if reply.cut and not starts_complete(reply.text):
                raise talk.still_cut(reply)
            value, fault = _value(reply.text, model_type)
            if value is not None:
                return Structured(value[0], reply, value[1], talk.attempts, tuple(talk.usage))
            raw = reply.text
        _log.warning("%s: the %s reply is no %s (attempt %d)", chat.name, purpose, model_type.__name__, talk.attempts)
        if not last:
            asked = _corrected(asked, raw, fault)
    raise ModelOutputError(f"{chat.name}: the reply is no {model_type.__name__}: {fault}", raw=raw)


def complete_with_room(
    chat: ChatModel, messages: Sequence[ChatMessage], *, purpose: str, max_tokens: int, temperature: float = 0.0
) -> tuple[ChatReply, tuple[Usage, ...]]:
    """A reply in free text, and the usage of all attempts; one that is cut is asked again with twice the room, twice.

    The last reply may still be cut: `ChatReply.cut` says so.

    Raises:
        ModelOutputError: no text even then; see `ChatModel.complete` for other errors.
    """
    talk = _Talk(chat, purpose, max_tokens, temperature, None)
    return talk.ask(messages), tuple(talk.usage)


class _Talk:
    """Attempts at one question; they share the room that was found to be needed."""

    def __init__(
        self,
        chat: ChatModel,
        purpose: str,
        max_tokens: int,
        temperature: float,
        schema: Mapping[str, Any] | None,
        most_tokens: int | None = None,
    ) -> None:
        self._chat, self._purpose, self._temperature, self._schema = chat, purpose, temperature, schema
        self._room, self._most = max_tokens, max_tokens << DOUBLINGS if most_tokens is None else most_tokens
        self.attempts = 0
        self.usage: list[Usage] = []

    def ask(
        self, messages: Sequence[ChatMessage], enough: Callable[[ChatReply], bool] = lambda reply: not reply.cut
    ) -> ChatReply:
        """A reply that is not cut, or `enough` all the same, or the last one that there is room for."""
        while True:
            self.attempts += 1
            try:
                reply = self._chat.complete(
                    messages,
                    purpose=self._purpose,
                    max_tokens=self._room,
                    temperature=self._temperature,
                    schema=self._schema,
                )
            except ModelOutputError as error:
                usage = error.usage if isinstance(error.usage, Usage) else None
                self.usage += [usage] if usage else []
                if not error.cut or not self._more_room(usage):
                    raise
            else:
                self.usage.append(reply.usage)
                if not reply.cut or enough(reply) or not self._more_room(reply.usage):
                    return reply

    def still_cut(self, reply: ChatReply) -> ModelOutputError:
        """The error for a reply that is cut with all the room there is."""
        used = reply.usage.output_tokens
        hint = RAISE_WINDOW if used is not None and used < 0.9 * self._room else "allow more tokens"
        return ModelOutputError(
            f"{self._chat.name}: the {self._purpose} reply is cut, also with room for {self._room} tokens",
            hint=hint,
            usage=reply.usage,
            raw=reply.text,
            cut=True,
        )

    def _more_room(self, usage: Usage | None) -> bool:
        """Double the room; False when there is no more, or when not the room but the window ended the reply."""
        used = usage.output_tokens if usage else None
        if self._room >= self._most or (used is not None and used < 0.9 * self._room):
            return False
        self._room = min(2 * self._room, self._most)
        return True


def reply_schema(model_type: type[pydantic.BaseModel]) -> dict[str, Any]:
    """The JSON schema a reply must follow, as strict endpoints want it: every field required, no other allowed."""
    return dict(_strict(model_type.model_json_schema()))


def _strict(node: Any) -> Any:  # noqa: ANN401 -- any part of a schema
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept: dict[str, Any] = {}
    for key, value in node.items():
        if key in ("properties", "$defs"):
            kept[key] = {name: _strict(item) for name, item in value.items()}
        elif key not in ("default", "title"):
            kept[key] = value if key in ("enum", "const", "required") else _strict(value)
    if "properties" in kept:
        kept |= {"required": list(kept["properties"]), "additionalProperties": False}
    return kept


def _with_instructions(messages: Sequence[ChatMessage], schema: Mapping[str, Any]) -> list[ChatMessage]:
    """`messages` with the format at the end of the first system message, or of the last message when there is none."""
    told = f"Reply with JSON only, no other text. It must follow this JSON schema:\n{json.dumps(schema)}"
    asked = list(messages)
    at = next((place for place, message in enumerate(asked) if message.role == "system"), len(asked) - 1)
    asked[at] = replace(asked[at], content=f"{asked[at].content}\n\n{told}")
    return asked


def _corrected(messages: Sequence[ChatMessage], raw: str | None, fault: str) -> list[ChatMessage]:
    fault = for_model(fault)  # it may name fields that the model made up
    told = f"That reply can't be used: {fault}\nReply again, with the JSON only."
    if raw is None or not raw.strip():  # two messages of one role in a row are refused by some servers
        *before, last = messages
        return [*before, replace(last, content=f"{last.content}\n\nThe last reply can't be used: {fault}")]
    return [*messages, ChatMessage("assistant", for_model(raw[:LONGEST_SHOWN])), ChatMessage("user", told)]


def _value(text: str, model_type: type[_ModelT]) -> tuple[tuple[_ModelT, bool] | None, str]:
    """A valid value with whether it was repaired, or None and what is wrong with the likeliest candidate."""
    import pydantic

    fault = ""
    for candidate in candidates(text):
        given, wrapped = _fitted(candidate, model_type)
        if given is None:
            continue
        try:
            return (model_type.model_validate(given), candidate.repaired or wrapped), ""
        except pydantic.ValidationError as error:
            fault = fault or _told(error)
    return None, fault or "there is no JSON in it that has the fields of the schema"


def _fitted(candidate: Candidate, model_type: type[pydantic.BaseModel]) -> tuple[object, bool]:
    """What to validate, None when the candidate can't be meant, and whether a bare array was put into its field."""
    if issubclass(model_type, _root_model()):
        return candidate.value, False
    names = [*model_type.model_fields]
    if isinstance(candidate.value, list):
        return ({names[0]: candidate.value}, True) if candidate.leading and len(names) == 1 else (None, False)
    aliases = [item.alias for item in model_type.model_fields.values() if item.alias]
    if candidate.value and not {*names, *aliases} & candidate.value.keys():
        return None, False
    return candidate.value, False


def _root_model() -> type:
    import pydantic

    return pydantic.RootModel


def _told(error: pydantic.ValidationError) -> str:
    """What is wrong, field by field, without the values, which may quote the record."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"{'.'.join(map(str, item['loc'])) or 'the reply'}: {item['msg']}" for item in found[:MOST_ERRORS]]
    return "; ".join([*lines, *(["…"] if len(found) > MOST_ERRORS else [])])


@dataclass(frozen=True, slots=True)
class KnownIds(Generic[_T]):
    """Items of a reply whose ids were offered, in order, and the ids that were not, None for a missing one."""

    items: tuple[_T, ...]
    unknown: tuple[str | None, ...]


def known_ids(
    items: Iterable[_T],
    offered: Collection[str],
    id_of: Callable[[_T], str | None],
    *,
    needs_id: Callable[[_T], bool] = lambda item: True,
) -> KnownIds[_T]:
    """The items that name an id that was offered; the others are dropped, counted and logged.

    Args:
        items: what the model proposed.
        offered: the ids that were in its prompt; compared exactly.
        id_of: the id an item names, None when it names none.
        needs_id: False for an item that may stand without one, such as an addition. An unknown id is dropped there too.
    """
    kept: list[_T] = []
    unknown: list[str | None] = []
    for item in items:
        named = id_of(item)
        if named in offered if named is not None else not needs_id(item):
            kept.append(item)
        else:
            unknown.append(named)
    if unknown:
        shown = ", ".join(repr(name[:40]) if name is not None else "none" for name in unknown[:20])
        _log.warning("the model named %d ids that it was not offered: %s", len(unknown), shown)
    return KnownIds(tuple(kept), tuple(unknown))
