from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.errors import ImportFormatError
from backread.importers.json_items import JsonItems

VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))
ITEMS = st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), max_size=5)


@given(items=ITEMS, chunk=st.integers(1, 50), indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
def test_the_same_as_json_load_for_every_chunk(
    tmp_path_factory: pytest.TempPathFactory,
    items: list[dict[str, Any]],
    chunk: int,
    indent: int | None,
    ascii_only: bool,
) -> None:
    path = tmp_path_factory.mktemp("items") / "list.json"
    data = json.dumps(items, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    path.write_bytes(data)
    read = JsonItems(path, chunk=chunk)
    assert list(read) == items
    assert read.sha256 == hashlib.sha256(data).hexdigest()


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_bytes(b'\xef\xbb\xbf [ {"a": "\xc3\xab"} ] \n')
    assert list(JsonItems(path, chunk=1)) == [{"a": "ë"}]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "expected a JSON list, found the end of the file"),
        (b'{"a": 1}', "expected a JSON list, found '{'"),
        (b"[1]", "item 0 of the list is not an object"),
        (b"[{}, ]", "item 1 of the list is not an object"),
        (b"[{} {}]", "expected a comma, found '{'"),
        (b"[{}", "expected a comma, found the end of the file"),
        (b'[{"a": ', "item 0 can't be read"),
        (b"[{}] x", "expected the end of the file, found 'x'"),
        (b'[{"a": "\xff"}]', "is not UTF-8"),
        (b'[{"a": "\xc3', "is not UTF-8"),
        (b'[{"a": ' + b"9" * 5000 + b"}]", "item 0 can't be read"),
        (b'[{"a": ' + b"[" * 200_000, "item 0 is nested too deep"),
    ],
)
def test_what_is_wrong_is_named(data: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_bytes(data)
    with pytest.raises(ImportFormatError, match=says):
        list(JsonItems(path))
