"""What every call checks of its arguments, before it does anything."""

from __future__ import annotations

from typing import Final

from backread.errors import InvalidInputError

__all__ = ["NOT_GIVEN", "NotGiven", "check_part", "named"]


class NotGiven:
    """Stands for an argument that was left out, so that None can be refused where it would mean "everything"."""

    def __repr__(self) -> str:
        return "not given"


NOT_GIVEN: Final = NotGiven()


def named(value: object, what: str) -> str:
    """An id, which must be text and not blank.

    Raises:
        InvalidInputError: it isn't.
    """
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"{what} must be a non-empty text, not {value!r}")
    return value


def check_part(given: object, kind: type, what: str) -> None:
    """Refuses what is neither a name nor a part, which would otherwise be taken for "not given".

    Raises:
        InvalidInputError: it is neither.
    """
    if given is not None and not isinstance(given, str | kind):
        raise InvalidInputError(
            f"{what} is a name or an instance of {kind.__name__}, not {type(given).__name__}",
            hint=f"`backread.models.base.{kind.__name__}` says what it must have",
        )
