"""Evidence coverage: how much of the gold turns is in what the answerer was shown, in three ways.

    coverage:verbatim = mean over gold turns of (code points of the turn shown word for word / its code points)
    coverage:claimed  = gold turns named as a source of a line / gold turns
    coverage:words    = mean over gold turns of (its content words found in the rendered evidence / its content words)

Ours, after the "oracle reference" of the LightMem reproduction (arXiv 2607.29104), where an entry is relevant when it
was made from a gold turn; and after ROUGE-1 recall (Lin 2004) for the words. Range 0 to 1, higher is better.

The traps: only coverage:verbatim and coverage:words compare designs. A claim costs nothing: a summary that names twenty
turns "covers" all of them and may say nothing of one. coverage:claimed says what a design rests on, and is for looking
at one design. coverage:verbatim is 0 for a design that rewrites everything, which is a fact about it and not a fault;
coverage:words is the only one that sees both, and gives credit for words that happen to be there.

Lines are those of records, `records.ShownLine`, with external turn ids; offsets are code points of the turn's text, its
caption not counted.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from backread.bench.records import ShownLine
from backread.errors import InvalidInputError
from backread.text.analysis import tokens

__all__ = ["claimed_coverage", "claimed_session_coverage", "verbatim_coverage", "word_coverage"]


_NUMBER = re.compile(r"^\[\d+\] ")


def verbatim_coverage(shown: Sequence[ShownLine], gold: Mapping[str, str]) -> float | None:
    """coverage:verbatim; None when `gold` is empty. Compares designs.

    A whole line counts 1, excerpts the union of their spans. Lines of a kind other than "verbatim" show none of the
    turn's own words. Of a turn without text (an image) any verbatim line shows all there is.

    Args:
        shown: lines of evidence.
        gold: external id to text, of every gold turn.

    Raises:
        InvalidInputError: a line's span lies outside its turn.

    Example:
        Of "0123456789" the spans 0-4 and 2-5 show 5 of 10, the other gold turn isn't shown: (0.5 + 0) / 2.

        >>> lines = [ShownLine(kind="verbatim", rank=0, sources=(("a", 0, 4),)),
        ...          ShownLine(kind="verbatim", rank=1, sources=(("a", 2, 5),))]
        >>> verbatim_coverage(lines, {"a": "0123456789", "b": "never shown"})
        0.25
    """
    spans: dict[str, list[tuple[int, int]]] = {turn_id: [] for turn_id in gold}
    for line in shown:
        if line.kind == "verbatim":
            for turn_id, start, end in line.sources:
                if turn_id in gold:
                    spans[turn_id].append(_span(turn_id, start, end, len(gold[turn_id])))
    return _mean(_share(spans[turn_id], len(text)) for turn_id, text in gold.items())


def claimed_coverage(
    shown: Sequence[ShownLine],
    gold: Collection[str],
    session_of: Mapping[str, str],
    session_size: Mapping[str, int],
) -> float | None:
    """coverage:claimed; None when `gold` is empty. Doesn't compare designs: naming a source costs nothing.

    A line that isn't verbatim and names every turn of a session says only which session it is about: those turns don't
    count here, only in `claimed_session_coverage`. A session of one turn is as precise as its turn and does count.

    Args:
        shown: lines of evidence.
        gold: external ids of the gold turns.
        session_of: the session of each turn of the history.
        session_size: how many turns each session has.

    Raises:
        InvalidInputError: a source is in no session.

    Example:
        A summary of the whole session s1 (turns a and b) and of turn c of s2: of the gold a and c only c counts.

        >>> line = ShownLine(kind="summary", rank=0, sources=(("a", 0, None), ("b", 0, None), ("c", 0, None)))
        >>> session_of = {"a": "s1", "b": "s1", "c": "s2", "d": "s2"}
        >>> claimed_coverage([line], ["a", "c"], session_of, {"s1": 2, "s2": 2})
        0.5
    """
    claimed: set[str] = set()
    for line in shown:
        named = {turn_id: _session(turn_id, session_of) for turn_id, _, _ in line.sources}
        turns = Counter(named.values())
        whole = {session for session, count in turns.items() if count > 1 and count >= session_size.get(session, 0)}
        vague = whole if line.kind != "verbatim" else frozenset()
        claimed.update(turn_id for turn_id, session in named.items() if session not in vague)
    return _mean(float(turn_id in claimed) for turn_id in dict.fromkeys(gold))


def claimed_session_coverage(
    shown: Sequence[ShownLine], gold_sessions: Collection[str], session_of: Mapping[str, str]
) -> float | None:
    """session:coverage:claimed, the share of gold sessions with a turn that a line names; None without gold sessions.

    Doesn't compare designs: naming a source costs nothing.

    Raises:
        InvalidInputError: a source is in no session.

    Example:
        >>> line = ShownLine(kind="rewrite", rank=0, sources=(("a", 0, 5),))
        >>> claimed_session_coverage([line], ["s1", "s2"], {"a": "s1", "b": "s2"})
        0.5
    """
    claimed = {_session(turn_id, session_of) for line in shown for turn_id, _, _ in line.sources}
    return _mean(float(session in claimed) for session in dict.fromkeys(gold_sessions))


def word_coverage(rendered: str, gold: Mapping[str, str]) -> float | None:
    """coverage:words; None when no gold turn has a content word. Compares designs.

    Words are the distinct stems that search uses (`text.analysis`), without its stop words; of scripts without spaces
    they are single characters and pairs. The block is taken whole, headings included, as the answerer reads the dates
    too, but without the numbers of its lines, which say nothing. Turns without content words ("It was so!") are left
    out of the mean.

    Args:
        rendered: the block as shown.
        gold: external id to text, of every gold turn; with the caption, where that counts as said.

    Example:
        "adopted", "grey" and "cat" are the content words; a rewrite keeps two of them: 2/3.

        >>> round(word_coverage("[1] Mina has adopted a cat.", {"a": "I adopted a grey cat"}), 4)
        0.6667
    """
    there = frozenset().union(*(_content(_NUMBER.sub("", line)) for line in rendered.split("\n")))
    wanted = [_content(text) for text in gold.values()]
    return _mean(len(words & there) / len(words) for words in wanted if words)


def _span(turn_id: str, start: int, end: int | None, size: int) -> tuple[int, int]:
    stop = size if end is None else end
    if not 0 <= start <= stop <= size:
        raise InvalidInputError(f"a line shows {start} to {stop} of turn {turn_id!r}, which has {size} code points")
    return start, stop


def _share(spans: Sequence[tuple[int, int]], size: int) -> float:
    if not size:
        return float(bool(spans))
    covered = reached = 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return covered / size


def _session(turn_id: str, session_of: Mapping[str, str]) -> str:
    if turn_id not in session_of:
        raise InvalidInputError(f"turn {turn_id!r} has no session", hint="give the session of every turn")
    return session_of[turn_id]


@lru_cache(maxsize=32768)
def _content(text: str) -> frozenset[str]:
    """Content words; remembered, as the same turns are shown, and are gold, in every cell of an experiment."""
    return frozenset(token.stem for token in tokens(text) if not token.stop)


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return math.fsum(known) / len(known) if known else None
