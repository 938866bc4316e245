"""Strategies by name. A preset is named after a colon: "naive_rag:session"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from backread.errors import NotFoundError
from backread.strategies.base import Parts, Strategy
from backread.strategies.full_context.strategy import FullContext
from backread.strategies.lazymem.strategy import LazyMem
from backread.strategies.leanmem.strategy import LeanMem
from backread.strategies.lightmem.strategy import LightMem
from backread.strategies.naive_rag.strategy import NaiveRag
from backread.strategies.search_o1.strategy import SearchO1
from backread.strategies.t2mem.strategy import T2Mem
from backread.strategies.trailmem.strategy import TrailMem

__all__ = ["STRATEGIES", "create"]

STRATEGIES: Mapping[str, Callable[[Parts], Strategy]] = MappingProxyType(
    {
        "full_context": lambda parts: FullContext(),
        "lazymem": LazyMem.of,
        "lazymem:keep_hits": lambda parts: LazyMem.of(parts, keep_hits_when_invalid=True),
        "leanmem": LeanMem.of,
        "leanmem:no_evolution": lambda parts: LeanMem.of(parts, name="leanmem:no_evolution"),
        "leanmem:no_filter": lambda parts: LeanMem.of(parts, name="leanmem:no_filter"),
        "leanmem:no_plan": lambda parts: LeanMem.of(parts, name="leanmem:no_plan"),
        "leanmem:no_schedule": lambda parts: LeanMem.of(parts, name="leanmem:no_schedule"),
        "leanmem:no_segments": lambda parts: LeanMem.of(parts, name="leanmem:no_segments"),
        "lightmem": LightMem.of,
        "lightmem:faithful": lambda parts: LightMem.of(parts, "faithful"),
        "lightmem:r4": lambda parts: LightMem.of(parts, "r4"),
        "lightmem:r6": lambda parts: LightMem.of(parts, "r6"),
        "lightmem:user_only": lambda parts: LightMem.of(parts, "user_only"),
        "naive_rag": lambda parts: NaiveRag(parts.retriever),
        "naive_rag:round": lambda parts: NaiveRag(parts.retriever, unit="round"),
        "naive_rag:session": lambda parts: NaiveRag(parts.retriever, unit="session"),
        "naive_rag:user_turn": lambda parts: NaiveRag(parts.retriever, unit="user_turn"),
        "search_o1": lambda parts: SearchO1(parts.retriever, parts.chat),
        "t2mem": T2Mem.of,
        "t2mem:graph": lambda parts: T2Mem.of(parts, "graph"),
        "t2mem:no_metadata": lambda parts: T2Mem.of(parts, "no_metadata"),
        "t2mem:no_raw": lambda parts: T2Mem.of(parts, "no_raw"),
        "t2mem:no_rollout": lambda parts: T2Mem.of(parts, "no_rollout"),
        "t2mem:summary": lambda parts: T2Mem.of(parts, "summary"),
        "trailmem": TrailMem.of,
        "trailmem:fixed1": lambda parts: TrailMem.of(parts, looks=1),
        "trailmem:fixed5": lambda parts: TrailMem.of(parts, looks=5),
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
