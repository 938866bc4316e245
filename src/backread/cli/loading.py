"""Storing what an importer read, and embedding it: shared by `import` and `demo`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from backread.cli.output import counted, note
from backread.cli.progress import bar
from backread.errors import InvalidInputError, ModelMismatchError, ModelNotAvailableError

if TYPE_CHECKING:
    from backread.importers import Imported, ImportedSession
    from backread.memory import Memory
    from backread.types import TurnDraft

__all__ = ["Embedded", "Loaded", "Refused", "embed", "load"]

BATCH_TURNS, BATCH_BYTES = 500, 4 << 20
"""Turns stored in one transaction, and about their characters: what an import needs of memory."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A turn of a file that the store did not take, and why."""

    user_id: str
    session_id: str
    external_id: str | None
    reason: str


@dataclass(slots=True)
class Loaded:
    """What was stored so far, and of which users. `finished` is False when the work was interrupted."""

    stored: int = 0
    known: int = 0
    sessions: int = 0
    rejected: list[Refused] = field(default_factory=list)
    users: dict[str, None] = field(default_factory=dict)
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Embedded:
    """What became of the vectors: turns still `pending`, why there are some, and whether it was interrupted."""

    pending: int
    reason: str | None = None
    interrupted: bool = False


def load(memory: Memory, imported: Imported) -> Loaded:
    """Store all sessions, with a bar. Interrupted, it says how far it came; run again, it stores nothing twice."""
    loaded = Loaded()
    unlinked: dict[str, list[TurnDraft]] = {}
    with bar("storing sessions", len(imported.sessions)) as advance:
        try:
            for user_id, drafts, sessions in _batches(imported.sessions):
                loaded.users[user_id] = None
                unlinked.setdefault(user_id, []).extend(_store(memory, user_id, drafts, loaded))
                loaded.sessions += sessions
                advance(sessions)
            for user_id, drafts in unlinked.items():
                _link(memory, user_id, drafts, loaded)
        except KeyboardInterrupt:
            return loaded
    loaded.finished = True
    return loaded


def _batches(sessions: Iterable[ImportedSession]) -> Iterator[tuple[str, list[TurnDraft], int]]:
    """(user, turns, how many sessions end with them) of sessions that follow each other, within the bounds above."""
    drafts: list[TurnDraft] = []
    user_id, size, ended = "", 0, 0
    for session in sessions:
        if drafts and user_id != session.user_id:
            yield user_id, drafts, ended
            drafts, size, ended = [], 0, 0
        user_id = session.user_id
        for draft in session.turns:
            if size >= BATCH_BYTES or len(drafts) >= BATCH_TURNS:
                yield user_id, drafts, ended
                drafts, size, ended = [], 0, 0
            drafts.append(draft)
            size += len(draft.text)
        ended += 1
    if drafts or ended:
        yield user_id, drafts, ended


def _store(memory: Memory, user_id: str, given: Sequence[TurnDraft], loaded: Loaded) -> list[TurnDraft]:
    """Store turns of one user; the drafts that replace a turn which may follow in a later session.

    They are stored in their places as if they replaced nothing: adding them once more links them.
    """
    drafts, early = _without_links_ahead(memory, user_id, given)
    _add(memory, user_id, drafts, loaded)
    return early


def _without_links_ahead(
    memory: Memory, user_id: str, given: Sequence[TurnDraft]
) -> tuple[list[TurnDraft], list[TurnDraft]]:
    """Drafts that replace only what is in the store or before them, and the given ones of those that were changed."""
    from backread.finding import turns_still_there

    named = {draft.supersedes for draft in given if draft.supersedes is not None and draft.external_id is not None}
    there = set(turns_still_there(memory.history(user_id), sorted(named)))
    drafts, early = [], []
    for draft in given:
        if draft.supersedes in named and draft.supersedes not in there:
            early.append(draft)
            draft = replace(draft, supersedes=None)
        drafts.append(draft)
        there.update(() if draft.external_id is None else (draft.external_id,))
    return drafts, early


def _link(memory: Memory, user_id: str, drafts: Sequence[TurnDraft], loaded: Loaded) -> None:
    """Link stored turns to what they replace; those that replace nothing in the record are named, and stay."""
    from backread.finding import turns_still_there

    there = turns_still_there(memory.history(user_id), sorted({draft.supersedes or "" for draft in drafts}))
    for draft in drafts:
        if draft.supersedes not in there:
            reason = f"supersedes names {draft.supersedes!r}, which is not a turn of this user; kept as one of its own"
            loaded.rejected.append(_refused(user_id, draft, reason))
    if linked := [draft for draft in drafts if draft.supersedes in there]:
        memory.add_turns(linked, user_id=user_id)


def _add(memory: Memory, user_id: str, drafts: Sequence[TurnDraft], loaded: Loaded) -> None:
    try:
        receipt = memory.add_turns(drafts, user_id=user_id)
    except InvalidInputError as error:
        if len(drafts) == 1:
            loaded.rejected.append(_refused(user_id, drafts[0], str(error)))
            return
        for draft in drafts:  # all were refused: one by one tells why each was
            try:
                memory.add_turns([draft], user_id=user_id)
            except InvalidInputError as own:
                loaded.rejected.append(_refused(user_id, draft, str(own)))
        return
    loaded.stored += receipt.stored
    loaded.known += receipt.known
    loaded.rejected.extend(_refused(user_id, drafts[item.position], item.reason) for item in receipt.rejected)


def _refused(user_id: str, draft: TurnDraft, reason: str) -> Refused:
    return Refused(user_id, draft.session_id, draft.external_id, reason)


def embed(memory: Memory, users: Sequence[str], *, reindex: str = "`backread reindex`") -> Embedded:
    """Embed what is pending of these users, with a bar. Without vectors search goes by words, so nothing here fails.

    `reindex` is the command that goes on from where this was interrupted.
    """
    pending = {user: memory.pending(user_id=user) for user in users}
    total = sum(pending.values())
    done = 0
    try:
        with bar("embedding turns", total) as advance:

            def moved(steps: int) -> None:
                nonlocal done
                done += steps
                advance(steps)

            for user in users:
                memory.index(user_id=user, on_progress=moved)
    except KeyboardInterrupt:
        note(f"stopped; text search works, vectors resume with {reindex}")
        return Embedded(max(0, total - done), "interrupted", interrupted=True)
    except (ModelNotAvailableError, ModelMismatchError) as error:
        return Embedded(sum(memory.pending(user_id=user) for user in users), f"{error}")
    if left := sum(memory.pending(user_id=user) for user in users):
        return Embedded(left, f"{counted(left, 'turn')} came in meanwhile")
    return Embedded(0)
