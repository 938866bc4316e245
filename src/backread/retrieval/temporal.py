"""When a question is about: units said around a date it names, and units that tell a time when it asks for one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from backread.store.layout import UNKNOWN_TIME
from backread.text.cues import TELLS_TIME, NamedDate

__all__ = ["date_match", "tells_time"]

_DAY_US = 86_400_000_000
_MONTH_SHARE = 0.3
_DAYS_AFTER = 7


def date_match(said_us: NDArray[np.int64], date: NamedDate) -> NDArray[np.float32]:
    """How well units fit a date, float32 (n,) in [0, 1]; 0 where the time is unknown.

    A month, with its year if one is named, fits fully. With a day named, the month alone gives 0.3, and being said on
    that day or in the seven days after it gives the rest: people tell what happened soon after it did.
    """
    known = said_us != UNKNOWN_TIME
    day = np.where(known, said_us, 0).astype("datetime64[us]").astype("datetime64[D]")
    months = day.astype("datetime64[M]")
    month = months.astype(np.int64) % 12 + 1
    year = months.astype("datetime64[Y]").astype(np.int64) + 1970
    of_month = (day - months).astype(np.int64) + 1
    fits = known & (month == date.month)
    if date.year is not None:
        fits &= year == date.year
    if date.day is None:
        return np.where(fits, np.float32(1), np.float32(0))
    after = of_month - date.day
    near = fits & (after >= 0) & (after <= _DAYS_AFTER)
    return np.where(near, np.float32(1), np.where(fits, np.float32(_MONTH_SHARE), np.float32(0)))


def tells_time(cues: NDArray[np.int8]) -> NDArray[np.float32]:
    """1 for units that have an expression of time, else 0; float32 (n,)."""
    return np.where((cues & TELLS_TIME) != 0, np.float32(1), np.float32(0))
