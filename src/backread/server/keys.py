"""Who may do what: bearer keys, each bound to one user or to everything. Only hashes of keys are kept anywhere."""

from __future__ import annotations

import hashlib
import hmac
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from backread.errors import InvalidInputError

__all__ = ["ADMIN", "Keys", "Principal", "hash_key", "parse_keys", "read_keys"]


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever sent a request: one user, or with `user_id` None whoever runs the server."""

    user_id: str | None

    @property
    def is_admin(self) -> bool:
        """True when every user and the server itself are open to it."""
        return self.user_id is None

    def may_act_for(self, user_id: str) -> bool:
        """True when the history of `user_id` is open to it; whether there is such a user makes no difference."""
        return self.user_id is None or self.user_id == user_id


ADMIN: Final = Principal(None)


class Keys:
    """Keys by their hash.

    Args:
        owners: SHA-256 of a key, in hexadecimal -> whose key it is.
    """

    def __init__(self, owners: Mapping[str, Principal]) -> None:
        self._owners = [(bytes.fromhex(digest), owner) for digest, owner in owners.items()]

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, key: str) -> Principal | None:
        """Whose key this is, None when it is nobody's; takes as long for a wrong key as for a right one."""
        given = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        found = None
        for digest, owner in self._owners:
            if hmac.compare_digest(digest, given):
                found = owner
        return found


def hash_key(key: str) -> str:
    """SHA-256 of a key in hexadecimal, as a file of keys holds it."""
    return hashlib.sha256(key.encode()).hexdigest()


class _Entry(BaseModel):
    """One key of a file: whose it is, and its hash."""

    model_config = ConfigDict(extra="forbid")

    sha256: Annotated[str, Field(pattern="^[0-9a-fA-F]{64}$")]
    user: Annotated[str, Field(min_length=1)] | None = None
    admin: bool = False

    @model_validator(mode="after")
    def _one_owner(self) -> _Entry:
        if self.admin == (self.user is not None):
            raise ValueError("a key has either a user or admin = true")
        return self


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    keys: Annotated[list[_Entry], Field(min_length=1)]


def read_keys(path: Path) -> Keys:
    """The keys of a TOML or, by its name, JSON file; see `parse_keys`.

    Raises:
        InvalidInputError: the file can't be read or used.
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror}", hint="--keys names a TOML or JSON file") from error
    except ValueError as error:  # of either format, or not UTF-8
        raise InvalidInputError(f"{path}: {error}", hint="mend the file of keys") from error
    return parse_keys(data, str(path))


def parse_keys(data: Any, where: str) -> Keys:  # noqa: ANN401 -- whatever was in the file
    """Keys from {"keys": [{"sha256": …, "user": …}, {"sha256": …, "admin": true}]}.

    Args:
        data: as read from TOML or JSON.
        where: where it is from, for messages. Nothing of the data itself is repeated in one.

    Raises:
        InvalidInputError: anything else, no key at all, or one key with two owners.
    """
    try:
        entries = _File.model_validate(data).keys
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the top"
        raise InvalidInputError(
            f"{where}: {place}: {str(first['msg']).removeprefix('Value error, ')}",
            hint='a key is [[keys]] with sha256 = "…" and either user = "…" or admin = true',
        ) from None  # the cause would show what is in the file
    owners: dict[str, Principal] = {}
    for entry in entries:
        if owners.setdefault(entry.sha256.lower(), Principal(entry.user)).user_id != entry.user:
            raise InvalidInputError(f"{where}: one key has two owners", hint="give each owner a key of their own")
    return Keys(owners)
