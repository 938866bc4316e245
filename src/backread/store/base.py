"""What a storage engine must do.

An engine keeps turns, entries, postings and vectors, and hands them back as they are; analysis, scoring and fusion
happen above it, so that results are the same on every engine. `doc` is an engine-internal positive integer that names
a turn or an entry within its corpus; it never reaches users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from backread.arrays import NDArray, np
from backread.errors import InvalidInputError
from backread.store.layout import Layout
from backread.types import (
    Attachments,
    BackupReceipt,
    Degradation,
    DeleteReceipt,
    Entry,
    EntryDraft,
    Session,
    Stats,
    Turn,
    TurnDraft,
    VerifyReport,
)

__all__ = [
    "TURNS",
    "Appended",
    "BuiltIndex",
    "Cosines",
    "PendingDoc",
    "Postings",
    "Progress",
    "TurnSize",
    "TurnStore",
    "entry_corpus",
]

TURNS = "turn"
"""Name of the corpus that holds a user's turns; entries live in corpora named by `entry_corpus`."""


def entry_corpus(strategy: str, kind: str) -> str:
    """Name of the corpus of one kind of entry of one strategy."""
    return f"{strategy}/{kind}"


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of one draft: a turn id and whether it is new, or the problem that kept it out."""

    turn_id: str | None
    new: bool = False
    problem: InvalidInputError | None = None


class Postings(NamedTuple):
    """The units a term occurs in: `docs` int64 ascending, `tf` float32, same length."""

    docs: NDArray[np.int64]
    tf: NDArray[np.float32]


class Progress(NamedTuple):
    """How far vectors go in a corpus: all docs below `doc` in full, and the first `offset` characters of `doc`."""

    doc: int
    offset: int


class Cosines(NamedTuple):
    """Cosines of a query with passages: `docs` int64 and `values` float32, a row for each passage compared.

    `total` counts all passages; those not compared are less alike, as far as an index without them can tell. `notes`
    says how the comparing fell short.
    """

    docs: NDArray[np.int64]
    values: NDArray[np.float32]
    total: int
    notes: tuple[Degradation, ...] = ()


class BuiltIndex(NamedTuple):
    """A nearest-neighbour index that was built: `rows` vectors, and `bytes` of its file."""

    rows: int
    bytes: int


class TurnSize(NamedTuple):
    """A turn by its id, and the bytes of what it says and holds."""

    doc: int
    turn_id: str
    bytes: int


class PendingDoc(NamedTuple):
    """A turn or entry without all its vectors; `header` is put before every passage of `text`."""

    doc: int
    header: str
    text: str


class TurnStore(Protocol):
    """Durable storage of many users' histories. Thread-safe; several processes may open the same store.

    Every method names one user and sees nothing of another; an unknown user is an empty history. Methods raise
    `StoreBusyError`, `StoreCorruptError` or another `StoreError`, never a driver's own exception.
    """

    def append(self, user_id: str, drafts: Sequence[TurnDraft]) -> list[Appended]:
        """Store turns in one durable transaction; one result per draft, in order.

        Idempotent by (user, external id): the same content again is known, other content is a `ConflictError`.
        Drafts with a problem are left out, the others are stored. When it returns, the turns survive a power cut and
        are searchable by text.
        """
        ...

    def layout(self, user_id: str, corpus: str = TURNS) -> Layout:
        """The shape of a user's turns in history order (of a kind of entry: by time, then arrival), as arrays."""
        ...

    def turns_by_doc(self, user_id: str, docs: Sequence[int], *, attachments: Attachments = "full") -> list[Turn]:
        """The turns of `docs`, in that order; a doc that is gone is left out.

        A named attachment is {"type", "bytes", "sha256"} of its canonical JSON.
        """
        ...

    def turn_sizes(self, user_id: str, docs: Sequence[int], *, attachments: Attachments = "full") -> list[TurnSize]:
        """Ids and sizes of the turns of `docs` as `turns_by_doc` gives them, in that order, without reading them.

        Only attachments in full count, and have to be read for that. A doc that is gone is left out.
        """
        ...

    def docs_of_turns(self, user_id: str, turn_ids: Sequence[str]) -> dict[str, int]:
        """turn_id or external_id -> doc for those that exist; a turn id wins over an equal external id."""
        ...

    def offsets(self, user_id: str, corpus: str, docs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Minutes east of UTC of the time of each of `docs`, int64; 0 where it is unknown, or the doc is gone."""
        ...

    def sessions(self, user_id: str) -> list[Session]:
        """All sessions in history order."""
        ...

    def size(self, user_id: str) -> tuple[int, int]:
        """How many sessions and turns there are, counted without reading any."""
        ...

    def users(self) -> list[str]:
        """Users that have at least one turn, by id."""
        ...

    def postings(self, user_id: str, corpus: str, terms: Sequence[str]) -> list[Postings]:
        """Where each term occurs; an unknown term has empty postings."""
        ...

    def document_frequencies(self, user_id: str, corpus: str, terms: Sequence[str]) -> list[int]:
        """How many units each term occurs in, without reading its postings."""
        ...

    def lookup(self, user_id: str, corpus: str, term: str, docs: NDArray[np.int64]) -> NDArray[np.float32]:
        """The term's frequency in each of `docs`, 0 where it doesn't occur."""
        ...

    def vectors(self, user_id: str, corpus: str, fingerprint: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """(docs (p,), matrix (p, dimension)) of all passages; a doc has one row per passage. Arrays are read-only."""
        ...

    def cosines(
        self,
        user_id: str,
        corpus: str,
        fingerprint: str,
        query: NDArray[np.float32],
        *,
        wanted: int | None = None,
        also: Callable[[], NDArray[np.int64]] | None = None,
    ) -> Cosines:
        """Cosines of a unit vector with the passages of a corpus: all, or, of a large one, about the `wanted` best.

        Those given are exact; with `wanted` None they are of all passages. `also` gives docs whose passages must be
        among them; it is only called when others may be left out.
        """
        ...

    def build_ann(
        self,
        user_id: str,
        corpus: str,
        fingerprint: str,
        *,
        min_bytes: int | None = None,
        newer: float = 0.0,
        on_progress: Callable[[int], None] | None = None,
    ) -> BuiltIndex | None:
        """Build the nearest-neighbour index of a large corpus; None when there is nothing to do.

        Args:
            user_id: whose corpus.
            corpus: name of the corpus.
            fingerprint: embedder of the vectors.
            min_bytes: build from this size of its vectors on; None for the size from which a search uses it.
            newer: share of the vectors an index that is there may lack, to be left as it is.
            on_progress: called with the number of vectors added each time some were.

        Raises:
            MissingExtraError: the corpus is large and the package for it is not installed.
            StoreBusyError: turns kept being deleted while it was built.
        """
        ...

    def progress(self, user_id: str, corpus: str, fingerprint: str) -> Progress:
        """How far the vectors of this fingerprint go."""
        ...

    def pending(self, user_id: str, corpus: str, fingerprint: str, limit: int) -> list[PendingDoc]:
        """The next units without all their vectors, in doc order, at most `limit`."""
        ...

    def pending_count(self, user_id: str | None, fingerprint: str) -> int:
        """Units without all their vectors, over all corpora of one user, or of everyone."""
        ...

    def put_vectors(
        self,
        user_id: str,
        corpus: str,
        fingerprint: str,
        expected: Progress,
        docs: NDArray[np.int64],
        matrix: NDArray[np.float32],
        reached: Progress,
    ) -> bool:
        """Add passage vectors and move progress from `expected` to `reached`, in one transaction.

        False, and nothing written, when progress is no longer `expected` (another process was faster). Rows of docs
        that were deleted meanwhile are dropped.
        """
        ...

    @property
    def active_embedder(self) -> str | None:
        """Fingerprint whose vectors are searched; None before the first vector."""
        ...

    @property
    def previous_embedder(self) -> str | None:
        """Fingerprint whose vectors were searched before and are still here; None when there is none."""
        ...

    def activate_embedder(self, fingerprint: str, *, dimension: int | None = None, keep_previous: bool = False) -> None:
        """Search this fingerprint's vectors from now on, and drop those of others.

        Args:
            fingerprint: whose vectors.
            dimension: of its vectors; then it may be an embedder that nothing was embedded with yet.
            keep_previous: keep the vectors that were searched until now, in place of those kept before. An embedder
                that is active already keeps its previous one.

        Raises:
            NotFoundError: no vectors of it are stored, and `dimension` is None.
        """
        ...

    def drop_previous_embedder(self) -> bool:
        """Drop the vectors of the previous embedder; False when there are none. `scrub` makes the file smaller."""
        ...

    def corpora(self, user_id: str | None = None) -> list[tuple[str, str]]:
        """(user_id, corpus) of every corpus that has units, of one user or of everyone."""
        ...

    def entries_by_doc(self, user_id: str, docs: Sequence[int]) -> list[Entry]:
        """The entries of `docs`, in that order; a doc that is gone is left out."""
        ...

    def entries(self, user_id: str, strategy: str, kind: str | None = None) -> list[Entry]:
        """Entries of one strategy, by kind, time and arrival."""
        ...

    def strategy_state(self, user_id: str, strategy: str) -> tuple[int, bytes | None]:
        """(version, state) of a strategy's work on this user; (0, None) before its first commit."""
        ...

    def turns_to_rebuild(self, user_id: str, strategy: str) -> list[str]:
        """Turns whose entries were dropped because they also rested on a turn that was deleted."""
        ...

    def commit(
        self,
        user_id: str,
        strategy: str,
        expected_version: int,
        put: Iterable[EntryDraft] = (),
        drop: Iterable[str] = (),
        state: bytes | None = None,
        rebuilt: Iterable[str] = (),
    ) -> int:
        """Write entries and the strategy's state in one transaction; returns the new version.

        An entry with the same (strategy, entry_id) is replaced. `state` None keeps the old state; a state holds ids
        and numbers, never words of turns, so that deleting a turn leaves none behind. `rebuilt` names turns that no
        longer wait for rebuilding.

        Raises:
            StaleVersionError: the strategy's version is no longer `expected_version`: another build committed, or a
                turn was deleted.
            NotFoundError: an entry names a source that isn't a turn of this user. Nothing is written.
        """
        ...

    def delete(
        self,
        user_id: str,
        *,
        turn_ids: Sequence[str] | None = None,
        session_id: str | None = None,
        scrub: bool = True,
    ) -> DeleteReceipt:
        """Erase turns with all that is derived from them: postings, vectors, links, and entries that rest on them.

        With neither `turn_ids` nor `session_id` the whole user goes. Unknown ids erase nothing. Entries go with every
        turn they cite or whose words their model saw; sessions that are gone leave the strategies' states. With `scrub`
        no byte of all this is left in the files when it returns, or the receipt says `pending_scrub`; then, and
        without `scrub`, the next delete that scrubs finishes it, or `scrub`. A failure after the commit is no error.
        """
        ...

    @property
    def stale_analyzer(self) -> str | None:
        """The analysis that made the text index, when it isn't today's: words may be missed until it is rebuilt."""
        ...

    def scrub(self) -> None:
        """Leave no byte of what was erased, at the cost of writing everything else anew.

        Raises:
            StoreBusyError: a reader keeps some from being removed; the scrub stays due.
        """
        ...

    def rebuild_text_index(self, user_id: str | None = None) -> int:
        """Derive the postings of one user or of everyone again from the record; returns units indexed."""
        ...

    def backup(self, path: Path, *, overwrite: bool = False) -> BackupReceipt:
        """Copy the store as it is at this moment into one file, readable by its owner only, and prove the copy.

        Writers go on meanwhile. The file takes its name when it is complete and proved.

        Args:
            path: the new file.
            overwrite: take the place of a file that is there, unless it is the store itself.

        Raises:
            InvalidInputError: there is such a file already.
            StoreCorruptError: the copy has faults, as the store has. Nothing is left at `path`.
        """
        ...

    def verify(self, user_id: str | None = None) -> VerifyReport:
        """Derive everything again and compare; names every fault, raises nothing for a fault."""
        ...

    def stats(self, user_id: str | None = None) -> Stats:
        """Counts and bytes."""
        ...

    def close(self) -> None:
        """Release everything. Further calls raise `StoreError`; closing twice is fine."""
        ...
