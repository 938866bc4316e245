"""Questions about a history for those who have none: drafted, so marked, and to be looked through by a person.

Turns that say something rare are chosen, spread over the sessions. A chat model asks about each in other words; without
one the question repeats two of its words ("What did Marta say about the copper kettle?"), which no other turn has
together. Such questions are easy for search by words and ask nothing that takes two turns: they compare designs on what
they are about, and a person's own questions are better.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

import pydantic

from backread.bench.deciding import DRAFTED
from backread.construction.prompt_files import read_prompt
from backread.errors import InvalidInputError, ModelOutputError
from backread.importers.base import ImportedSession
from backread.importers.jsonl import read_jsonl
from backread.models.base import ChatMessage, ChatModel
from backread.models.structured import complete_as
from backread.text.analysis import Token, tokens
from backread.text.cues import ASKS, time_expressions, turn_cues
from backread.text.excerpts import sentences
from backread.text.fencing import fence, quote
from backread.text.support import support
from backread.text.times import format_time
from backread.types import TurnDraft

__all__ = ["Draft", "Drafted", "draft_file", "draft_questions", "write_questions"]

_NOBODY: Final = "own"
"""Whose the messages are that name no user, as everywhere in experiments."""

_CONTENT_WORDS: Final = 4
"""Content words from which a sentence says something."""

_LONGEST: Final = 60
"""Words of a sentence at most: longer ones are lists and code."""

_LETTERS: Final = 4
"""Of a Latin word that a question repeats, at least: shorter ones are often function words of another language."""

_AROUND: Final = 3
"""Turns before and after that a model sees."""

_SHOWN: Final = 1000
"""Characters of a turn that a model sees."""

_MAX_TOKENS: Final = 300

_ASKED: Final = ("user", "participant", "assistant")
_WHO: Final = {"user": "I", "assistant": "the assistant"}


class _Reply(pydantic.BaseModel):
    """What a model writes."""

    model_config = pydantic.ConfigDict(extra="forbid")

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A drafted question; `gold_turn` is the external id of the turn that gives the answer."""

    question: str
    answer: str
    user_id: str
    gold_turn: str


@dataclass(frozen=True, slots=True)
class Drafted:
    """What was drafted, in the order of the history; `unusable` replies of the model were left out."""

    drafts: tuple[Draft, ...]
    unusable: int = 0


@dataclass(frozen=True, slots=True)
class _Spot:
    """A sentence to ask about. `place` is its turn's in the session, `words` two that no other turn has together."""

    session: ImportedSession
    place: int
    text: str
    words: str
    worth: float

    @property
    def turn(self) -> TurnDraft:
        return self.session.turns[self.place]

    @property
    def gold(self) -> str:
        assert self.turn.external_id is not None
        return self.turn.external_id


def draft_file(history: Path, questions: Path, count: int, *, chat: ChatModel | None = None) -> Drafted:
    """Draft questions about the messages of one file into another, which experiments read; returns what was written.

    Raises:
        ImportFormatError: the history can't be read.
        InvalidInputError: there is a file of that name, or as `draft_questions` says.
        ModelError: as `draft_questions` says.
    """
    if questions.exists():
        raise InvalidInputError(
            f"{questions} is there already", hint="name another file: it may hold what somebody mended"
        )
    drafted = draft_questions(read_jsonl(history, user_id=_NOBODY).sessions, count, chat=chat)
    write_questions(questions, drafted)
    return drafted


def draft_questions(sessions: Iterable[ImportedSession], count: int, *, chat: ChatModel | None = None) -> Drafted:
    """At most `count` questions, at most one about a turn; always the same ones where no model is asked.

    Args:
        sessions: of a history, or of several; turns without an external id can't be asked about.
        count: how many.
        chat: writes the questions; None makes them by rule. Its calls have the purpose "build".

    Raises:
        InvalidInputError: `count` is below 1, or no turn can be asked about.
        ModelError: the model can't be asked; a reply that can't be used only leaves its question out.
    """
    if count < 1:
        raise InvalidInputError(f"at least 1 question can be drafted, not {count}")
    kept = [session for session in sessions if session.turns]
    by_user: dict[str, list[ImportedSession]] = defaultdict(list)
    for session in kept:
        by_user[session.user_id].append(session)
    spots = [_spots(own) for own in by_user.values()]
    chosen = _spread([session for user in spots for session in user], count)
    if not chosen:
        raise InvalidInputError(
            "there is no turn to ask about", hint="turns need ids, and words that don't stand in all of them"
        )
    place = {id(session): number for number, session in enumerate(kept)}
    chosen.sort(key=lambda spot: (place[id(spot.session)], spot.place))
    if chat is None:
        return Drafted(tuple(_by_rule(spot) for spot in chosen))
    drafts = [_by_model(spot, chat) for spot in chosen]
    return Drafted(tuple(draft for draft in drafts if draft is not None), sum(draft is None for draft in drafts))


def write_questions(path: Path, drafted: Drafted) -> None:
    """Write questions as `own_questions` reads them, to be looked through; each is marked by its type."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for number, draft in enumerate(drafted.drafts, 1):
            line = {
                "question_id": f"{DRAFTED}-{number}",
                "question_type": DRAFTED,
                "user": draft.user_id,
                "question": draft.question,
                "answer": draft.answer,
                "gold_turns": [draft.gold_turn],
            }
            file.write(json.dumps(line) + "\n")


# --- what to ask about


def _spots(sessions: Sequence[ImportedSession]) -> list[list[_Spot]]:
    """The sentences of one user's sessions that can be asked about, the best first in each session."""
    stems = {
        (number, place): {token.stem for token in tokens(turn.text) if not token.stop}
        for number, session in enumerate(sessions)
        for place, turn in enumerate(session.turns)
    }
    holders: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for where, own in stems.items():
        for stem in own:
            holders[stem].add(where)
    found = []
    for session_place, session in enumerate(sessions):
        best: list[_Spot] = []
        for place, turn in enumerate(session.turns):
            if turn.external_id is None or turn.role not in _ASKED:
                continue
            here = _Here(session, place, (session_place, place), holders, len(stems))
            spots = [spot for start, end in sentences(turn.text) if (spot := here.spot(turn.text[start:end]))]
            if spots:
                best.append(max(spots, key=lambda spot: spot.worth))
        found.append(sorted(best, key=lambda spot: (-spot.worth, spot.place)))
    return found


@dataclass(frozen=True, slots=True)
class _Here:
    """A turn, and which turns of the user hold which stem."""

    session: ImportedSession
    place: int
    where: tuple[int, int]
    holders: Mapping[str, set[tuple[int, int]]]
    turns: int

    def spot(self, text: str) -> _Spot | None:
        """A sentence of the turn as something to ask about; None when it says too little, asks itself, or is code."""
        words = [token for token in tokens(text) if not token.stop]
        stems = {word.stem for word in words}
        if not _CONTENT_WORDS <= len(stems) <= _LONGEST or turn_cues(text) & ASKS:
            return None
        times = time_expressions(text)
        told = any(sign.isdigit() for sign in text) or bool(times)
        names = {token.stem for turn in self.session.turns for token in tokens(turn.speaker or "")}
        usable = [
            word
            for word in words
            if (len(word.stem) >= _LETTERS or not word.stem.isascii())
            and word.stem not in names
            and not any(sign.isdigit() for sign in word.stem)
            and not any(start < word.end and word.start < end for start, end in times)
        ]
        pair = self._pair(usable)
        if pair is None:
            return None
        # In a fixed order: sums of floats must not depend on how a set happens to be laid out.
        rarity = math.fsum(self._rarity(stem) for stem in sorted(stems)) / len(stems)
        return _Spot(self.session, self.place, text, _phrase(text, *pair), rarity + told)

    def _pair(self, words: Sequence[Token]) -> tuple[Token, Token] | None:
        """The two rarest words that no other turn has together; words that are nowhere else only if there must be."""
        first: dict[str, Token] = {}
        for word in words:
            first.setdefault(word.stem, word)
        pairs = [
            (one, other)
            for one, other in combinations(first.values(), 2)
            if self.holders[one.stem] & self.holders[other.stem] == {self.where}
        ]
        known = [pair for pair in pairs if all(len(self.holders[word.stem]) > 1 for word in pair)]
        return max(known or pairs, key=lambda pair: sum(self._rarity(word.stem) for word in pair), default=None)

    def _rarity(self, stem: str) -> float:
        return math.log(self.turns / len(self.holders[stem]))


def _phrase(text: str, one: Token, other: Token) -> str:
    """Two words of a sentence, as they stand there when they stand side by side."""
    if not text[one.end : other.start].strip():
        return text[one.start : other.end]
    return f"{text[one.start : one.end]} and {text[other.start : other.end]}"


def _spread(sessions: Sequence[Sequence[_Spot]], count: int) -> list[_Spot]:
    """The best spot of every session, then the second best, until there are `count`; the last ones evenly spread."""
    chosen: list[_Spot] = []
    for level in range(max((len(spots) for spots in sessions), default=0)):
        here = [spots[level] for spots in sessions if len(spots) > level]
        left = count - len(chosen)
        if len(here) > left:
            here = [here[(2 * number + 1) * len(here) // (2 * left)] for number in range(left)]
        chosen += here
        if len(chosen) == count:
            break
    return chosen


# --- how to ask


def _by_rule(spot: _Spot) -> Draft:
    turn = spot.turn
    who = turn.speaker or _WHO.get(turn.role, turn.role)
    return Draft(f"What did {who} say about {spot.words}?", spot.text, spot.session.user_id, spot.gold)


def _by_model(spot: _Spot, chat: ChatModel) -> Draft | None:
    """The model's question; None when the reply can't be used, or its answer shares no word with the turn."""
    first = max(0, spot.place - _AROUND)
    around = spot.session.turns[first : spot.place + _AROUND + 1]
    prompt = read_prompt("backread.bench", "draft")
    form = prompt.form.replace("{number}", str(spot.place - first + 1))
    lines = [f"[{number}] {quote(_line(turn))}" for number, turn in enumerate(around, 1)]
    messages = [
        ChatMessage("system", prompt.rules),
        ChatMessage("user", f"{fence(lines, label='lines')}\n\n{form}"),
    ]
    try:
        reply = complete_as(chat, messages, _Reply, purpose="build", max_tokens=_MAX_TOKENS).value
    except ModelOutputError:
        return None
    question, answer = " ".join(reply.question.split()), " ".join(reply.answer.split())
    if not question or not support(answer, [spot.turn.text]).spans:
        return None
    return Draft(question, answer, spot.session.user_id, spot.gold)


def _line(turn: TurnDraft) -> str:
    text = turn.text if len(turn.text) <= _SHOWN else f"{turn.text[:_SHOWN]} […]"
    return f"{format_time(turn.said_at)} {turn.speaker or turn.role}: {text}"
