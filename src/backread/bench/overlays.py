"""Audits of a benchmark's answer key: gold labels that are corrected, and gold answers that are disputed.

LoCoMo: `errors.json` of dial481/locomo-audit, a list of objects with question_id ("locomo_<conversation>_qa<index>",
the conversation by its place in the file), question, golden_answer, error_type, correct_answer and correct_evidence.
LongMemEval: JSON lines, `.xz` or not, with question_id, official_answer, reme_answer and reme_answer_session_ids: the
answers that agentscope-ai/ReMe revised.

What an entry does to its question:

- WRONG_CITATION says that the answer is right and the turns are wrong: it corrects the gold turns alone. What such an
  entry gives as answer is a comment.
- Any other error_type, and a revised answer, says that the answer is wrong: the question is disputed, and gets the
  answer and the evidence that the entry gives. Those are the auditor's opinion, often in words that only a judge can
  use: report accuracy without the disputed questions as well.
- Evidence is replaced by what the entry names. An entry whose answer is another one and that names no evidence says
  that the history doesn't tell: the question becomes one to abstain from.

An entry must be about the question it names: when the texts differ, the overlay is of other data and is refused.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pydantic

from backread.errors import ImportFormatError, InvalidInputError
from backread.importers.base import Imported, Question, answer_text, open_file
from backread.importers.locomo import parse_evidence

__all__ = ["Overlaid", "overlaid"]

_CITATION_ONLY = "WRONG_CITATION"
_REVISED = "REVISED_ANSWER"
_ModelT = TypeVar("_ModelT", bound=pydantic.BaseModel)
_LOCOMO_ID = re.compile(r"locomo_(\d+)_qa(\d+)")


@dataclass(frozen=True, slots=True)
class Overlaid:
    """Questions with what an overlay says of them.

    Attributes:
        questions: all of them, in the order given, corrected.
        disputed: question id -> kind of error, for those whose gold answer is said to be wrong.
        answers: ids of questions with another gold answer than before.
        evidence: ids of questions with other gold turns or sessions than before.
        unknown: entries that name no question of the data.
        name: of the overlay's file.
        sha256: of the overlay's bytes.
    """

    questions: tuple[Question, ...]
    disputed: Mapping[str, str]
    answers: frozenset[str]
    evidence: frozenset[str]
    unknown: tuple[str, ...]
    name: str
    sha256: str

    def note(self, question_ids: Collection[str]) -> str:
        """What was done to these questions, in a sentence that belongs beside every figure."""
        disputed, answers, evidence = (
            len(found & set(question_ids)) for found in (self.disputed.keys(), self.answers, self.evidence)
        )
        left = f"; {len(self.unknown)} of its entries name no question of the data" if self.unknown else ""
        return (
            f"The answer key was corrected by {self.name} (sha256 {self.sha256[:12]}): {answers} gold answers and the"
            f" evidence of {evidence} questions are not the benchmark's; {disputed} questions count as disputed{left}."
        )


def overlaid(path: Path, benchmark: str, imported: Imported) -> Overlaid:
    """The questions of `imported` with the corrections of an overlay; see this module's text.

    Args:
        path: the overlay.
        benchmark: "locomo" or "longmemeval".
        imported: all questions, before any are chosen.

    Raises:
        ImportFormatError: the file can't be read as an overlay of this benchmark; says which entry.
        InvalidInputError: it is of other data, or there are no overlays of this benchmark.
    """
    readers: Mapping[str, Callable[[Path, bytes, Imported], Iterator[_Entry]]]
    readers = {"locomo": _locomo, "longmemeval": _longmemeval}
    if benchmark not in readers:
        raise InvalidInputError(f"there are no overlays of {benchmark!r}; they are of {' and '.join(sorted(readers))}")
    with open_file(path) as file:
        data = file.read()
    corrected = {question.question_id: question for question in imported.questions}
    disputed: dict[str, str] = {}
    unknown: list[str] = []
    for entry in readers[benchmark](path, data, imported):
        question = corrected.get(entry.question_id)
        if question is None:
            unknown.append(entry.named)
            continue
        entry.check(question, path)
        corrected[entry.question_id] = entry.applied(question)
        if entry.disputed is not None:
            disputed[entry.question_id] = entry.disputed
    pairs = list(zip(imported.questions, corrected.values(), strict=True))
    return Overlaid(
        questions=tuple(corrected.values()),
        disputed=disputed,
        answers=frozenset(new.question_id for old, new in pairs if new.answer != old.answer),
        evidence=frozenset(new.question_id for old, new in pairs if _gold(new) != _gold(old)),
        unknown=tuple(unknown),
        name=path.name,
        sha256=hashlib.sha256(data).hexdigest(),
    )


class _Entry(NamedTuple):
    """What an overlay says of one question; None leaves what is there.

    `named` is the question as the overlay calls it, `text` and `old` are the question and the answer it speaks of.
    """

    named: str
    question_id: str
    text: str | None
    old: str | None
    disputed: str | None
    answer: str | None
    gold_turns: tuple[str, ...] | None
    gold_sessions: tuple[str, ...]

    def check(self, question: Question, path: Path) -> None:
        """Raises InvalidInputError when the entry is of another question."""
        for what, said, there in (("question", self.text, question.question), ("answer", self.old, question.answer)):
            if said is not None and said != there:
                raise InvalidInputError(
                    f"{path}: {self.named} has another {what} in the data, so this overlay is of other data",
                    hint="use the version of the data that was audited",
                )

    def applied(self, question: Question) -> Question:
        """The question corrected."""
        new = question if self.answer is None else replace(question, answer=self.answer)
        if self.gold_turns is not None:
            new = replace(new, gold_turns=self.gold_turns, gold_sessions=self.gold_sessions)
            if new.answer != question.answer and not self.gold_sessions:
                new = replace(new, abstention=True)
        return new


def _gold(question: Question) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(question.gold_turns), frozenset(question.gold_sessions)


class _Audited(pydantic.BaseModel):
    """An entry of LoCoMo's audit; keys that aren't used are ignored."""

    question_id: str = pydantic.Field(pattern=_LOCOMO_ID.pattern)
    question: str
    golden_answer: str
    error_type: str = pydantic.Field(min_length=1)
    correct_answer: str | None = None
    correct_evidence: list[str] | None = None


class _Revised(pydantic.BaseModel):
    """A line of LongMemEval's overlay; keys that aren't used are ignored."""

    question_id: str
    official_answer: Any
    reme_answer: Any
    reme_answer_session_ids: list[str] | None = None


def _locomo(path: Path, data: bytes, imported: Imported) -> Iterator[_Entry]:
    users = list(dict.fromkeys(session.user_id for session in imported.sessions))
    session_of: dict[str, dict[str, str]] = {user: {} for user in users}
    for session in imported.sessions:
        session_of[session.user_id] |= {turn.external_id or "": session.session_id for turn in session.turns}
    try:
        given = json.loads(data)
    except ValueError as error:
        raise ImportFormatError(f"{path}: {error}") from error
    for number, value in enumerate(given if isinstance(given, list) else [given]):
        item = _valid(_Audited, value, f"{path}, entry {number}")
        match = _LOCOMO_ID.fullmatch(item.question_id)
        user = users[int(match[1])] if match and int(match[1]) < len(users) else None
        if match is None or user is None:
            yield _Entry(item.question_id, "", None, None, None, None, None, ())
            continue
        turns: Sequence[str] | None = None
        if item.correct_evidence is not None:
            turns, odd = parse_evidence(item.correct_evidence, session_of[user])
            if odd:
                raise ImportFormatError(f"{path}: {item.question_id} has the evidence {odd[0][0]!r}: {odd[0][1]}")
        wrong = item.error_type != _CITATION_ONLY
        yield _Entry(
            named=item.question_id,
            question_id=f"{user}:{int(match[2])}",
            text=item.question,
            old=item.golden_answer,
            disputed=item.error_type if wrong else None,
            answer=item.correct_answer or None if wrong else None,
            gold_turns=None if turns is None else tuple(turns),
            gold_sessions=tuple(dict.fromkeys(session_of[user][turn] for turn in turns or ())),
        )


def _longmemeval(path: Path, data: bytes, imported: Imported) -> Iterator[_Entry]:
    before = {question.question_id: question for question in imported.questions}
    if path.suffix == ".xz":
        try:
            data = lzma.decompress(data)
        except lzma.LZMAError as error:
            raise ImportFormatError(f"{path} is not a whole xz file: {error}") from error
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except ValueError as error:
            raise ImportFormatError(f"{where}: {error}") from error
        item = _valid(_Revised, value, where)
        old, new = answer_text(item.official_answer), answer_text(item.reme_answer)
        sessions = None if item.reme_answer_session_ids is None else tuple(item.reme_answer_session_ids)
        known = before.get(item.question_id)
        if known is not None and (added := set(sessions or ()) - set(known.gold_sessions)):
            raise ImportFormatError(
                f"{where}: {sorted(added)[0]!r} is not among the gold sessions; they can only be fewer"
            )
        # A turn's id is that of its session and its number.
        turns = [turn for turn in known.gold_turns if turn.rpartition(":")[0] in (sessions or ())] if known else []
        yield _Entry(
            named=item.question_id,
            question_id=item.question_id,
            text=None,
            old=old,
            disputed=None if new in (None, old) else _REVISED,
            answer=None if new == old else new,
            gold_turns=None if sessions is None else tuple(turns),
            gold_sessions=sessions or (),
        )


def _valid(model: type[_ModelT], value: object, where: str) -> _ModelT:
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'the entry'}: {fault['msg']}" for fault in error.errors()
        )
        raise ImportFormatError(f"{where}: {faults}") from error
