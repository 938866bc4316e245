"""Which parts of the design are there, and where the entries of each form of it are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["KINDS", "PRESETS", "SUMMARY", "Design", "Shelf"]

KINDS = ("profile", "event", "record")
"""The memory types, M of equation 7."""

SUMMARY = "summary"
"""The kind of entry that stands for all three where nothing is scheduled."""

_VERSION = "1"
"""Of what is made of the same turns: another one builds all again."""


@dataclass(frozen=True, slots=True)
class Design:
    """LeanMem, or LeanMem without one of its parts: the ablations of section 4.4.

    Attributes:
        filtered: only key utterances are segmented; else all turns.
        segmented: a session is cut into topics; else it is one unit.
        scheduled: each segment is kept as what it is; else each is summarised.
        evolving: events are consolidated; else they stay as they were written.
        planned: a plan says what is searched and how much of it; else the nearest entries are taken.
    """

    filtered: bool = True
    segmented: bool = True
    scheduled: bool = True
    evolving: bool = True
    planned: bool = True

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of entry that are made."""
        return KINDS if self.scheduled else (SUMMARY,)


PRESETS: Mapping[str, Design] = MappingProxyType(
    {
        "leanmem": Design(),
        "leanmem:no_evolution": Design(evolving=False),
        "leanmem:no_filter": Design(filtered=False),
        "leanmem:no_plan": Design(planned=False),
        "leanmem:no_schedule": Design(scheduled=False),
        "leanmem:no_segments": Design(segmented=False),
    }
)
"""The designs by the name users choose them by."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where entries of one form are kept, apart from those of another: by a model, or by rules.

    Attributes:
        strategy: in whose name. Designs that write the same have the same.
        form: "model" or "rules"; also the name of the ledger.
        window: w of the segmentation, None for the one that fits the conversation.
    """

    strategy: str
    form: str
    window: int | None = None

    @classmethod
    def of(cls, name: str, form: str, window: int | None = None) -> Shelf:
        """The shelf of a preset."""
        return cls("leanmem" if name == "leanmem:no_plan" else name, form, window)

    @property
    def recipe(self) -> str:
        """What makes an entry another one; not the model, as a change of model should not build all again."""
        return f"{self.form}-{_VERSION}" + (f" w={self.window}" if self.window is not None else "")

    def kind(self, name: str) -> str:
        """The kind that entries of a memory type have here."""
        return name if self.form == "model" else f"{name}-{self.form}"
