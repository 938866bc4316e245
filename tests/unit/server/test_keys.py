"""Keys: kept as hashes, each bound to one user or to everything."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from backread.errors import InvalidInputError
from backread.server.keys import ADMIN, Keys, Principal, hash_key, parse_keys, read_keys

# printf %s secret | sha256sum
SECRET = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"


def test_hashes() -> None:
    assert hash_key("secret") == SECRET
    assert hash_key("schlüssel") == hashlib.sha256("schlüssel".encode()).hexdigest()


def test_owners() -> None:
    keys = Keys({SECRET: Principal("ann"), hash_key("root"): ADMIN})
    assert keys.owner("secret") == Principal("ann")
    assert keys.owner("root") == ADMIN
    assert [keys.owner(wrong) for wrong in ("Secret", "secret ", "", SECRET, "\ud800")] == [None] * 5
    assert len(keys) == 2


def test_who_may_act_for_whom() -> None:
    ann = Principal("ann")
    assert [ann.may_act_for(user) for user in ("ann", "Ann", "ann ", "bo", "")] == [True, False, False, False, False]
    assert ADMIN.may_act_for("anyone")
    assert (ADMIN.is_admin, ann.is_admin, Principal("").is_admin) == (True, False, False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "keys.toml",
            f'[[keys]]\nsha256 = "{SECRET.upper()}"\nuser = "ann"\n[[keys]]\nsha256 = "{"0" * 64}"\nadmin = true',
        ),
        (
            "keys.json",
            f'{{"keys": [{{"sha256": "{SECRET}", "user": "ann"}}, {{"sha256": "{"0" * 64}", "admin": true}}]}}',
        ),
    ],
)
def test_files(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    keys = read_keys(tmp_path / name)
    assert keys.owner("secret") == Principal("ann")
    assert len(keys) == 2


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"none\.toml: No such file"):
        read_keys(tmp_path / "none.toml")
    for name, content in (("a.toml", b"keys = ["), ("a.json", b"{"), ("b.toml", b"\xff")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInputError, match=name):
            read_keys(tmp_path / name)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "keys: Field required"),
        ({"keys": []}, "keys: List should have at least 1 item"),
        ([], "the top: Input should be a valid dictionary"),
        ({"keys": [{"sha256": SECRET}]}, "either a user or admin"),
        ({"keys": [{"sha256": SECRET, "user": "ann", "admin": True}]}, "either a user or admin"),
        ({"keys": [{"sha256": SECRET, "user": ""}]}, "user: String should have at least 1 character"),
        ({"keys": [{"sha256": "secret", "user": "ann"}]}, "sha256: String should match pattern"),
        ({"keys": [{"sha256": SECRET, "usr": "ann"}]}, "usr: Extra inputs"),
        ({"keys": [{"sha256": SECRET, "user": "a"}, {"sha256": SECRET.upper(), "user": "b"}]}, "two owners"),
        ({"keys": [{"sha256": SECRET, "user": "a"}, {"sha256": SECRET, "admin": True}]}, "two owners"),
    ],
)
def test_what_is_no_list_of_keys(data: object, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as raised:
        parse_keys(data, "keys.toml")
    assert str(raised.value).startswith("keys.toml: ")
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_one_key_may_be_listed_twice() -> None:
    entry = {"sha256": SECRET, "user": "ann"}
    assert len(parse_keys({"keys": [entry, entry]}, "keys.toml")) == 1
