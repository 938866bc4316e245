"""LongMemEval in a compact form: a folder in which every session is stored once, however many haystacks it is in.

    questions.jsonl.xz              question_id, question_type, question, answer, question_date, answer_session_ids,
                                    evidence: [{session_id, date, has_answer_turns: [0-based]}]
    sessions.jsonl.xz               session_id, turns: [[role, text] or null], withheld
    haystacks_real.jsonl.xz         question_id, session_ids, dates, question_date
    haystacks_like_*.jsonl.xz       question_id, session_ids, dates

Variants: "oracle" (all questions, each over its evidence sessions alone), "s-real" (the questions whose haystack of
longmemeval_s is known) and "s-like" (all questions: those haystacks, and reconstructed ones for the others).

What is read from it is what `read_longmemeval` reads from the file it stands for, by the same code and with the same
ids, without that file ever being written or held. A turn that is null, because its text could not be had, keeps its
number, so that ids are those of the official file; it counts as a blank message.

The data's hash is the SHA-256 of the hashes of the files read, in hexadecimal, sorted and joined by line feeds.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from backread.bench.sessions import LazySessions
from backread.errors import ImportFormatError
from backread.importers.base import Imported, ImportedSession, Question, Tally, open_file
from backread.importers.longmemeval import read_items

__all__ = ["Compact", "Variant", "read_compact"]

Variant = Literal["oracle", "s-real", "s-like"]

QUESTIONS = "questions.jsonl.xz"
SESSIONS = "sessions.jsonl.xz"
REAL = "haystacks_real.jsonl.xz"
LIKE = "haystacks_like_*.jsonl.xz"

_GAP: Mapping[str, Any] = {"role": "assistant", "content": ""}

_T = TypeVar("_T")
_Turn = tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Compact:
    """What a folder holds of one variant.

    Attributes:
        imported: as `read_longmemeval` gives it, except that `sessions` are of the roles asked for; the report counts
            all turns. Iterating makes the sessions anew from texts that are held once.
        reconstructed: ids of questions whose haystack isn't the official one.
        gaps: ids of questions with evidence sessions that lack turns, every one of them an assistant's.
        withheld: ids of questions with sessions whose text is replaced by a placeholder.
    """

    imported: Imported
    reconstructed: frozenset[str]
    gaps: frozenset[str]
    withheld: frozenset[str]


def read_compact(
    folder: Path, variant: Variant, *, roles: Collection[str] | None = None, zone: tzinfo = UTC
) -> Compact:
    """The histories and questions of one variant; see this module's text.

    Args:
        folder: holds the files.
        variant: which haystacks.
        roles: only turns of these roles are in the sessions, and only their texts stay in memory; None is all.
        zone: where a time without offset was said.

    Raises:
        ImportFormatError: a file can't be read or isn't as described; says which line.
    """
    haystacks, files = _haystacks(folder, variant)
    pool, withheld = _pool(folder / SESSIONS, {item for haystack in haystacks for item in haystack.session_ids})
    _check_sessions(haystacks, pool, folder)
    tally = Tally()
    questions: list[Question] = []
    for sessions, question in read_items((haystack.item(pool) for haystack in haystacks), zone, tally):
        for session in sessions:
            tally.add(session)
        questions.append(question)
    tally.users = tally.questions = len(questions)
    gaps = frozenset(h.question_id for h in haystacks if any(None in pool[item] for item in h.labels if item in pool))
    if roles is not None:
        pool = {key: [turn if turn and turn[0] in roles else None for turn in turns] for key, turns in pool.items()}

    def make(users: Collection[str] | None) -> Iterator[ImportedSession]:
        items = (haystack.item(pool) for haystack in haystacks if users is None or haystack.question_id in users)
        for own, _ in read_items(items, zone, Tally()):
            yield from own

    count = tally.sessions if roles is None else sum(1 for _ in make(None))
    report = tally.report("longmemeval-compact", _folder_hash(files))
    return Compact(
        imported=Imported(LazySessions(make, count), tuple(questions), report),
        reconstructed=frozenset(haystack.question_id for haystack in haystacks if haystack.reconstructed),
        gaps=gaps,
        withheld=frozenset(h.question_id for h in haystacks if not withheld.isdisjoint(h.session_ids)),
    )


class _Haystack(NamedTuple):
    """One question with the sessions it is asked over; `labels` are the gold turns of its evidence sessions."""

    question_id: str
    question: Mapping[str, Any]
    question_date: str | None
    session_ids: list[str]
    dates: list[str]
    labels: Mapping[str, frozenset[int]]
    reconstructed: bool

    def item(self, pool: Mapping[str, list[_Turn]]) -> dict[str, Any]:
        """The question as an item of a LongMemEval file."""
        keys = ("question_type", "question", "answer", "answer_session_ids")
        return {
            **{key: self.question.get(key) for key in keys},
            "question_id": self.question_id,
            "question_date": self.question_date,
            "haystack_session_ids": self.session_ids,
            "haystack_dates": self.dates,
            "haystack_sessions": [_marked(pool[item], self.labels.get(item, frozenset())) for item in self.session_ids],
        }


def _marked(turns: list[_Turn], gold: Collection[int]) -> list[Mapping[str, Any]]:
    """The turns of a session as a LongMemEval file has them."""
    return [
        _GAP if turn is None else {"role": turn[0], "content": turn[1], "has_answer": number in gold}
        for number, turn in enumerate(turns)
    ]


def _haystacks(folder: Path, variant: Variant) -> tuple[list[_Haystack], list[Path]]:
    """The haystacks of a variant in the order of the questions, and the files that make it up."""
    files = [folder / QUESTIONS, folder / SESSIONS]
    real: dict[str, _Row] = {}
    like: dict[str, _Row] = {}
    if variant != "oracle":
        files.append(folder / REAL)
        real = {row.get("question_id", str): row for row in _rows(files[-1])}
    if variant == "s-like":
        files.append(_like_file(folder))
        like = {row.get("question_id", str): row for row in _rows(files[-1])}
    found: list[_Haystack] = []
    taken: set[str] = set()
    for row in _rows(folder / QUESTIONS):
        question_id = row.get("question_id", str)
        if question_id in taken:
            raise ImportFormatError(f"{row.where}: question_id {question_id!r} is there twice")
        taken.add(question_id)
        evidence = [_Row(row.where, item) for item in row.list_of("evidence", dict)]
        row.get("question", str)  # the importer would leave the item out
        labels = {item.get("session_id", str): frozenset(item.list_of("has_answer_turns", int)) for item in evidence}
        chosen = real.get(question_id) or like.get(question_id)
        if variant == "oracle":
            ids, dates = (
                [item.get("session_id", str) for item in evidence],
                [item.get("date", str) for item in evidence],
            )
        elif chosen is not None:
            ids, dates = chosen.list_of("session_ids", str), chosen.list_of("dates", str)
        else:
            continue
        dated = real.get(question_id, row)
        date, made_up = dated.values.get("question_date"), variant == "s-like" and question_id not in real
        found.append(_Haystack(question_id, row.values, date, ids, dates, labels, made_up))
    if not found:
        raise ImportFormatError(f"{folder} holds no question of the variant {variant!r}")
    return found, files


def _like_file(folder: Path) -> Path:
    found = sorted(folder.glob(LIKE))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise ImportFormatError(f"{folder} must hold one file {LIKE}; there is {names}")
    return found[0]


def _pool(path: Path, wanted: Collection[str]) -> tuple[dict[str, list[_Turn]], frozenset[str]]:
    """The turns of the sessions that are wanted, and which of those are withheld."""
    pool: dict[str, list[_Turn]] = {}
    withheld = set()
    for row in _rows(path):
        session_id = row.get("session_id", str)
        if session_id not in wanted:
            continue
        pool[session_id] = [row.turn(turn) for turn in row.get("turns", list)]
        if row.values.get("withheld"):
            withheld.add(session_id)
    return pool, frozenset(withheld)


def _check_sessions(haystacks: list[_Haystack], pool: Collection[str], folder: Path) -> None:
    for haystack in haystacks:
        for session_id in haystack.session_ids:
            if session_id not in pool:
                raise ImportFormatError(
                    f"{folder}: {haystack.question_id} is asked over the session {session_id!r}, which"
                    f" {SESSIONS} doesn't hold"
                )


class _Row(NamedTuple):
    """One object of a file, with where it stands."""

    where: str
    values: Mapping[str, Any]

    def get(self, key: str, kind: type[_T]) -> _T:
        """The value of a key that must be there."""
        value = self.values.get(key)
        if not isinstance(value, kind):
            raise ImportFormatError(f"{self.where}: {key} is missing or not a {kind.__name__}")
        return value

    def list_of(self, key: str, kind: type[_T]) -> list[_T]:
        """The value of a key that must be a list of these."""
        values: list[_T] = self.get(key, list)
        if not all(isinstance(value, kind) for value in values):
            raise ImportFormatError(f"{self.where}: {key} is not a list of {kind.__name__}")
        return values

    def turn(self, given: object) -> _Turn:
        """A turn, None where its text is not known."""
        if given is None:
            return None
        if isinstance(given, list) and len(given) == 2:
            role, text = given
            if isinstance(role, str) and isinstance(text, str):
                return role, text
        raise ImportFormatError(f"{self.where}: a turn is [role, text] or null")


def _rows(path: Path) -> Iterator[_Row]:
    """The objects of a compressed file of JSON lines."""
    with open_file(path) as raw, lzma.open(raw, "rb") as file:
        number = 0
        while True:
            number += 1
            where = f"{path}, line {number}"
            try:
                line = file.readline()
            except (lzma.LZMAError, EOFError) as error:
                raise ImportFormatError(f"{path} is not a whole xz file: {error}") from error
            if not line:
                return
            try:
                values = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ImportFormatError(f"{where}: {error}") from error
            if not isinstance(values, dict):
                raise ImportFormatError(f"{where}: not an object")
            yield _Row(where, values)


def _folder_hash(files: list[Path]) -> str:
    hashes = []
    for path in files:
        with open_file(path) as file:
            hashes.append(hashlib.sha256(file.read()).hexdigest())
    return hashlib.sha256("\n".join(sorted(hashes)).encode()).hexdigest()
