"""The shapes that travel between layers: frozen dataclasses, no I/O, no numpy.

Conventions: ids are opaque strings compared exactly as given; offsets are code points, half-open; times are aware
`datetime`s or None when the source gave none; scores are higher-is-better; an unknown number is None, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, overload

__all__ = [
    "AddReceipt",
    "Answer",
    "Attachments",
    "BackupReceipt",
    "BuildReport",
    "Citation",
    "Decision",
    "Degradation",
    "DeleteReceipt",
    "Entry",
    "EntryDraft",
    "Evidence",
    "Fault",
    "Hit",
    "Hits",
    "Ranking",
    "Recall",
    "Rejection",
    "ScoredUnit",
    "Session",
    "Source",
    "Stats",
    "Step",
    "Turn",
    "TurnDraft",
    "Unit",
    "Usage",
    "VerifyReport",
]

Unit = Literal["turn", "user_turn", "round", "session"]
"""What a retriever ranks in the record; derived entries are named by a (strategy, kind) pair instead."""


Attachments = Literal["full", "named", "none"]
"""How attachments of a turn are given: as they are, as {"type", "bytes", "sha256"} each, or not at all."""


@dataclass(frozen=True, slots=True)
class TurnDraft:
    """One message on its way in, already normalised: `text` is exactly what the caller gave.

    `said_at` is aware; `offset_known` is False when the source gave no zone and the history's zone was assumed.
    `received_at` is when a message that names no time came in live; None where it wasn't seen to come in.
    """

    session_id: str
    role: str
    text: str
    speaker: str | None = None
    external_id: str | None = None
    caption: str | None = None
    attachments: tuple[Mapping[str, Any], ...] = ()
    said_at: datetime | None = None
    said_text: str | None = None
    offset_known: bool = True
    supersedes: str | None = None
    received_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One message by one speaker, verbatim.

    Attributes:
        turn_id: opaque, unique within the user, the same whenever the same calls are made again.
        external_id: the id the caller gave, if any; unique within the user.
        position: 0-based place in the session in the order of the history; it moves when a late turn arrives before it.
        role: the OpenAI role, or "participant" for a conversation between people.
        speaker: the name, when the source gave one.
        caption: text that describes an image shared with the turn.
        said_at: aware instant, None when unknown. `offset_known` is False when the zone was assumed.
        said_text: the time as the source wrote it.
        supersedes: the turn this one replaces; the old one stays in the record and leaves search.
        received_at: when a message that named no time came in live; None for others.
    """

    turn_id: str
    session_id: str
    position: int
    role: str
    text: str
    stored_at: datetime
    speaker: str | None = None
    external_id: str | None = None
    caption: str | None = None
    attachments: tuple[Mapping[str, Any], ...] = ()
    said_at: datetime | None = None
    said_text: str | None = None
    offset_known: bool = True
    supersedes: str | None = None
    received_at: datetime | None = None

    @property
    def time(self) -> datetime | None:
        """What filters, dates and orders go by: when it was said, else when it was received; None when unknown."""
        return self.received_at if self.said_at is None else self.said_at

    @property
    def received(self) -> bool:
        """True when `time` is when it was received, as nobody said when it was said."""
        return self.said_at is None and self.received_at is not None

    @property
    def name(self) -> str:
        """Who spoke, as shown to people and models: the speaker's name, else the role."""
        return self.speaker or self.role


@dataclass(frozen=True, slots=True)
class Session:
    """Ordered turns at one sitting, from the earliest known `Turn.time` to the latest; None when no turn has one."""

    session_id: str
    turns: int
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Rejection:
    """A message of a batch that was not stored, by its 0-based position, and why."""

    position: int
    reason: str


@dataclass(frozen=True, slots=True)
class AddReceipt:
    """What one `add` did. `turn_ids` has one id per accepted message, in the order given, known ones included.

    Attributes:
        stored: turns that are new.
        known: turns that were already there under the same external id with the same content.
        rejected: messages that were refused; the others of the batch are stored.
    """

    session_id: str
    turn_ids: tuple[str, ...]
    stored: int
    known: int
    rejected: tuple[Rejection, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteReceipt:
    """Counts of what a delete removed for one user.

    Every entry that rested on a deleted turn goes with it; `to_rebuild` counts the turns left without those entries.
    With `pending_scrub` the turns are gone, but bytes of what was deleted may still be in the files: a reader keeps
    the log, the disk is full, or it was asked for. `Memory.scrub`, the next delete or the next open finishes it.
    """

    user_id: str
    turns: int
    sessions: int
    entries: int
    postings: int
    vectors: int
    to_rebuild: int
    pending_scrub: bool = False


@dataclass(frozen=True, slots=True)
class BackupReceipt:
    """A copy of a store that was proved by `verify`: counts, bytes, and the SHA-256 of its file in hexadecimal."""

    path: Path
    users: int
    sessions: int
    turns: int
    entries: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Source:
    """A span of a turn: code points [start, end) of `Turn.text`; end None means the whole text."""

    turn_id: str
    start: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class EntryDraft:
    """A derived memory record on its way in: `index_text` is what search sees, `sources` name turns of the user.

    `shown` names the turns, besides those of `sources`, that the model saw when it wrote the entry: it may have their
    words, so it goes with each of them, but it doesn't cite them.
    """

    entry_id: str
    strategy: str
    kind: str
    data: Mapping[str, Any]
    index_text: str
    sources: tuple[Source, ...]
    said_at: datetime | None = None
    model: str | None = None
    prompt_hash: str | None = None
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A derived memory record: droppable, rebuildable, and it names what it rests on.

    `shown` is as in `EntryDraft`; `version` is the strategy's version at the commit that wrote it.
    """

    entry_id: str
    strategy: str
    kind: str
    data: Mapping[str, Any]
    index_text: str
    sources: tuple[Source, ...]
    said_at: datetime | None
    model: str | None
    prompt_hash: str | None
    version: int
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Degradation:
    """Something that worked less well than asked and was not hidden.

    `part` is the component ("dense", "citations", …), `reason` a sentence, `count` how many items it touched.
    """

    part: str
    reason: str
    count: int | None = None


@dataclass(frozen=True, slots=True)
class ScoredUnit:
    """A unit id with its score; higher is better."""

    unit_id: str
    score: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """Units by (score desc, time asc, position asc), at most `top_k` of them; `degraded` says what was missing."""

    items: tuple[ScoredUnit, ...]
    degraded: tuple[Degradation, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """A found turn. `also` holds turns of the same speaker with the same text, which take no place of their own."""

    turn: Turn
    score: float
    also: tuple[Turn, ...] = ()


@dataclass(frozen=True)
class Hits(Sequence[Hit]):
    """The result of a search, best first.

    Attributes:
        degraded: what was skipped or missing, never hidden.
        pending: turns of this user that have no vector yet.
    """

    items: tuple[Hit, ...]
    degraded: tuple[Degradation, ...] = ()
    pending: int = 0

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.items)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of model calls: cached ones count in `input_tokens`, reasoning in `output_tokens`; unknown is None."""

    purpose: str
    model: str
    calls: int = 1
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line shown to the answerer.

    Attributes:
        text: the words as shown: a turn's text for "verbatim", a model's words for "rewrite" and "summary".
        kind: where the words come from.
        sources: the spans it rests on, never empty for "verbatim".
        speaker: who said it, also when `text` is only a part of the turn.
        time: when it was said, or received where `received` is True.
        rank: 0-based place in the strategy's ranking, best first.
        session_id: the session of its first source.
        cut: True when `text` is an excerpt; the mark in the rendered line names the turn.
    """

    text: str
    kind: Literal["verbatim", "rewrite", "summary"]
    sources: tuple[Source, ...]
    rank: int
    speaker: str | None = None
    time: datetime | None = None
    session_id: str | None = None
    caption: str | None = None
    cut: bool = False
    received: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What a design decided on a turn it read in a window: whether it is kept, and in which words.

    Attributes:
        turn_id: the turn; one that stands in two windows is decided on twice.
        kept: True when something of it is evidence for the question.
        text: the model's words for a turn that is kept, None for one that is not.
        window: 0-based number of the window, in the order of the history.
    """

    turn_id: str
    kept: bool
    text: str | None
    window: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a recall or an answer, for the trace: what was done, how much it cost."""

    name: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a `build` or `maintain` did. `failed` names the sessions that will be tried again, with the reason."""

    strategy: str
    put: int = 0
    dropped: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    usage: tuple[Usage, ...] = ()
    degraded: tuple[Degradation, ...] = ()


@dataclass(frozen=True, slots=True)
class Recall:
    """What a strategy hands to the answerer.

    Attributes:
        evidence: in the order shown.
        rendered: the block the answerer sees, fence and numbers included; "" when there is no evidence.
        tokens: tokens of `rendered` by `counter`; never above the budget.
        ranked: unit ids with scores, best first, before the budget.
        considered: turn ids that were looked at.
        decisions: by window and turn, from designs that keep or drop; a window that could not be read has none.
        overflow: True when there was evidence but the budget held none of it.
        config: the strategy and its settings, for records.
    """

    question: str
    strategy: str
    evidence: tuple[Evidence, ...]
    rendered: str
    tokens: int
    counter: str
    ranked: tuple[ScoredUnit, ...] = ()
    considered: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    overflow: bool = False
    steps: tuple[Step, ...] = ()
    usage: tuple[Usage, ...] = ()
    degraded: tuple[Degradation, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """A checked reference: `quote` is `Turn.text[start:end]` of the turn, `number` its line in the evidence."""

    number: int
    turn_id: str
    start: int
    end: int
    quote: str


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with the citations that could be checked.

    Attributes:
        text: what to show; markers like [2] name `citations` by number.
        extractive: True when no chat model was configured and `text` only quotes.
        model: the chat model, None when extractive.
        dropped_citations: citations the model made that could not be tied to a turn; they are not in `text`.
    """

    text: str
    citations: tuple[Citation, ...]
    recall: Recall
    extractive: bool
    model: str | None = None
    dropped_citations: int = 0
    prompt_hash: str | None = None
    usage: tuple[Usage, ...] = ()
    degraded: tuple[Degradation, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """Something `verify` found: the kind of row ("turn", "posting", …), which one, and what is wrong with it."""

    where: str
    what: str
    detail: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The outcome of `verify`: what was checked and every fault found. `ok` when there is none.

    `notices` are no damage, but somebody should know: a scrub that is due, files that others may read.
    """

    checked: Mapping[str, int]
    faults: tuple[Fault, ...]
    notices: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True when nothing was found."""
        return not self.faults


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts over the store, or over one user. `pending` are turns without a vector of the active embedder."""

    users: int
    sessions: int
    turns: int
    entries: int
    postings: int
    vectors: int
    pending: int
    bytes: int
    embedder: str | None
