"""Replies of the controller as models write them."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from backread.models.structured import reply_schema
from backread.strategies.t2mem.schemas import Action, StepReply, StepReplyWithoutRaw


@pytest.mark.parametrize(
    ("given", "name", "entry_id"),
    [
        ({"name": "ReadRaw", "entry_id": 3}, "ReadRaw", 3),
        ({"name": "readraw", "entry_id": "[3]"}, "ReadRaw", 3),
        ({"name": "ReadRaw()", "entry_id": "entry 12"}, "ReadRaw", 12),
        ({"name": "ReadRaw"}, "ReadRaw", None),
        ({"name": "SearchMeta", "entry_id": None}, "SearchMeta", None),
        ({"name": "Answer", "entry_id": ""}, "Answer", None),
        ("Answer", "Answer", None),
        ("SearchMeta()", "SearchMeta", None),
        ("ReadRaw(3)", "ReadRaw", 3),
        ("ReadRaw[entry_id=3]", "ReadRaw", 3),
    ],
)
def test_actions_are_read_as_models_write_them(given: Any, name: str, entry_id: int | None) -> None:
    action = StepReply.model_validate({"action": given}).action
    assert (action.name, action.entry_id) == (name, entry_id)


@pytest.mark.parametrize("given", ["Answer, SearchMeta or ReadRaw", "Search", "", None, {}, {"name": "answer me"}, 3])
def test_what_names_no_action_is_none(given: Any) -> None:
    with pytest.raises(pydantic.ValidationError):
        StepReply.model_validate({"action": given})


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ([{"text": "Ann moved.", "from": ["2.3"]}], [("Ann moved.", ["2.3"])]),
        ([{"text": "Ann moved.", "from": "[2.3], 2.4"}, {"text": "x"}], [("Ann moved.", ["2.3", "2.4"]), ("x", [])]),
        ([{"text": "Ann moved.", "from": 2.3}], [("Ann moved.", ["2.3"])]),
        (["Ann moved."], [("Ann moved.", [])]),
        ("Ann moved.", [("Ann moved.", [])]),
        ("", [("", [])]),
        (None, []),
        ([], []),
    ],
)
def test_memory_is_read_as_models_write_it(given: Any, lines: list[tuple[str, list[str]]]) -> None:
    reply = StepReply.model_validate({"memory_cache": given, "action": "Answer"})
    assert [(item.text, item.turns) for item in reply.memory_cache] == lines


def test_without_raw_sessions_there_is_no_way_to_read_one() -> None:
    assert StepReplyWithoutRaw.model_validate({"action": "SearchMeta"}).action.name == "SearchMeta"
    with pytest.raises(pydantic.ValidationError):
        StepReplyWithoutRaw.model_validate({"action": "ReadRaw(1)"})
    allowed = reply_schema(StepReplyWithoutRaw)["$defs"]["_ActionWithoutRaw"]["properties"]["name"]["enum"]
    assert allowed == ["Answer", "SearchMeta"]
    assert reply_schema(StepReply)["$defs"]["Action"]["properties"]["name"]["enum"] == [*allowed, "ReadRaw"]


def test_the_schema_asks_for_every_field_by_its_name_in_the_prompt() -> None:
    schema = reply_schema(StepReply)
    assert schema["required"] == ["reasoning", "memory_cache", "action"]
    assert list(schema["$defs"]["Cached"]["properties"]) == ["text", "from"]
    assert issubclass(Action, pydantic.BaseModel)
