"""Values of this package as JSON, the same for the command line, the server and whatever else speaks to programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

__all__ = ["json_text", "plain"]


def plain(value: object) -> Any:  # noqa: ANN401 -- whatever JSON can hold
    """`value` as JSON holds it: dataclasses and pydantic models by their fields, times in ISO 8601, paths as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if hasattr(value, "model_dump"):  # pydantic is not loaded for those who have none of its models
        return plain(value.model_dump())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [plain(item) for item in value]
    return value


def json_text(value: object, *, indent: int | None = None) -> str:
    """`value` as JSON in ASCII, so that any text (lone surrogates too) comes back as it was; one line without `indent`.

    Raises:
        ValueError: it holds NaN or an infinity, which JSON can't carry.
    """
    separators = (",", ":") if indent is None else None
    return json.dumps(plain(value), indent=indent, separators=separators, allow_nan=False)
