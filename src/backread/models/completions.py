"""Reading chat completions: whole ones and streams, of servers that keep to the format and of those that don't quite.

Everything is read from plain JSON values. What is missing is unknown, what has another type is as if missing, and an
answer without text is an error that says what was there instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from backread.errors import ModelOutputError
from backread.models.base import ChatReply
from backread.models.thinking import split_thinking
from backread.types import Usage

__all__ = ["Completion", "StreamReader", "short"]

LONGEST_DETAIL = 500
_LENGTH = ("length", "max_tokens", "max_output_tokens", "model_length")
_REASONING = ("reasoning_content", "reasoning")


def short(text: str) -> str:
    """`text` on one line, cut at 500 characters, for messages."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_DETAIL else line[:LONGEST_DETAIL] + "…"


@dataclass(slots=True)
class Completion:
    """What an answer said, in pieces.

    Attributes:
        content: pieces of the text, in order.
        reasoning: pieces of what servers keep apart from it.
        finish: why it ended, None when it was not said.
        tools: names of the functions the model wanted called.
        counts: the `usage` object, None when there was none.
        answered: True when there was a choice at all.
    """

    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    finish: str | None = None
    refusal: str | None = None
    tools: list[str] = field(default_factory=list)
    counts: Mapping[str, object] | None = None
    answered: bool = False

    def read(self, body: Mapping[str, object]) -> str:
        """Take in a completion, or one chunk of a stream; the text that came with it."""
        counts = body.get("usage")
        if isinstance(counts, Mapping):
            self.counts = counts
        choices = body.get("choices")
        if not isinstance(choices, list) or not choices:
            return ""
        self.answered = True
        choice = _mapping(choices[0])
        if isinstance(reason := choice.get("finish_reason"), str) and reason:
            self.finish = "length" if reason.lower() in _LENGTH else reason
        message = _mapping(choice.get("message")) or _mapping(choice.get("delta"))
        for name in _REASONING:
            if isinstance(thought := message.get(name), str) and thought:
                self.reasoning.append(thought)
                break  # some servers send the same words under both names
        if isinstance(refusal := message.get("refusal"), str) and refusal:
            self.refusal = (self.refusal or "") + refusal
        self.tools += _tool_names(message.get("tool_calls"))
        text, thoughts = _parts(message.get("content"))
        self.content.append(text)
        self.reasoning += thoughts
        return text

    def usage(self, purpose: str, model: str, seconds: float) -> Usage:
        """Tokens as far as the server counted them. OpenAI counts cached and reasoning ones inside, as `Usage` does."""
        counts = self.counts or {}
        return Usage(
            purpose=purpose,
            model=model,
            input_tokens=_count(counts, "prompt_tokens"),
            output_tokens=_count(counts, "completion_tokens"),
            cache_read_tokens=_count(_mapping(counts.get("prompt_tokens_details")), "cached_tokens"),
            reasoning_tokens=_count(_mapping(counts.get("completion_tokens_details")), "reasoning_tokens"),
            seconds=seconds,
        )

    def reply(self, usage: Usage, where: str) -> ChatReply:
        """The reply, its leading reasoning taken off.

        Raises:
            ModelOutputError: there is no text: null content, tool calls, a refusal, or reasoning only.
        """
        raw = "".join(self.content)
        thoughts = split_thinking(raw)
        apart = [*self.reasoning, *([thoughts.reasoning] if thoughts.reasoning else [])]
        reasoning = "".join(self.reasoning) if not thoughts.reasoning else "\n".join(apart)
        finish = self.finish or "unknown"
        if thoughts.answer.strip():
            return ChatReply(thoughts.answer, finish, usage, reasoning=reasoning or None)
        instead = []
        if self.refusal:
            instead.append(f"refused: {short(self.refusal)}")
        if self.tools:
            instead.append(f"it calls the tool {short(', '.join(self.tools))} instead")
        if reasoning:
            instead.append("reasoning only")
        said = "; ".join([*instead, f"finish_reason {finish}"])
        cut = finish in ("length", "incomplete")
        hint = "the output ended while the model was still reasoning: allow more tokens" if cut and reasoning else None
        raise ModelOutputError(
            f"{where}: the answer has no text ({said})", hint=hint, usage=usage, raw=raw or None, cut=cut
        )


class StreamReader:
    """Server-sent events to JSON objects: every `data:` line is one, whatever stands between them.

    Bytes are split at newlines only: the other line ends of Unicode may stand inside a JSON string.

    Attributes:
        done: True after `data: [DONE]`.
        other: lines that are no events: the body of a server that does not stream.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # pieces of a line that has not ended: joined once, however many there are
        self.done = False
        self.other: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[Mapping[str, object]]:
        """The objects that are complete now.

        Raises:
            ModelOutputError: a `data:` line that is not JSON.
        """
        ended, *others = data.split(b"\n")
        self._rest.append(ended)
        for piece in others:
            line, self._rest = b"".join(self._rest), [piece]
            yield from self._line(line)

    def end(self) -> Iterator[Mapping[str, object]]:
        """The object of a last line without an end; a part of one is dropped, the stream was broken there."""
        line, self._rest = b"".join(self._rest), []
        try:
            yield from self._line(line)
        except ModelOutputError:
            return

    def _line(self, line: bytes) -> Iterator[Mapping[str, object]]:
        line = line.strip(b"\r\xef\xbb\xbf")
        if not line.startswith(b"data:"):
            if line.strip() and not line.startswith((b":", b"event:", b"id:", b"retry:")):
                self.other.append(line)
            return
        data = line[5:].strip()
        if data == b"[DONE]":
            self.done = True
        elif data and not self.done:
            try:
                value = json.loads(data)
            except (ValueError, RecursionError) as error:
                raise ModelOutputError(f"a chunk of the stream is not JSON: {short(repr(data))}") from error
            if isinstance(value, Mapping):
                yield value


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _parts(content: object) -> tuple[str, list[str]]:
    """Text and reasoning of a content: a string, or a list of typed parts."""
    if isinstance(content, str):
        return content, []
    texts: list[str] = []
    thoughts: list[str] = []
    for part in content if isinstance(content, list) else ():
        kind = _mapping(part).get("type")
        if kind == "text" and isinstance(text := part.get("text"), str):
            texts.append(text)
        elif kind == "thinking":
            thought = part.get("thinking")
            thoughts.append(thought if isinstance(thought, str) else _parts(thought)[0])
    return "".join(texts), thoughts


def _tool_names(calls: object) -> list[str]:
    found = [_mapping(_mapping(call).get("function")).get("name") for call in calls] if isinstance(calls, list) else []
    return [name for name in found if isinstance(name, str) and name]


def _count(holder: Mapping[str, object], name: str) -> int | None:
    value = holder.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
