"""When a question is about: units said around a date it names, and units that tell a time when it asks for one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from backread.arrays import NDArray, np
from backread.store.corpus import Corpus
from backread.store.layout import UNKNOWN_TIME
from backread.text.cues import TELLS_TIME, NamedDate

__all__ = ["date_match", "said_around", "tells_time"]

_MONTH_SHARE = 0.3
_DAYS_AFTER = 7


def date_match(said_us: NDArray[np.int64], dates: Iterable[NamedDate]) -> NDArray[np.float32]:
    """How well units fit the best of some dates, float32 (n,) in [0, 1]; 0 where the time is unknown.

    Days are those of the clock that `said_us` goes by; `said_around` has units by the clock where they were said.

    A month, with its year if one is named, fits fully. With a day named, the month alone gives 0.3, and being said on
    that day or in the seven days after it, also past the month's end, fits fully: people tell what happened soon after
    it did. A date that doesn't exist has no day.
    """
    known = said_us != UNKNOWN_TIME
    day = np.where(known, said_us, 0).astype("datetime64[us]").astype("datetime64[D]")
    months = day.astype("datetime64[M]")
    month = months.astype(np.int64) % 12 + 1
    year = months.astype("datetime64[Y]").astype(np.int64) + 1970
    best = np.zeros(len(said_us), dtype=np.float32)
    for date in dates:
        fits = known & (month == date.month) & (date.year is None or year == date.year)
        share = np.where(fits, np.float32(1) if date.day is None else np.float32(_MONTH_SHARE), np.float32(0))
        if date.day is not None:
            named = _named_day(year, date)
            after = (day - named).astype(np.int64)  # NaT gives a number far below 0
            share = np.where(known & (after >= 0) & (after <= _DAYS_AFTER), np.float32(1), share)
        best = np.maximum(best, share)
    return best


def said_around(corpus: Corpus, dates: Sequence[NamedDate]) -> NDArray[np.float32]:
    """`date_match` of a corpus's units with their days as their speakers had them.

    A turn at 23:30 -05:00 belongs to that day, not to the next one, which it is in UTC. Where the source gave no
    offset, the day is that of the history's zone. Offsets are read of those units only that they make a difference for.
    """
    said_us = corpus.said_us
    if not dates:
        return np.zeros(len(said_us), dtype=np.float32)
    shares = [date_match(_later(said_us, hours), dates) for hours in (0, -24, -12, 12, 24)]
    unclear = np.flatnonzero(np.any([share != shares[0] for share in shares], axis=0))
    shares[0][unclear] = date_match(corpus.local_us(unclear), dates)
    return shares[0]


def _later(said_us: NDArray[np.int64], hours: int) -> NDArray[np.int64]:
    return np.where(said_us == UNKNOWN_TIME, said_us, said_us + hours * 3_600_000_000)


def _named_day(year: NDArray[np.int64], date: NamedDate) -> NDArray[np.datetime64]:
    """The named day, in each unit's year where the question names none; NaT where it doesn't exist."""
    years = year if date.year is None else np.full_like(year, date.year)
    months = (years - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (date.month - 1)
    days = months.astype("datetime64[D]") + ((date.day or 1) - 1)
    return np.where(days.astype("datetime64[M]") == months, days, np.datetime64("NaT"))


def tells_time(cues: NDArray[np.int8]) -> NDArray[np.float32]:
    """1 for units that have an expression of time, else 0; float32 (n,)."""
    return np.where((cues & TELLS_TIME) != 0, np.float32(1), np.float32(0))
