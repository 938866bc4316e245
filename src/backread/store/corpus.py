"""A corpus to rank: units of one user with their own statistics, scored by text and by vector.

Rounds and sessions need no index of their own: they are groups of turns. A group's term frequencies and length are the
sums over its turns, its vector score is that of its best passage.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import NamedTuple, TypeAlias

from backread.arrays import NDArray, np
from backread.store.base import TURNS, TurnStore
from backread.store.layout import Layout
from backread.text.bm25 import idf, term_scores
from backread.types import Degradation, Entry, Turn

__all__ = ["Corpus", "VectorScores"]

Scores: TypeAlias = "NDArray[np.float32]"

_LEAST_COMPARED = 800  # passages of a large corpus; with 200 the hybrid's ten best were .956 of those with all, not .99
_SELF_CONTAINED = 20  # terms from which a unit needs its neighbours less


class VectorScores(NamedTuple):
    """Cosines float32 (size,), NaN for units not compared; how many have no vector; how comparing fell short."""

    scores: Scores
    missing: int
    notes: tuple[Degradation, ...] = ()


class Corpus:
    """Units in history order: (session start, position), so that a stable sort by score has the right ties.

    Attributes:
        user_id: whose units they are.
        unit: "turn", "user_turn", "round", "session" or "entry".
        size: how many there are.
    """

    def __init__(
        self, store: TurnStore, user_id: str, name: str, unit: str, layout: Layout, rows: NDArray[np.int64]
    ) -> None:
        self._store = store
        self._name = name
        self._layout = layout
        self._rows = rows
        self.user_id = user_id
        self.unit = unit
        if unit in ("round", "session"):
            groups = layout.rounds if unit == "round" else layout.session
            _, self._group = np.unique(groups[rows], return_inverse=True)
            self.size = int(self._group[-1]) + 1 if len(rows) else 0
        else:
            self._group = np.arange(len(rows))
            self.size = len(rows)

    @property
    def _grouped(self) -> bool:
        return self.unit in ("round", "session")

    @cached_property
    def _unit_of_row(self) -> NDArray[np.int64]:
        """int64 (rows of the layout + 1,): the unit a row belongs to, -1 out of scope, and -1 for row -1."""
        place = np.full(self._layout.size + 1, -1, dtype=np.int64)
        place[self._rows] = self._group
        return place

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """int64 (size,): row in the layout of each unit's first turn."""
        if not self._grouped:
            return self._rows
        return self._rows[np.searchsorted(self._group, np.arange(self.size))]

    @cached_property
    def session(self) -> NDArray[np.int32]:
        """int32 (size,): number of each unit's session, in history order."""
        return self._layout.session[self.first]

    @cached_property
    def speaker(self) -> NDArray[np.int32]:
        """int32 (size,): index into `speakers` of who speaks first in each unit."""
        return self._layout.speaker[self.first]

    @property
    def speakers(self) -> tuple[str, ...]:
        """Names of all speakers of the user's history; roles stand in for missing names."""
        return self._layout.speakers

    @cached_property
    def said_us(self) -> NDArray[np.int64]:
        """int64 (size,): when each unit began, microseconds since 1970, `UNKNOWN_TIME` when unknown."""
        return self._layout.said_us[self.first]

    def local_us(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 (units,): as `said_us`, but by the clock where it was said; none of `units` may be of unknown time."""
        minutes = self._store.offsets(self.user_id, self._name, self._layout.docs[self.first[units]])
        local: NDArray[np.int64] = self.said_us[units] + minutes * 60_000_000
        return local

    @cached_property
    def length(self) -> Scores:
        """float32 (size,): index terms of each unit."""
        return np.bincount(self._group, self._layout.length[self._rows], minlength=self.size).astype(np.float32)

    @property
    def history_size(self) -> int:
        """Turns of the whole history, in scope or not."""
        return self._layout.size

    @cached_property
    def cues(self) -> NDArray[np.int8]:
        """int8 (size,): bits of `text.cues.turn_cues` of each unit's first turn."""
        return self._layout.cues[self.first]

    @cached_property
    def _needs_context(self) -> Scores:
        """float32 (size,): how much each unit takes from its neighbours; a long one says what it is about by itself."""
        return np.minimum(np.float32(1), np.float32(_SELF_CONTAINED) / np.maximum(self.length, np.float32(1)))

    def spread(self, values: Scores, kernel: Sequence[float]) -> Scores:
        """Each unit's value plus shares of those near it in its session, float32 (size,).

        `kernel[i]` is the share of the units i+1 before and after it; units of more than 20 terms take less of them,
        in inverse proportion to their length.
        """
        near = np.zeros(self.size, dtype=np.float32)
        for distance, share in enumerate(kernel, 1):
            together = self.session[distance:] == self.session[:-distance]
            near[distance:] += share * values[:-distance] * together
            near[:-distance] += share * values[distance:] * together
        spread: Scores = values + self._needs_context * near
        return spread

    def text_scores(
        self,
        weights: Mapping[str, float],
        *,
        k1: float = 1.2,
        b: float = 0.75,
        kernel: Sequence[float] = (),
    ) -> Scores:
        """BM25 of every unit for weighted terms, float32 (size,): 0 where no term occurs, positive where one does.

        With a `kernel`, term frequencies and lengths are spread over the session (`spread`) before they saturate:
        counts propagated by proximity as in Lv & Zhai, "Positional Language Models", SIGIR 2009; differs from the
        paper in that positions are turns and the kernel is a short list. Document frequencies are not spread.
        Cost grows with the postings of the terms; `top_text` does less work when only the best are needed.
        """
        scores = np.zeros(self.size, dtype=np.float32)
        if not self.size:
            return scores
        length = self.spread(self.length, kernel) if kernel else self.length
        average = max(float(length.mean()), 1.0)
        terms = list(weights)
        found = [
            (-weights[term] * idf(len(units), self.size), term, units, tf)
            for term, (units, tf) in zip(terms, self._term_frequencies(terms), strict=True)
            if len(units)
        ]
        # Added up in the order of `top_text`, so that both give the same bits.
        for loss, _, units, tf in sorted(found, key=operator.itemgetter(0, 1)):
            if kernel:
                counts = np.zeros(self.size, dtype=np.float32)
                counts[units] = tf
                counts = self.spread(counts, kernel)
                units = np.flatnonzero(counts)
                tf = counts[units]
            scores[units] += -loss * term_scores(tf, length[units], average, k1=k1, b=b)
        return scores

    def _term_frequencies(self, terms: Sequence[str]) -> Iterable[tuple[NDArray[np.int64], Scores]]:
        """(units, tf) of each term within this corpus; units ascending and distinct."""
        for docs, tf in self._store.postings(self.user_id, self._name, terms):
            units = self._unit_of_row[self._layout.rows(docs)]
            if len(units) and units.min() < 0:
                units, tf = units[units >= 0], tf[units >= 0]
            if self._grouped:
                summed = np.bincount(units, tf, minlength=self.size)
                units = np.flatnonzero(summed)
                tf = summed[units].astype(np.float32)
            yield units, tf

    def top_text(self, weights: Mapping[str, float], top_k: int, *, k1: float = 1.2, b: float = 0.75) -> Scores:
        """As `text_scores`, exact for the `top_k` best units; others may score lower than they would, or 0.

        MaxScore (Turtle & Flood 1995): terms are read from the one that can add most; once the rest together can't
        lift an unseen unit among the best, they are only looked up for the units that still can get there. Reads less
        than `text_scores` for a large corpus and common words. For corpora that are filtered or grouped it is the same
        as `text_scores`, because a term's document frequency isn't known there without its postings.
        """
        if self._name != TURNS or self.size != self._layout.size or self.unit != "turn" or not self.size:
            return self.text_scores(weights, k1=k1, b=b)
        terms = list(weights)
        # Turns that came since this corpus was made are counted in: at most one for each that is here.
        counts = self._store.document_frequencies(self.user_id, self._name, terms)
        frequencies = [min(count, self.size) for count in counts]
        gains = {term: weights[term] * idf(df, self.size) for term, df in zip(terms, frequencies, strict=True) if df}
        average = max(float(self.length.mean()), 1.0)
        left = sorted(gains, key=lambda term: (-gains[term], term))
        scores = np.zeros(self.size, dtype=np.float32)
        while left:
            rest = (k1 + 1) * sum(gains[term] for term in left)
            threshold = np.partition(scores, -top_k)[-top_k] if self.size > top_k else np.float32(0)
            if threshold > rest:
                break
            term = left.pop(0)
            (units, tf), *_ = self._term_frequencies([term])
            scores[units] += gains[term] * term_scores(tf, self.length[units], average, k1=k1, b=b)
        if left:
            units = np.flatnonzero(scores + rest >= threshold)
            for term in left:
                tf = self._store.lookup(self.user_id, self._name, term, self._layout.docs[self._rows[units]])
                scores[units] += gains[term] * term_scores(tf, self.length[units], average, k1=k1, b=b)
        return scores

    def document_frequencies(self, terms: Sequence[str]) -> list[int]:
        """In how many units of the user's whole corpus, in scope or not, each term occurs; turns, not rounds."""
        return self._store.document_frequencies(self.user_id, self._name, terms)

    def vector_scores(
        self,
        fingerprint: str,
        query: NDArray[np.float32],
        top_k: int | None = None,
        also: Callable[[], NDArray[np.int64]] | None = None,
    ) -> VectorScores:
        """Cosine of each unit's best passage.

        Passage scores are max-pooled (MaxP: Dai & Callan, SIGIR 2019, section 3.2).

        Args:
            fingerprint: whose vectors.
            query: a unit vector.
            top_k: how many of the best the caller needs; of a large corpus not many more may be compared. None for all.
            also: gives units to compare whether or not they seem to be among the best; called when not all are.
        """
        scores = np.full(self.size, -np.inf, dtype=np.float32)

        def others() -> NDArray[np.int64]:
            units = np.empty(0, np.int64) if also is None else also()
            return self._layout.docs[self._rows[np.isin(self._group, units)]]

        place = (self.user_id, self._name, fingerprint)
        found = self._store.cosines(*place, query, wanted=self._passages(top_k), also=others)
        docs, cosines = found.docs, found.values
        if len(docs):
            units = self._unit_of_row[self._layout.rows(docs)]
            if not (units >= 0).all():
                cosines, units = cosines[units >= 0], units[units >= 0]
            if self._grouped or (docs[1:] == docs[:-1]).any():
                np.maximum.at(scores, units, cosines)
            else:  # one passage a unit, as most turns have: the rows of a unit are side by side
                scores[units] = cosines
        missing = np.isneginf(scores)
        scores[missing] = np.nan
        if len(docs) < found.total:  # most were not compared; those without a vector are told by how far vectors go
            reached = self._store.progress(*place)
            missing[self._group[self._layout.docs[self._rows] < reached.doc]] = False
        return VectorScores(scores, int(missing.sum()), found.notes)

    def _passages(self, top_k: int | None) -> int | None:
        """Passages of all in which the `top_k` best units are found; None when only all will do."""
        if top_k is None or 2 * len(self._rows) < self._layout.size or 2 * top_k > self.size:
            return None
        wanted = max(_LEAST_COMPARED, (20 if self._grouped else 4) * top_k)
        return math.ceil(wanted * self._layout.size / max(1, len(self._rows)))

    def _docs(self, units: Sequence[int]) -> list[int]:
        docs: list[int] = self._layout.docs[self.first[np.asarray(units, dtype=np.int64)]].tolist()
        return docs

    def turns(self, unit: int) -> list[Turn]:
        """The turns of a unit of the record, in order, without attachments."""
        return self.turns_of([unit])[0]

    def turns_of(self, units: Sequence[int]) -> list[list[Turn]]:
        """The turns of each of `units`, in order, read at once, without attachments; those deleted are left out."""
        bounds = [np.searchsorted(self._group, [unit, unit + 1]) for unit in units]
        docs = [self._layout.docs[self._rows[start:end]].tolist() for start, end in bounds]
        read = partial(self._store.turns_by_doc, self.user_id, attachments="none")
        turns = read([doc for unit in docs for doc in unit])
        if len(turns) < sum(map(len, docs)):
            return [read(unit) for unit in docs]
        rest = iter(turns)
        return [list(islice(rest, len(unit))) for unit in docs]

    def entries(self, units: Sequence[int]) -> list[Entry]:
        """The entries behind units of a corpus of entries, in the order given."""
        return self._store.entries_by_doc(self.user_id, self._docs(units))

    def find(self, unit_ids: Sequence[str]) -> list[int]:
        """Units by public id, in the order given; ids of nothing in this corpus are left out."""
        if self.unit == "session":
            number = {self._layout.session_ids[code]: unit for unit, code in enumerate(self.session.tolist())}
            return [number[unit_id] for unit_id in unit_ids if unit_id in number]
        if self.unit == "entry":
            named = {entry_id: unit for unit, entry_id in enumerate(self.unit_ids(range(self.size)))}
            return [named[unit_id] for unit_id in unit_ids if unit_id in named]
        docs = self._store.docs_of_turns(self.user_id, unit_ids)
        found = np.array([docs[unit_id] for unit_id in unit_ids if unit_id in docs], dtype=np.int64)
        return [unit for unit in self._unit_of_row[self._layout.rows(found)].tolist() if unit >= 0]

    def unit_ids(self, units: Sequence[int]) -> list[str]:
        """Public ids: a session's session id, an entry's entry id, else the turn id of the unit's first turn."""
        if self.unit == "session":
            return [self._layout.session_ids[self.session[unit]] for unit in units]
        if self.unit == "entry":
            return [entry.entry_id for entry in self.entries(units)]
        return [turn.turn_id for turn in self._store.turn_sizes(self.user_id, self._docs(units), attachments="none")]
