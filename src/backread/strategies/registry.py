"""Strategies by name. A preset is named after a colon: "naive_rag:session"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from backread.errors import NotFoundError
from backread.strategies.base import Parts, Strategy
from backread.strategies.full_context.strategy import FullContext
from backread.strategies.naive_rag.strategy import NaiveRag

__all__ = ["STRATEGIES", "create"]

STRATEGIES: Mapping[str, Callable[[Parts], Strategy]] = MappingProxyType(
    {
        "full_context": lambda parts: FullContext(),
        "naive_rag": lambda parts: NaiveRag(parts.retriever),
        "naive_rag:round": lambda parts: NaiveRag(parts.retriever, unit="round"),
        "naive_rag:session": lambda parts: NaiveRag(parts.retriever, unit="session"),
        "naive_rag:user_turn": lambda parts: NaiveRag(parts.retriever, unit="user_turn"),
    }
)
"""Every name a user can choose, with what makes it."""


def create(name: str, parts: Parts) -> Strategy:
    """The strategy of that name.

    Raises:
        NotFoundError: there is none; the hint lists the names.
    """
    if name not in STRATEGIES:
        raise NotFoundError(f"there is no strategy {name!r}", hint=f"strategies: {', '.join(sorted(STRATEGIES))}")
    return STRATEGIES[name](parts)
