from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.errors import BlankTextError, InvalidInputError, TimeError
from backread.messages import MESSAGE_KEYS, ROLES, draft_from_message
from backread.types import TurnDraft

CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:…"}}
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


def draft(**message: Any) -> TurnDraft:
    return draft_from_message({"role": "user", **message}, session_id="s")


@given(ANY_TEXT)
def test_any_text_comes_out_as_it_went_in(text: str) -> None:
    made = draft(content=text, attachments=[{"type": "mark"}])
    assert made.text == text
    assert made.text.encode("utf-8", "surrogatepass") == text.encode("utf-8", "surrogatepass")


@given(st.lists(ANY_TEXT, min_size=1))
def test_text_parts_are_joined_with_a_newline_and_nothing_else(texts: list[str]) -> None:
    made = draft(content=[{"type": "text", "text": text} for text in texts] + [IMAGE])
    assert made.text == "\n".join(texts)
    assert made.attachments == (IMAGE,)


def test_ver_02_white_space_indentation_and_line_ends_are_kept() -> None:
    text = (
        'Config:\n\n\tretry:  3\n    token = "AbC-12__zZ=="\n```py\nif a:\n        b()\n```\n'
        "  trailing  \r\nline two\u2028end"
    )
    assert draft(content=text).text == text


def test_every_field() -> None:
    made = draft_from_message(
        {
            "role": "participant",
            "content": "Hi",
            "name": "Zoë",
            "id": "m1",
            "timestamp": "2024-05-01T09:00:00+02:00",
            "said_text": "May 1st",
            "caption": "a boat",
            "attachments": [{"type": "file", "file": {"file_id": "f1"}}],
            "supersedes": "m0",
        },
        session_id="s1",
    )
    assert made == TurnDraft(
        session_id="s1",
        role="participant",
        text="Hi",
        speaker="Zoë",
        external_id="m1",
        caption="a boat",
        attachments=({"type": "file", "file": {"file_id": "f1"}},),
        said_at=datetime(2024, 5, 1, 7, tzinfo=UTC),
        said_text="May 1st",
        supersedes="m0",
    )


def test_the_least_message() -> None:
    assert draft(content="Hi") == TurnDraft(session_id="s", role="user", text="Hi")


@pytest.mark.parametrize("role", ROLES)
def test_every_role(role: str) -> None:
    assert draft(role=role, content="x").role == role


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": ""},
        {"role": "user", "content": "   \n\t"},
        {"role": "user", "content": None},
        {"role": "user"},
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "assistant", "content": None, "tool_calls": None, "refusal": None, "annotations": [], "audio": None},
        {"role": "user", "content": []},
        {"role": "user", "content": [{"type": "text", "text": " "}]},
        {"role": "user", "content": [{"type": "text", "text": " ", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": "", "caption": "a boat"},
    ],
)
def test_ver_04_blank_messages_are_refused(message: dict[str, Any]) -> None:
    with pytest.raises(BlankTextError, match="no text and no attachment"):
        draft_from_message(message, session_id="s")


def test_ver_04_a_message_that_is_nothing_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="not null"):
        draft_from_message(None, session_id="s")  # type: ignore[arg-type]


def test_ver_04_tool_calls_without_text_are_kept() -> None:
    made = draft(role="assistant", content=None, tool_calls=[CALL])
    assert made.text == ""
    assert made.attachments == ({"type": "tool_calls", "tool_calls": [CALL]},)


def test_ver_04_an_image_alone_is_kept() -> None:
    made = draft(content=[{"type": "text", "text": ""}, IMAGE])
    assert made.text == ""
    assert made.attachments == (IMAGE,)


def test_ver_04_text_parts_make_one_text() -> None:
    assert (
        draft(content=[{"type": "text", "text": "look"}, {"type": "text", "text": "at this"}]).text == "look\nat this"
    )


def test_attachments_come_in_a_fixed_order() -> None:
    made = draft(
        role="tool", tool_call_id="1", content=[IMAGE], attachments=[{"type": "a"}], refusal="no", audio={"id": "x"}
    )
    assert [item["type"] for item in made.attachments] == ["a", "image_url", "tool_call_id", "refusal", "audio"]


def test_what_a_text_part_has_besides_text_is_kept() -> None:
    made = draft(content=[{"type": "output_text", "text": "Hi", "annotations": [{"url": "u"}], "logprobs": []}])
    assert made.text == "Hi"
    assert made.attachments == ({"type": "output_text", "annotations": [{"url": "u"}]},)


def test_parts_given_are_not_changed() -> None:
    part = {"type": "text", "text": "Hi"}
    draft(content=[part])
    assert part == {"type": "text", "text": "Hi"}


@pytest.mark.parametrize(("given", "kept"), [(7, "7"), ("7", "7"), (" 7 ", " 7 "), (None, None)])
def test_ids(given: object, kept: str | None) -> None:
    made = draft(content="x", id=given, supersedes=given)
    assert made.external_id == kept
    assert made.supersedes == kept


def test_speaker_is_another_word_for_name() -> None:
    assert draft(content="x", speaker="Max").speaker == "Max"
    assert draft(content="x", name=None, speaker="Max").speaker == "Max"


@pytest.mark.parametrize("key", ["timestamp", "time", "created_at", "said_at"])
def test_a_time_by_any_of_its_names(key: str) -> None:
    zone = timezone(timedelta(hours=2))
    made = draft_from_message({"role": "user", "content": "x", key: "2024-05-01T09:00:00"}, session_id="s", zone=zone)
    assert made.said_at == datetime(2024, 5, 1, 9, tzinfo=zone)
    assert not made.offset_known


def test_the_wording_of_an_unknown_time_is_kept() -> None:
    made = draft(content="x", said_text="last spring")
    assert made.said_at is None
    assert made.said_text == "last spring"


def test_the_wording_of_a_time_is_the_value_unless_said_otherwise() -> None:
    value = "2024-05-01T09:00:00+02:00"
    assert draft(content="x", time=value).said_text == value
    assert draft(content="x", time=value, said_text="nine").said_text == "nine"
    assert draft(content="x", time=value, said_text=None).said_text is None


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("Hi", "not str"),
        ({"content": "x"}, "has no role; roles are system, developer"),
        ({"role": "owner", "content": "x"}, "unknown role 'owner'"),
        ({"role": ["user"], "content": "x"}, r"unknown role \['user'\]"),
        ({"role": "user", "content": 5}, "content is a string, a list of parts or null, not int"),
        ({"role": "user", "content": ["x"]}, r"content\[0\] is an object with a type, not str"),
        ({"role": "user", "content": [{"text": "x"}]}, r'content\[0\] has no "type"'),
        ({"role": "user", "content": [{"type": "text"}]}, r"content\[0\].text is a string, not null"),
        ({"role": "user", "content": "x", "nmae": "Ann"}, "unknown key 'nmae'"),
        ({"role": "user", "content": "x", 5: "Ann"}, "unknown key 5"),
        ({"role": "user", "content": "x", "name": 5}, "name is a string, not int"),
        ({"role": "user", "content": "x", "name": ""}, "name is empty"),
        ({"role": "user", "content": "x", "name": "a", "speaker": "a"}, "both name and speaker"),
        ({"role": "user", "content": "x", "id": ""}, "id is a non-empty string or an integer, not an empty string"),
        ({"role": "user", "content": "x", "id": True}, "not bool"),
        ({"role": "user", "content": "x", "supersedes": 1.5}, "supersedes is a non-empty string"),
        ({"role": "user", "content": "x", "caption": []}, "caption is a string, not list"),
        ({"role": "user", "content": "x", "said_text": 5}, "said_text is a string, not int"),
        ({"role": "user", "content": "x", "time": 1, "said_at": 1}, "two times, time and said_at"),
        ({"role": "user", "content": "x", "attachments": {"type": "a"}}, "attachments is a list of objects, not dict"),
        ({"role": "user", "content": "x", "attachments": [5]}, r"attachments\[0\] is an object"),
        ({"role": "user", "attachments": [{"type": "a", "x": {1: 2}}]}, "a key that is not a string"),
        ({"role": "user", "attachments": [{"type": "a", "x": float("nan")}]}, "holds nan"),
        ({"role": "user", "attachments": [{"type": "a", "x": b""}]}, "holds bytes"),
        ({"role": "user", "tool_calls": [{"function": object()}]}, "tool_calls holds object"),
    ],
)
def test_what_is_wrong_is_named(message: Any, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        draft_from_message(message, session_id="s")


def test_an_unknown_key_names_the_known_ones() -> None:
    with pytest.raises(InvalidInputError) as caught:
        draft(content="x", text="y")
    assert all(key in str(caught.value.hint) for key in MESSAGE_KEYS)


def test_a_time_that_cannot_be_read_is_never_now() -> None:
    with pytest.raises(TimeError):
        draft(content="x", timestamp="the day after")


def test_attachments_nested_without_end_are_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInputError, match="nested more than"):
        draft(attachments=[{"type": "a", "x": deep}])
    while deep:  # taken apart by hand: freeing it at once would recurse
        deep = deep[0]
