"""Limits that a reply's schema asks for. pydantic takes a while to import: this is imported when a model is asked."""

from __future__ import annotations

from typing import Any

import pydantic

__all__ = ["asked_for"]


def asked_for(**limits: int) -> Any:  # noqa: ANN401 -- pydantic has no name for it
    """A field whose schema has these limits, such as maxItems=6; a reply beyond them is fine too.

    Endpoints that follow the schema keep a small model from going round in circles by it; from others nothing is lost.
    """
    return pydantic.Field(json_schema_extra=dict[str, Any](limits))
