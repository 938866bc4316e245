"""LightMem's settings, and the presets that users choose by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["PRESETS", "Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What LightMem does; the defaults are those of the preset without a name.

    Attributes:
        rate: r of the papers, the share of each message's words that is read.
        short_term: th of the papers, tokens that are gathered for a call; a topic alone may have more.
        sensory: tokens that topics are cut from, `per_message` for each message included.
        per_message: tokens that a message takes of the sensory buffer besides its own.
        user_only: memory is made of what people say; replies only ride along to tell topics apart.
        top_k: units at most that a recall shows, before the budget.
        neighbours: earlier entries that an entry is compared with.
        kept_neighbours: the most similar of them that it may update, itself not counted.
        threshold: cosine from which it may.
        as_published: also do what the released code does and its paper doesn't say; see `PAPER.md`.
    """

    rate: float = 0.8
    short_term: int = 1024
    sensory: int = 512
    per_message: int = 2
    user_only: bool = False
    top_k: int = 10
    neighbours: int = 20
    kept_neighbours: int = 10
    threshold: float = 0.8
    as_published: bool = False


PRESETS: Mapping[str | None, Settings] = MappingProxyType(
    {
        None: Settings(),
        "r6": Settings(rate=0.6, short_term=768),
        "r4": Settings(rate=0.4, short_term=768),
        "user_only": Settings(user_only=True),
        "faithful": Settings(user_only=True, as_published=True),
    }
)
"""By what stands behind the colon; None for "lightmem" alone."""
