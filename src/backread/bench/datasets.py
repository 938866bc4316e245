"""Questions over histories, ready to run: a benchmark's or the user's own.

Gold labels are in `Dataset.questions` alone. Sessions hold none of them, and `fill` stores sessions the way users do:
whatever is handed a memory or a history can't see them. LongMemEval's own ids of evidence sessions begin with
"answer_", so a design that shows ids to a model would give them away.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from backread.bench.overlays import overlaid
from backread.bench.sessions import LazySessions
from backread.bench.sources import ADVERSARIAL, Benchmark, Source, read_source
from backread.bench.spec import DatasetSpec
from backread.errors import InvalidInputError
from backread.importers.base import Imported, ImportedSession, ImportReport, Question
from backread.importers.locomo import CATEGORIES
from backread.memory import Memory
from backread.types import Turn, TurnDraft

__all__ = ["Dataset", "evidence_turns", "fill", "load_dataset", "sampled", "type_name"]

_BATCH_TURNS = 500  # turns stored in one transaction, about; a session is never split
_EXAMPLES = 10


@dataclass(frozen=True)
class Dataset:
    """Questions over histories.

    Attributes:
        name: of the file or variant, for headings.
        sha256: of the data as read, before anything was chosen or corrected: of the file; of "longmemeval-compact" see
            `bench.compact`; of "jsonl" that of the hashes of messages and questions, joined by a line feed.
        benchmark: whose rules the answers are judged by.
        questions: in the order of the file, with their gold labels; never given to a strategy. A gold turn that is not
            stored is not among them: retrieval measures leave a question without gold out.
        sessions: those of users with questions, user by user; made anew when iterated. They hold no gold labels.
        report: of the whole file.
        roles: of the turns in `sessions`; None is all.
        notes: sentences that must stand beside every figure.
        disputed: question id -> kind of error, for questions whose gold answer an overlay says to be wrong.
        overlay_sha256: of the overlay's bytes, None without one.
    """

    name: str
    sha256: str
    benchmark: Benchmark
    questions: tuple[Question, ...]
    sessions: Collection[ImportedSession]
    report: ImportReport
    roles: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    disputed: Mapping[str, str] = field(default_factory=dict)
    overlay_sha256: str | None = None


# --- choosing


def load_dataset(spec: DatasetSpec) -> Dataset:
    """The questions and histories that a spec names.

    Corrections of the overlay come first; then questions are chosen by `users`, `types`, `exclude_types` and
    `adversarial`, and of those a sample is taken; `roles` last.

    Raises:
        ImportFormatError: a file can't be read as its format.
        InvalidInputError: the data has another hash than the spec says, the spec names a user or a type that isn't
            there, what it says doesn't go together, or no question or no turn is left.
    """
    source = read_source(spec)
    if spec.sha256 is not None and spec.sha256.lower() != source.sha256:
        raise InvalidInputError(
            f"{spec.path} has the sha256 {source.sha256}, not {spec.sha256.lower()}: it is other data",
            hint="fetch the data the spec was written for, or change its `sha256`",
        )
    overlay = None if spec.overlay is None else overlaid(spec.overlay, source.benchmark, source.imported)
    questions = source.imported.questions if overlay is None else overlay.questions
    chosen, notes = _chosen(questions, spec, source)
    sessions, chosen, of_roles = _selected(source.imported, chosen, spec.roles)
    ids = {question.question_id for question in chosen}
    if overlay is not None:
        notes.append(overlay.note(ids))
    return Dataset(
        name=source.name,
        sha256=source.sha256,
        benchmark=source.benchmark,
        questions=chosen,
        sessions=sessions,
        report=source.imported.report,
        roles=spec.roles,
        notes=(*source.notes(chosen), *notes, *of_roles),
        disputed={key: kind for key, kind in overlay.disputed.items() if key in ids} if overlay else {},
        overlay_sha256=None if overlay is None else overlay.sha256,
    )


def _chosen(questions: Sequence[Question], spec: DatasetSpec, source: Source) -> tuple[tuple[Question, ...], list[str]]:
    """The questions of a spec, and notes of what was left out."""
    notes: list[str] = []
    _known("user", spec.users, {question.user_id for question in questions})
    types = {question.question_type for question in questions}
    _known("type", spec.types, types)
    _known("type", spec.exclude_types, types)
    left = list(questions)
    if source.benchmark == "locomo" and not spec.adversarial:
        left = [question for question in left if question.question_type != ADVERSARIAL]
    if spec.users is not None:
        left = [question for question in left if question.user_id in spec.users]
        notes.append(f"Only the histories of {', '.join(spec.users)}.")
    if spec.types is not None:
        left = [question for question in left if question.question_type in spec.types]
        notes.append(f"Only questions of the types {', '.join(spec.types)}.")
    for name in spec.exclude_types:
        out = sum(question.question_type == name for question in left)
        left = [question for question in left if question.question_type != name]
        notes.append(f"The {out} questions of the type {name} are left out.")
    if not left:
        raise InvalidInputError(
            f"no question of {spec.path} is left by `users`, `types`, `exclude_types` and `adversarial`"
        )
    if spec.sample is not None and spec.sample < len(left):
        notes.append(
            f"A sample of {spec.sample} of {len(left)} questions, types in proportion, spread evenly over the file."
        )
        left = sampled(left, spec.sample)
    return tuple(left), notes


def _known(what: str, named: Collection[str] | None, there: Collection[str]) -> None:
    for name in named or ():
        if name not in there:
            shown = ", ".join(sorted(there)[:_EXAMPLES])
            more = f" and {len(there) - _EXAMPLES} more" if len(there) > _EXAMPLES else ""
            raise InvalidInputError(f"no question is of the {what} {name!r}", hint=f"there are {shown}{more}")


def sampled(questions: Sequence[Question], size: int) -> list[Question]:
    """At most `size` of the questions, in their order; always the same ones.

    Every type has its share, rounded by largest remainders (ties: the type that comes first). Within a type of n
    questions the k chosen are those at the middles of k equal stretches: places floor((2i + 1) n / 2k).
    """
    if size >= len(questions):
        return list(questions)
    places: dict[str, list[int]] = {}
    for place, question in enumerate(questions):
        places.setdefault(question.question_type, []).append(place)
    shares = {name: divmod(size * len(own), len(questions)) for name, own in places.items()}
    spare = size - sum(whole for whole, _ in shares.values())
    rounded_up = sorted(shares, key=lambda name: -shares[name][1])[:spare]
    kept: list[int] = []
    for name, own in places.items():
        count = shares[name][0] + (name in rounded_up)
        kept.extend(own[(2 * number + 1) * len(own) // (2 * count)] for number in range(count))
    return [questions[place] for place in sorted(kept)]


def _selected(
    imported: Imported, questions: tuple[Question, ...], roles: tuple[str, ...] | None
) -> tuple[Collection[ImportedSession], tuple[Question, ...], list[str]]:
    """Sessions of the users asked, turns of the roles asked; gold that is not stored leaves the questions."""
    users = frozenset(question.user_id for question in questions)
    if roles is None and len(users) == imported.report.users:
        return imported.sessions, questions, []
    make = _maker(imported, users, roles)
    count = 0
    stored: dict[str, set[str | None]] = {user: set() for user in users}
    named: dict[str, set[str]] = {user: set() for user in users}
    gold = {(question.user_id, turn) for question in questions for turn in question.gold_turns}
    for session in make(None):
        count += 1
        named[session.user_id].add(session.session_id)
        ids = (turn.external_id for turn in session.turns)
        stored[session.user_id].update(own for own in ids if (session.user_id, own) in gold)
    if not count:
        of_roles = "" if roles is None else f" of the roles {', '.join(roles)}"
        raise InvalidInputError(f"the histories that are asked have no turn{of_roles}")
    if roles is None:
        return LazySessions(make, count), questions, []
    kept = tuple(_without(question, stored[question.user_id], named[question.user_id]) for question in questions)
    pairs = list(zip(questions, kept, strict=True))
    lost = sum(len(old.gold_turns) - len(new.gold_turns) for old, new in pairs)
    emptied = sum(bool(old.gold_turns) and not new.gold_turns for old, new in pairs)
    note = (
        f"Only turns of the roles {', '.join(roles)} are stored; {lost} gold turns of other roles don't count."
        f" Questions left without a gold turn by that: {emptied}."
    )
    return LazySessions(make, count), kept, [note]


def _maker(
    imported: Imported, users: frozenset[str], roles: Collection[str] | None
) -> Callable[[Collection[str] | None], Iterator[ImportedSession]]:
    """Gives the sessions of these users with turns of these roles; sessions without any are left out."""
    given = imported.sessions

    def make(some: Collection[str] | None) -> Iterator[ImportedSession]:
        asked = users if some is None else users & frozenset(some)
        for session in given.of(asked) if isinstance(given, LazySessions) else given:
            if session.user_id not in asked:
                continue
            kept = session.turns if roles is None else tuple(turn for turn in session.turns if turn.role in roles)
            if kept:
                yield session if len(kept) == len(session.turns) else replace(session, turns=kept)

    return make


def _without(question: Question, turns: Collection[str | None], sessions: Collection[str]) -> Question:
    """The question with the gold that is stored."""
    return replace(
        question,
        gold_turns=tuple(turn for turn in question.gold_turns if turn in turns),
        gold_sessions=tuple(session for session in question.gold_sessions if session in sessions),
    )


def type_name(benchmark: Benchmark, question_type: str) -> str:
    """A question type as reports show it: LoCoMo's with its number, "1 multi-hop"."""
    numbers = {name: number for number, name in CATEGORIES.items()} if benchmark == "locomo" else {}
    return f"{numbers[question_type]} {question_type}" if question_type in numbers else question_type


# --- storing


def fill(memory: Memory, dataset: Dataset, *, on_progress: Callable[[int], None] | None = None) -> None:
    """Store the histories of a dataset as users do, and embed them; what is there already is not stored again.

    Can be stopped anywhere and goes on from there. Without an embedder nothing is embedded.

    Args:
        memory: on a store that holds nothing else of these users.
        dataset: whose sessions.
        on_progress: called after each history with 1.

    Raises:
        InvalidInputError: the store holds other turns of a user than the dataset does, or refuses one.
        ModelError: the embedder can't be used.
    """
    for user, sessions in groupby(dataset.sessions, key=lambda session: session.user_id):
        _store(memory, user, list(sessions))
        if memory.embedder is not None:
            memory.index(user_id=user)
        if on_progress is not None:
            on_progress(1)


def _store(memory: Memory, user: str, sessions: Sequence[ImportedSession]) -> None:
    """Store what is missing of one user; sessions that are whole are not looked into."""
    wanted = {session.session_id: _size(session.turns) for session in sessions}
    there = {session.session_id: session.turns for session in memory.sessions(user_id=user)}
    for batch in _batches([session for session in sessions if there.get(session.session_id) != _size(session.turns)]):
        for session in batch:
            if session.session_id in there and any(turn.external_id is None for turn in session.turns):
                raise _other_data(user, session.session_id)  # turns without an id would be stored twice
        receipt = memory.add_turns([turn for session in batch for turn in session.turns], user_id=user)
        if receipt.rejected:
            reason = receipt.rejected[0].reason
            raise InvalidInputError(f"{len(receipt.rejected)} turns of user {user!r} can't be stored: {reason}")
    there = {session.session_id: session.turns for session in memory.sessions(user_id=user)}
    for session_id in {**wanted, **there}:
        if there.get(session_id) != wanted.get(session_id):
            raise _other_data(user, session_id)


def _size(turns: Sequence[TurnDraft]) -> int:
    """How many turns a session has in a store, where an external id is there once."""
    ids = {turn.external_id for turn in turns} - {None}
    return len(ids) + sum(turn.external_id is None for turn in turns)


def _batches(sessions: Sequence[ImportedSession]) -> Iterator[list[ImportedSession]]:
    batch: list[ImportedSession] = []
    turns = 0
    for session in sessions:
        batch.append(session)
        turns += len(session.turns)
        if turns >= _BATCH_TURNS:
            yield batch
            batch, turns = [], 0
    if batch:
        yield batch


def _other_data(user: str, session_id: str) -> InvalidInputError:
    return InvalidInputError(
        f"the store holds other turns of user {user!r}, session {session_id!r}, than the data set does",
        hint="use a store of its own for each data set and choice of roles",
    )


# --- looking up


def evidence_turns(memory: Memory, question: Question) -> list[Turn]:
    """The gold turns of a question as they are in the record, in the order of the labels.

    Raises:
        NotFoundError: one of them is not stored; `fill` stores them.
    """
    return memory.history(question.user_id).turns_by_id(question.gold_turns)
