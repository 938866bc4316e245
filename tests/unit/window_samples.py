"""Scripted models that keep or drop the messages of windows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from backread.testing.fakes import ChatRequest
from backread.text.analysis import tokens

__all__ = ["by_words", "decided", "messages"]


def messages(request: ChatRequest) -> list[str]:
    """The messages of a window, each as "speaker: text"."""
    inside = re.split(r'</?messages id="\w+">', request.question)[1]
    return [text.strip() for text in re.split(r"^\[\d+\] \([^)]*\) ", inside, flags=re.MULTILINE)[1:]]


def decided(request: ChatRequest, kept: Mapping[str, str]) -> str:
    """Keeps the messages whose text has words in `kept`, in those words."""
    found = [kept.get(message.split(": ", 1)[1], "") for message in messages(request)]
    return _reply(found)


def by_words(request: ChatRequest) -> str:
    """Keeps each message that shares a word with the question, in its own words."""
    question = request.question.split("\nQuestion: ")[-1].split("\n\n")[0]
    said = [message.split(": ", 1)[1] for message in messages(request)]
    return _reply([text if _words(question) & _words(text) else "" for text in said])


def _reply(texts: list[str]) -> str:
    decisions = [
        {"index": number, "action": "KEEP" if text else "DROP", "compressed": text}
        for number, text in enumerate(texts, 1)
    ]
    return json.dumps({"decisions": decisions})


def _words(text: str) -> set[str]:
    return {word.stem for word in tokens(text) if not word.stop}
