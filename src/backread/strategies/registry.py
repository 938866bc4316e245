"""Strategies by name. A preset is named after a colon: "naive_rag:session".

Each design lists its presets in `SPECS` of its own `strategy` module; "" is the design itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, cast

from backread.errors import InvalidInputError
from backread.registry import Kind
from backread.strategies.base import Parts, Strategy, StrategySpec

__all__ = ["STRATEGIES", "create", "strategy_spec"]

_PRESETS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "full_context": (),
        "lazymem": ("keep_hits",),
        "leanmem": ("no_evolution", "no_filter", "no_plan", "no_schedule", "no_segments"),
        "lightmem": ("faithful", "r4", "r6", "user_only"),
        "naive_rag": ("round", "session", "user_turn"),
        "search_o1": (),
        "t2mem": ("graph", "no_metadata", "no_raw", "no_rollout", "summary"),
        "trailmem": ("fixed1", "fixed5"),
    }
)
_OWN: Final = {
    name: f"backread.strategies.{design}.strategy:SPECS"
    for design, presets in _PRESETS.items()
    for name in (design, *(f"{design}:{preset}" for preset in presets))
}

STRATEGIES: Final = Kind("strategy", "strategies", MappingProxyType(_OWN))
"""Every name a user can choose. A package adds a `StrategySpec`, or what is called with `Parts`."""


def strategy_spec(name: str) -> StrategySpec:
    """What is known of a strategy before it is made.

    A class or function that stands for a strategy may say so itself, by attributes named as those of `StrategySpec`.

    Raises:
        NotFoundError: there is none of that name; the hint lists the names.
        InvalidInputError: the name is of something else.
    """
    found = STRATEGIES.find(name)
    if name in _OWN:
        return cast("Mapping[str, StrategySpec]", found)[name.partition(":")[2]]
    if isinstance(found, StrategySpec):
        return found
    said = STRATEGIES.said(name, found, ("summary", "builds", "unit", "needs"))
    return StrategySpec(cast("Callable[[Parts], Strategy]", found), **{"builds": True, **said})


def create(name: str, parts: Parts) -> Strategy:
    """The strategy of that name.

    Raises:
        NotFoundError: there is none; the hint lists the names.
        InvalidInputError: the name is of something else, or what it makes is no strategy.
    """
    made = strategy_spec(name).make(parts)
    if not isinstance(made, Strategy):
        raise InvalidInputError(
            f"{name!r} makes no strategy but {type(made).__name__}",
            hint="`backread.strategies.base.Strategy` says what a strategy must have",
        )
    return made
