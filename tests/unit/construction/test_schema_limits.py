"""Limits in the schema of a reply."""

from __future__ import annotations

from typing import Annotated

import pydantic

from backread.construction.schema_limits import asked_for


class Reply(pydantic.BaseModel):
    names: Annotated[list[str], asked_for(minItems=1, maxItems=2)]


def test_the_schema_asks_and_a_longer_reply_is_taken() -> None:
    asked = Reply.model_json_schema()["properties"]["names"]
    assert (asked["minItems"], asked["maxItems"]) == (1, 2)
    assert Reply.model_validate({"names": ["a", "b", "c"]}).names == ["a", "b", "c"]
