"""Learned sparse retrieval: the dot product of a question's weighted terms with those of each unit.

Formal, Piwowarski & Clinchant, "SPLADE", SIGIR 2021. A unit longer than the model reads is cut into passages, whose
weights are pooled by their maximum, as the model pools those of its tokens; a round or session has the score of its
best turn.

`MemorySparseIndex` needs no table of the store: it encodes a user's turns the first time they are searched and keeps
the vectors in this process. That is for small histories. The first search pays for all turns (10 CPU ms a turn of 32
tokens with a model of 4 M parameters, far more with SPLADE-v3's 110 M), every process pays again, and a turn takes
about 20 bytes for each of its 30 to 300 terms. What is deleted from the record leaves the index at the next search of
that user.
"""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from backread import forking
from backread.arrays import NDArray, np
from backread.errors import InvalidInputError
from backread.models.base import SparseEncoder, SparseVector
from backread.retrieval.base import Scored, ranking
from backread.store.corpus import Corpus
from backread.store.indexing import passage_header, passage_text
from backread.text.analysis import query_terms
from backread.text.passages import split_passages
from backread.types import Degradation, Ranking

__all__ = ["MemorySparseIndex", "SparseIndex", "SparseRetriever", "pooled"]

_PLACES = 4
_BATCH = 64
_SMALLEST = 16


class SparseIndex(Protocol):
    """Where sparse vectors are, and what they weigh against a question."""

    @property
    def fingerprint(self) -> str:
        """Of the encoder whose vectors it holds."""
        ...

    def scores(self, corpus: Corpus, question: str) -> Scored:
        """Dot products of all units, 0 where no term is shared, NaN and a degradation for those without a vector.

        Raises:
            ModelError: the encoder can't be used.
        """
        ...


class SparseRetriever:
    """Ranks units by learned sparse vectors. Units without a vector are left out, and said to be.

    Args:
        index: holds the vectors.
    """

    compares_vectors = False

    def __init__(self, index: SparseIndex) -> None:
        self._index = index

    @property
    def name(self) -> str:
        """The name users choose it by."""
        return "sparse"

    @property
    def config(self) -> Mapping[str, Any]:
        """Every setting that changes a score."""
        return {"retriever": self.name, "sparse_encoder": self._index.fingerprint}

    def scores(self, corpus: Corpus, question: str, top_k: int) -> Scored:
        """Dot products of all units; a question without a term matches nothing."""
        if not corpus.size or not query_terms(question):
            return Scored(np.zeros(corpus.size, dtype=np.float32))
        return self._index.scores(corpus, question)

    def search(self, corpus: Corpus, question: str, top_k: int) -> Ranking:
        """Units that share a weighted term with the question, best first."""
        return ranking(corpus, self.scores(corpus, question, top_k), top_k)


class MemorySparseIndex:
    """A `SparseIndex` in this process, filled when a corpus is searched; see the module for what that costs.

    Threads may share one object; two that search one user wait for each other. Each store needs an index of its own:
    what is kept is known by user and place in the store.

    Args:
        encoder: makes the vectors.
        seconds: how long a search may encode, after the batch at hand; what is left has no score until a later search.
            None encodes everything.
        users: whose vectors are kept at most; the one searched longest ago goes first.

    Raises:
        InvalidInputError: `users` is below 1.
    """

    def __init__(self, encoder: SparseEncoder, *, seconds: float | None = None, users: int = 64) -> None:
        if users < 1:
            raise InvalidInputError(f"users must be at least 1, not {users}")
        self._encoder, self._seconds, self._users = encoder, seconds, users
        self._kept: OrderedDict[tuple[str, str], _Vectors] = OrderedDict()
        self._lock = forking.Lock()

    @property
    def fingerprint(self) -> str:
        """The encoder's."""
        return self._encoder.fingerprint

    def scores(self, corpus: Corpus, question: str) -> Scored:
        """See `SparseIndex.scores`."""
        docs, units, all_docs = _members(corpus)
        vectors = self._of(corpus)
        with vectors.lock:
            vectors.keep_only(all_docs)
            self._catch_up(corpus, docs, units, vectors)
            found, missing = vectors.scores(docs, self._encoder.encode([question], kind="query")[0])
        scores = np.full(corpus.size, -np.inf, np.float32)
        np.maximum.at(scores, units[~missing], found[~missing])
        without = np.isneginf(scores)
        scores[without] = np.nan
        left = int(missing.sum())
        note = Degradation("sparse", "turns that are not encoded yet were left out", left)
        return Scored(scores.round(_PLACES), (note,) if left else ())

    def forget(self, user_id: str) -> None:
        """Drop the vectors of one user."""
        with self._lock:
            for key in [key for key in self._kept if key[0] == user_id]:
                del self._kept[key]

    def _of(self, corpus: Corpus) -> _Vectors:
        key = (corpus.user_id, corpus._name)
        with self._lock:
            vectors = self._kept.setdefault(key, _Vectors())
            self._kept.move_to_end(key)
            while len(self._kept) > self._users:
                self._kept.popitem(last=False)
            return vectors

    def _catch_up(self, corpus: Corpus, docs: NDArray[np.int64], units: NDArray[np.int64], vectors: _Vectors) -> None:
        """Encode members that have no vector, in batches, until all have one or the time is up."""
        deadline = None if self._seconds is None else time.monotonic() + self._seconds
        new = np.flatnonzero(~np.isin(docs, vectors.docs))
        for start in range(0, len(new), _BATCH):
            rows = new[start : start + _BATCH]
            passages = {doc: _passages(*text, self._encoder) for doc, text in _texts(corpus, docs, units, rows)}
            made = iter(self._encoder.encode([passage for parts in passages.values() for passage in parts]))
            for doc, parts in passages.items():
                vectors.put(doc, pooled(list(itertools.islice(made, len(parts)))))
            if deadline is not None and time.monotonic() >= deadline:
                return


class _Vectors:
    """Vectors of one user's corpus, laid end to end."""

    def __init__(self) -> None:
        self.lock = forking.Lock()
        self._by_doc: dict[int, SparseVector] = {}
        self._laid: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]] | None = None

    @property
    def docs(self) -> NDArray[np.int64]:
        return np.fromiter(self._by_doc, np.int64, len(self._by_doc))

    def put(self, doc: int, vector: SparseVector) -> None:
        self._by_doc[doc] = vector
        self._laid = None

    def keep_only(self, docs: NDArray[np.int64]) -> None:
        """Drop what is no longer in the record."""
        for doc in set(self._by_doc).difference(docs.tolist()):
            del self._by_doc[doc]
            self._laid = None

    def scores(self, docs: NDArray[np.int64], query: SparseVector) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Dot product of each of `docs`, and which of them have no vector."""
        if self._laid is None:
            values = list(self._by_doc.values())
            owner = np.repeat(np.arange(len(values)), [len(vector.terms) for vector in values])
            terms = np.concatenate([vector.terms for vector in values] or [np.empty(0, np.int64)])
            weights = np.concatenate([vector.weights for vector in values] or [np.empty(0, np.float32)])
            self._laid = (owner, terms, weights)
        owner, terms, weights = self._laid
        totals = np.zeros(len(self._by_doc), np.float32)
        if len(query.terms) and len(terms):
            at = np.minimum(np.searchsorted(query.terms, terms), len(query.terms) - 1)
            shared = np.flatnonzero(query.terms[at] == terms)
            products = weights[shared] * query.weights[at[shared]]
            totals = np.bincount(owner[shared], products, minlength=len(totals)).astype(np.float32)
        place = {doc: row for row, doc in enumerate(self._by_doc)}
        rows = np.array([place.get(doc, -1) for doc in docs.tolist()], np.int64)
        missing = rows < 0
        if not len(totals):
            return np.zeros(len(docs), np.float32), missing
        return np.where(missing, np.float32(0), totals[rows]), missing


def pooled(vectors: Sequence[SparseVector]) -> SparseVector:
    """One vector with the largest weight of each term; no vectors give an empty one."""
    if len(vectors) == 1:
        return vectors[0]
    terms = np.concatenate([vector.terms for vector in vectors] or [np.empty(0, np.int64)])
    weights = np.concatenate([vector.weights for vector in vectors] or [np.empty(0, np.float32)])
    distinct, place = np.unique(terms, return_inverse=True)
    best = np.zeros(len(distinct), np.float32)
    np.maximum.at(best, place, weights)
    return SparseVector(distinct, best)


def _members(corpus: Corpus) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(docs, units) of every turn or entry in the corpus, in history order, and the docs of the whole history.

    The store never gives a doc a second time, and what it names does not change: that is what makes it a key.
    """
    layout = corpus._layout
    return layout.docs[corpus._rows], corpus._group, layout.docs


def _texts(
    corpus: Corpus, docs: NDArray[np.int64], units: NDArray[np.int64], rows: NDArray[np.int64]
) -> Iterable[tuple[int, tuple[str, str]]]:
    """(doc, (header, text)) of the members at `rows`; members that were deleted meanwhile are left out."""
    if corpus.unit == "entry":
        entries = corpus.entries(units[rows].tolist())
        if len(entries) == len(rows):
            for doc, entry in zip(docs[rows].tolist(), entries, strict=True):
                yield doc, ("", entry.index_text)
        return
    wanted = set(docs[rows].tolist())
    for unit in dict.fromkeys(units[rows].tolist()):
        start, end = np.searchsorted(units, [unit, unit + 1])
        members = docs[start:end].tolist()
        turns = corpus.turns(unit)
        if len(turns) == len(members):
            for doc, turn in zip(members, turns, strict=True):
                if doc in wanted:
                    yield doc, (passage_header(turn.speaker), passage_text(turn.text, turn.caption))


def _passages(header: str, text: str, encoder: SparseEncoder) -> list[str]:
    room = max(_SMALLEST, encoder.max_tokens - (encoder.count_tokens(header) if header else 0))
    spans = split_passages(text, max_tokens=room, count=encoder.count_tokens)
    return [f"{header}{text[start:end]}" for start, end in spans]
