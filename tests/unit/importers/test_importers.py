"""The registry and what the importers share."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from backread import importers
from backread.errors import ImportFormatError, InvalidInputError, NotFoundError
from backread.importers import IMPORTERS, Importer, importer
from backread.importers.base import Tally, answer_text, free_id, read_time


def test_every_importer_has_a_name() -> None:
    assert sorted(IMPORTERS) == ["jsonl", "locomo", "longmemeval"]
    for name in IMPORTERS:
        assert isinstance(importer(name), Importer)


def test_an_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(NotFoundError, match="there is no importer 'csv'") as caught:
        importer("csv")
    assert "importers: jsonl, locomo, longmemeval" in (caught.value.hint or "")


def test_the_exported_names_are_sorted_and_exist() -> None:
    assert importers.__all__ == sorted(importers.__all__, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(importers, name) for name in importers.__all__)


@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(ImportFormatError, match="gone can't be read: No such file"):
        importer(name)(tmp_path / "gone", user_id=None)


@pytest.mark.parametrize("name", ["locomo", "longmemeval"])
def test_formats_that_name_their_users_refuse_one(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="user_id can't be given"):
        importer(name)(tmp_path / "any", user_id="ann")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("Riga ", "Riga "),
        (3, "3"),
        (2022, "2022"),
        (3.0, "3"),
        (0.5, "0.5"),
        (True, "yes"),
        (False, "no"),
        (["Riga", 3], "Riga, 3"),
        (None, None),
        ([], None),
        (["Riga", None], None),
        ({"a": 1}, None),
        (float("nan"), None),
        (float("inf"), None),
    ],
)
def test_evl_04_answers_become_text(answer: Any, text: str | None) -> None:
    assert answer_text(answer) == text


def test_taken_ids_get_the_first_free_number() -> None:
    taken: set[str] = set()
    assert [free_id(name, taken) for name in ("a", "a#2", "a", "a")] == ["a", "a#2", "a#3", "a#4"]


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (None, ["date_missing"]),
        ("", ["date_missing"]),
        ("soon", ["date_unreadable"]),
        ({}, ["date_unreadable"]),
        ("2023/05/22 (Tue) 08:00", ["date_odd"]),
        ("2023/05/22 (Mon) 08:00", []),
    ],
)
def test_dates_that_are_odd_are_noted(value: object, kinds: list[str]) -> None:
    tally = Tally()
    said = read_time(value, UTC, "here", tally)
    assert (said is None) == (kinds not in ([], ["date_odd"]))
    assert [(item.where, item.kind) for item in tally.irregularities] == [("here", kind) for kind in kinds]
