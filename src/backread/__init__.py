"""Long-term memory for LLM agents: every turn kept verbatim, every line of memory cited, every token counted.

`Memory` and `AsyncMemory` are loaded when first used, so that importing the package loads neither numpy nor a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backread.errors import (
    BackreadError,
    ConflictError,
    InvalidInputError,
    MissingExtraError,
    ModelError,
    NotFoundError,
    StoreError,
)
from backread.types import (
    AddReceipt,
    Answer,
    Citation,
    Degradation,
    DeleteReceipt,
    Evidence,
    Hit,
    Hits,
    Recall,
    Session,
    Source,
    Turn,
)

__all__ = [
    "AddReceipt",
    "Answer",
    "AsyncMemory",
    "BackreadError",
    "Citation",
    "ConflictError",
    "Degradation",
    "DeleteReceipt",
    "Evidence",
    "Hit",
    "Hits",
    "InvalidInputError",
    "Memory",
    "MissingExtraError",
    "ModelError",
    "NotFoundError",
    "Recall",
    "Session",
    "Settings",
    "Source",
    "StoreError",
    "Turn",
    "__version__",
]

__version__ = "0.1.0"

if TYPE_CHECKING:
    from backread.aio import AsyncMemory
    from backread.memory import Memory
    from backread.settings import Settings
else:  # hidden from type checkers, or a misspelt name would pass as an object
    _HOMES = {
        "AsyncMemory": "backread.aio",
        "Memory": "backread.memory",
        "Settings": "backread.settings",
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
