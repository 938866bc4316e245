"""Windows: the messages around what was found, cut into stretches that a model can read at once.

Each hit is widened to the messages near it, spans that overlap are merged, and a long span is cut into windows that
share a message. LazyMem, query-time stage 2 (radius 2, at most 8 messages, stride 7).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from backread.arrays import NDArray, np
from backread.errors import InvalidInputError

__all__ = ["LONGEST", "RADIUS", "STRIDE", "history_windows", "windows"]

RADIUS = 2
LONGEST = 8
STRIDE = 7


def windows(
    hits: Iterable[int], size: int, *, radius: int = RADIUS, longest: int = LONGEST, stride: int = STRIDE
) -> list[range]:
    """Ranges of the places of one session, in order, that hold every hit and the places within `radius` of it.

    Spans that share a place become one; spans side by side don't. A span of more than `longest` places is cut every
    `stride` places until a window reaches its end, so 9 places give 8 and 2, and 15 give 8 and 8. With the defaults a
    window has at least 2 places unless the session has only one, and two windows share at most one place.

    Args:
        hits: places from 0, in any order, each any number of times.
        size: how many places the session has.
        radius: places before and after a hit that come with it.
        longest: places of a window at most.
        stride: places from one window of a span to the next.

    Raises:
        InvalidInputError: a hit outside the session, a radius below 0, `longest` below 1, or a stride that is below 1
            or leaves places out.
    """
    if radius < 0 or longest < 1 or not 1 <= stride <= longest:
        raise InvalidInputError(f"no windows with radius {radius}, {longest} places and stride {stride}")
    spans: list[range] = []
    for hit in sorted(set(hits)):
        if not 0 <= hit < size:
            raise InvalidInputError(f"place {hit} is outside a session of {size}")
        start, stop = max(0, hit - radius), min(size, hit + radius + 1)
        if spans and start < spans[-1].stop:
            spans[-1] = range(spans[-1].start, stop)
        else:
            spans.append(range(start, stop))
    return [window for span in spans for window in _cut(span, longest, stride)]


def _cut(span: range, longest: int, stride: int) -> Iterator[range]:
    start = span.start
    while span.stop - start > longest:
        yield range(start, start + longest)
        start += stride
    yield range(start, span.stop)


def history_windows(
    sessions: NDArray[np.int32],
    hits: Iterable[int],
    *,
    radius: int = RADIUS,
    longest: int = LONGEST,
    stride: int = STRIDE,
) -> list[range]:
    """Windows over a whole history, as ranges of its units in order; none crosses from a session into another.

    Args:
        sessions: int32 (n,), the session number of each unit, ascending, as `Corpus.session` has them.
        hits: units.
        radius: see `windows`, as for the others.
        longest: see there.
        stride: see there.

    Raises:
        InvalidInputError: see `windows`.
    """
    found: dict[int, list[int]] = {}
    for hit in sorted(set(hits)):
        if not 0 <= hit < len(sessions):
            raise InvalidInputError(f"unit {hit} is outside a history of {len(sessions)}")
        found.setdefault(int(sessions[hit]), []).append(hit)
    shaped: list[range] = []
    for session, units in found.items():
        first, end = np.searchsorted(sessions, [session, session + 1]).tolist()
        local = windows((unit - first for unit in units), end - first, radius=radius, longest=longest, stride=stride)
        shaped += [range(first + window.start, first + window.stop) for window in local]
    return shaped
