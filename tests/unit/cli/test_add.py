from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

Run = Callable[..., Result]
Data = Callable[..., Any]

CONFIG = (
    'Config:\n\n\tretry:  3\n    token = "AbC-12__zZ=="\n```py\nif a:\n        b()\n```\n'
    "  trailing  \r\nline two\u2028end \ud800"
)


def wire(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def texts(data: Data, user: str = "ann") -> list[str]:
    return [message["content"] for message in data("export", "--user", user)]


def test_ver_02_every_unquoted_word_is_kept(run: Run, data: Data) -> None:
    result = run("add", "--user", "ann", "--session", "s", "blue", "kayak", "paddle")
    assert len(result.stdout.split()) == 1
    assert "stored 1 turn in session s" in result.stderr
    assert texts(data) == ["blue kayak paddle"]


@pytest.mark.parametrize("words", [(), ("-",)])
def test_ver_02_stdin_is_kept_as_it_comes(run: Run, data: Data, words: tuple[str, ...]) -> None:
    (turn_id,) = run("add", "--user", "ann", *words, stdin=wire(CONFIG)).stdout.split()
    assert texts(data) == [CONFIG]
    assert run("show", "--user", "ann", "--raw", turn_id).stdout_bytes == wire(CONFIG)
    assert data("show", "--user", "ann", turn_id)["text"] == CONFIG
    assert [hit["turn"]["text"] for hit in data("search", "--user", "ann", "retry token")["items"]] == [CONFIG]


def test_a_file_is_kept_as_it_is(run: Run, data: Data, tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    file.write_bytes(wire("\ufeff" + CONFIG))
    run("add", "--user", "ann", "--file", str(file))
    assert texts(data) == ["\ufeff" + CONFIG]


def test_bytes_that_are_not_utf_8_are_refused(run: Run, store: Path) -> None:
    assert "not UTF-8" in run("add", "--user", "ann", stdin=b"caf\xe9", code=2).stderr
    assert "not UTF-8" in run("add", "--user", "ann", "caf\udce9", code=2).stderr
    assert not store.exists()


def test_what_describes_a_turn_is_kept(run: Run, data: Data) -> None:
    options = ("--role", "participant", "--speaker", "Tom", "--time", "2025-03-27T16:10:00+01:00")
    more = ("--id", "m-1", "--caption", "a red door", "--session", "s")
    receipt = data("add", "--user", "ann", *options, *more, "look at this")
    assert receipt | {"turn_ids": None} == {
        "session_id": "s",
        "turn_ids": None,
        "stored": 1,
        "known": 0,
        "rejected": [],
    }
    turn = data("show", "--user", "ann", "m-1")
    assert turn["turn_id"] == receipt["turn_ids"][0]
    assert (turn["role"], turn["speaker"], turn["caption"]) == ("participant", "Tom", "a red door")
    assert turn["said_at"] == "2025-03-27T16:10:00+01:00"
    assert data("add", "--user", "ann", *options, *more, "look at this")["known"] == 1


def test_blank_text_is_refused(run: Run) -> None:
    assert "no text" in run("add", "--user", "ann", stdin="", code=2).stderr
    assert "no text" in run("add", "--user", "ann", "  ", code=2).stderr


def test_an_empty_user_is_refused(run: Run) -> None:
    assert "user_id" in run("add", "--user", "", "x", code=2).stderr


MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "Where did I put it?", "id": 7},
    {"role": "assistant", "content": "In the \ud800 drawer.\u2028"},
]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(MESSAGES),
        json.dumps({"messages": MESSAGES}),
        json.dumps(MESSAGES, indent=2),
        "".join(f"{json.dumps(message)}\n\n" for message in MESSAGES),
    ],
    ids=["array", "object", "indented", "lines"],
)
@pytest.mark.parametrize("way", ["file", "stdin"])
def test_messages(run: Run, data: Data, tmp_path: Path, text: str, way: str) -> None:
    file = tmp_path / "chat.json"
    file.write_text(text, encoding="utf-8")
    source = str(file) if way == "file" else "-"
    receipt = data("add", "--user", "ann", "--messages", source, stdin=text if way == "stdin" else None)
    assert (receipt["stored"], len(receipt["turn_ids"])) == (2, 2)
    assert texts(data) == [message["content"] for message in MESSAGES]


def test_one_message_is_messages_too(run: Run, data: Data) -> None:
    run("add", "--user", "ann", "--messages", "-", stdin=json.dumps(MESSAGES[0]))
    assert texts(data) == ["Where did I put it?"]


def test_rejected_messages_are_listed_and_the_others_stored(run: Run, data: Data) -> None:
    given = json.dumps([{"role": "user", "content": " "}, *MESSAGES])
    result = run("add", "--user", "ann", "--messages", "-", stdin=given)
    assert "stored 2 turns" in result.stderr
    assert "1 rejected" in result.stderr
    assert "rejected: message 1: the user message has no text" in result.stderr
    assert len(texts(data)) == 2


def test_when_all_are_rejected_it_is_an_error(run: Run, store: Path) -> None:
    run("add", "--user", "ann", "--messages", "-", stdin='[{"role": "user", "content": ""}]', code=2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no messages"),
        ("[]", "no messages"),
        ("12", "no messages"),
        ('{"a": 1}\nnope', "line 2"),
        ("[1]", "object"),
    ],
)
def test_what_is_no_list_of_messages(run: Run, text: str, told: str) -> None:
    assert told in run("add", "--user", "ann", "--messages", "-", stdin=text, code=2).stderr


@pytest.mark.parametrize(
    "args", [("--messages", "-", "word"), ("--messages", "-", "--role", "user"), ("--file", "f", "word")]
)
def test_sources_exclude_each_other(run: Run, args: tuple[str, ...]) -> None:
    run("add", "--user", "ann", *args, code=2)


def test_a_file_that_is_not_there(run: Run) -> None:
    assert "nowhere.txt" in run("add", "--user", "ann", "--file", "nowhere.txt", code=2).stderr
