"""How much one server does at once and for one user, how long it waits for a client, and how large an answer gets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from backread.errors import InvalidInputError

__all__ = ["LIMITS", "Limits", "bounded", "evidence_tokens", "read_limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server. Every number is above 0.

    Attributes:
        requests: requests at work at once, besides questions; the others wait their turn.
        requests_per_user: of them, for one user.
        asks: questions, which may wait for a chat model, and exports at work at once.
        asks_per_user: of them, for one user.
        waiting: requests, and questions, that wait for a place; more are refused with 503.
        waiting_per_user: of them, for one user; more are refused with 429.
        builds_per_user: builds of one user that are not over; more are refused with 429.
        query_chars: characters of a query or a question.
        evidence_tokens: tokens of evidence a request may ask for; "none" is as many.
        question_bytes: bytes of the body of a search, a question, or whatever else brings no turns.
        body_bytes: bytes of a request's body.
        answer_bytes: bytes of an answer; a page ends before the item that would make it larger, a text is cut.
        connections: open connections; when there are more, the one that has waited longest for a request is closed.
        header_seconds: until the head of a request is complete.
        body_seconds: of waiting for a request's body.
        stall_seconds: in which a client takes in nothing of its answer.
        drain_seconds: until what still runs is broken off when the server ends.
        mcp_sessions: open sessions over MCP.
        mcp_sessions_per_user: of them, for one key's owner.
        mcp_idle_seconds: until a session without a request is forgotten.
    """

    requests: int = 4
    requests_per_user: int = 2
    asks: int = 16
    asks_per_user: int = 2
    waiting: int = 1000
    waiting_per_user: int = 100
    builds_per_user: int = 8
    query_chars: int = 10_000
    evidence_tokens: int = 100_000
    question_bytes: int = 256 * 1024
    body_bytes: int = 16 * 1024 * 1024
    answer_bytes: int = 4 * 1024 * 1024
    connections: int = 512
    header_seconds: float = 10.0
    body_seconds: float = 60.0
    stall_seconds: float = 60.0
    drain_seconds: float = 30.0
    mcp_sessions: int = 1000
    mcp_sessions_per_user: int = 50
    mcp_idle_seconds: float = 1800.0


LIMITS: Final = {
    name: " ".join(text.split())
    for name, text in re.findall(r"^ {8}(\w+): (.+(?:\n {12}.+)*)$", Limits.__doc__ or "", re.MULTILINE)
}
"""What each limit is, by name."""


def read_limits(given: Sequence[str]) -> Limits:
    """Limits from "name=number" each; what is not named is as it is.

    Raises:
        InvalidInputError: no limit of that name, or no number above 0.
    """
    kinds: dict[str, int | float] = {item.name: getattr(Limits(), item.name) for item in fields(Limits)}
    values: dict[str, Any] = {}
    for item in given:
        name, _, number = item.partition("=")
        default = kinds.get(name)
        if default is None:
            raise InvalidInputError(f"there is no limit {name!r}", hint=f"limits: {', '.join(kinds)}")
        try:
            values[name] = type(default)(number)
        except ValueError:
            values[name] = 0
        if not values[name] > 0 or values[name] == float("inf"):
            raise InvalidInputError(f"the limit {name} must be a number above 0, not {number!r}")
    return Limits(**values)


def bounded(text: str, what: str, limits: Limits) -> str:
    """A query or a question.

    Raises:
        InvalidInputError: it has more characters than the limit.
    """
    if len(text) > limits.query_chars:
        told = f"{what} has {len(text):,} characters, and {limits.query_chars:,} are the most"
        raise InvalidInputError(told, hint="ask in fewer words")
    return text


def evidence_tokens(budget: int | Literal["none", "default"], limits: Limits) -> int | Literal["default"]:
    """The budget of a request as `Memory` takes it: "none" is the most there is."""
    if budget == "default":
        return budget
    return limits.evidence_tokens if budget == "none" else min(budget, limits.evidence_tokens)
