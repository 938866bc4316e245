"""Sessions that are never held all at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from backread.importers.base import ImportedSession

__all__ = ["LazySessions"]


class LazySessions(Collection[ImportedSession]):
    """Sessions that are made whenever they are iterated.

    Args:
        make: gives those of some users, or all for None; the same ones at every call.
        count: how many there are in all.
    """

    def __init__(self, make: Callable[[Collection[str] | None], Iterator[ImportedSession]], count: int) -> None:
        self._make, self._count = make, count

    def __len__(self) -> int:
        return self._count

    def __contains__(self, session: object) -> bool:
        return any(session == own for own in self)

    def __iter__(self) -> Iterator[ImportedSession]:
        return self._make(None)

    def of(self, users: Collection[str]) -> Iterator[ImportedSession]:
        """The sessions of these users, in the same order; those of others are not made."""
        return self._make(users)
