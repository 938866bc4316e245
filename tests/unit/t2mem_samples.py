"""A scripted model for T2Mem: it writes entries out of the lines it is shown, reads what it has seen, and copies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from backread.models.base import ChatReply
from backread.testing.fakes import ChatRequest, FunctionChat
from backread.text.support import content

__all__ = ["block", "copying_chat", "entry_reply", "said", "scripted", "seen", "step", "turn_lines"]

Lines = list[tuple[str, str]]


def block(request: ChatRequest, label: str) -> str:
    """What stands between the marks of a prompt."""
    match = re.search(rf'<{label} id="(\w+)">\n(.*)</{label} id="\1">', request.question, re.DOTALL)
    return match[2] if match else ""


def turn_lines(text: str) -> Lines:
    """(label, line) of the turns in a block."""
    return re.findall(r"^\[(\d+(?:\.\d+)?)\] ([^:\n]*: .*)$", text, re.MULTILINE)


def said(request: ChatRequest) -> str:
    """The question of a prompt of the loop."""
    match = re.search(r"^Question: (.*)$", request.question, re.MULTILINE)
    return match[1] if match else ""


def seen(request: ChatRequest) -> list[int]:
    """The entries that may be read."""
    match = re.search(r"^Entries you have seen: ([\d, ]+)\.$", request.question, re.MULTILINE)
    return [int(number) for number in match[1].split(", ")] if match else []


def step(
    action: str, entry_id: int | None = None, memory: Iterable[tuple[str, list[str]]] = (), reasoning: str = "thinking"
) -> str:
    """A reply of the controller."""
    cache = [{"text": text, "from": labels} for text, labels in memory]
    told = {"reasoning": reasoning, "memory_cache": cache, "action": {"name": action, "entry_id": entry_id}}
    return json.dumps(told)


def entry_reply(request: ChatRequest) -> str:
    """The entry of a session: its lines."""
    lines = turn_lines(block(request, "session"))
    rules = request.messages[0].content
    reply: dict[str, Any]
    if "summarise" in rules:
        reply = {"summary": " ".join(line for _, line in lines)}
    elif "graph" in rules:
        split = [(label, *line.split(": ", 1)) for label, line in lines]
        reply = {
            "relations": [
                {"subject": name, "relation": "said", "object": text, "when": "", "turns": [int(label)]}
                for label, name, text in split
            ]
        }
    else:
        facts = [{"subject": "", "fact": line, "turns": [int(label)]} for label, line in lines]
        reply = {"title": "A talk", "overview": "They talk.", "facts": facts}
    return json.dumps(reply)


def scripted(recall: Callable[[ChatRequest], str | ChatReply]) -> FunctionChat:
    """A model that builds by `entry_reply` and recalls by a function."""

    def reply(request: ChatRequest) -> str | ChatReply:
        return entry_reply(request) if request.purpose == "build" else recall(request)

    return FunctionChat(reply, name="scripted")


def copying_chat() -> FunctionChat:
    """Copies lines that share a word with the question, and reads on until there is nothing left."""

    def recall(request: ChatRequest) -> str:
        observation, wanted = block(request, "observation"), content(said(request))
        details = re.findall(r"^  - (.*) \[(\d+\.\d+)[\d., ]*\]$", observation, re.MULTILINE)
        lines = turn_lines(observation) + [(label, text) for text, label in details]
        lines = [(label, text) for label, text in lines if "." in label]
        memory = [(text, [label]) for label, text in lines if wanted & content(text)]
        if "ReadRaw" not in request.messages[0].content:
            return step("Answer" if "no more entries" in observation else "SearchMeta", memory=memory)
        if "the whole session" not in observation or len(re.findall(r"^\[\d+\] ", observation, re.MULTILINE)) > 1:
            return step("ReadRaw", min(seen(request)))
        read = int(re.findall(r"^\[(\d+)\] ", observation, re.MULTILINE)[0])
        following = [number for number in seen(request) if number > read]
        return step("ReadRaw", following[0], memory) if following else step("Answer", memory=memory)

    return scripted(recall)
