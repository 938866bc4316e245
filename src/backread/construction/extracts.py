"""An entry for each session without a model: names, times, topics and key sentences, word for word.

What `construction.episodes` has a model write, by rule: the same turns always give the same entry. Every sentence and
time keeps the span it was taken from. Nothing is resolved or rephrased: an entry says less than a model's would, and
nothing that was not said. Names are words with a capital, so scripts without case have none; topics are in any script.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

from backread.construction.episodes import Representation, draft
from backread.construction.sessions import Made, Make
from backread.text.analysis import tokens
from backread.text.cues import ASKS, time_expressions, turn_cues
from backread.text.excerpts import sentences
from backread.text.support import content
from backread.text.tokens import EstimateCounter
from backread.types import Session, Turn

__all__ = ["RECIPE", "extract_kind", "extract_maker"]

RECIPE = "extract-1"
"""Names these rules: entries of other rules are made again."""

_NAMES, _TIMES, _TOPICS, _RELATIONS = 12, 8, 10, 20
_TOKENS = 320  # of key sentences
_LONGEST = 60  # tokens of a key sentence: longer ones are lists and code
_ASKS = 0.4  # a sentence that asks says less
_TELLS = 1.3  # one that names a time or a number says more
_COVERED = 0.5  # what a word is worth when a sentence before has it
_STEMS = 3  # content words from which a sentence says something by itself; shorter ones fill what room is left

# What people say in every conversation, whatever it is about.
_CHAT = """
    absolutely agree amazing appreciate awesome bye congrats cool day definitely excited exciting fun glad good great
    haha happy hear hello hey hi hope keep kind know like little look lot love lovely luck make mean morning nice oh
    okay people please proud really right sound sounds sorry sure talk thank thanks thing things think time totally true
    want welcome wonderful wow yeah yep yes
"""

_WORD = re.compile(r"[^\W\d_][\w'’&-]*")
_APART = re.compile(r"[\s,]*(?:of |the |in )?")


class _Sentence(NamedTuple):
    turn: Turn
    start: int
    end: int
    stems: frozenset[str]
    words: int

    @property
    def text(self) -> str:
        return self.turn.text[self.start : self.end]


def extract_kind(representation: Representation) -> str:
    """The kind of entries that are made here, apart from those of a model."""
    return f"{representation}-extract"


def extract_maker(representation: Representation, *, strategy: str) -> Make:
    """Makes the entry of a session by rule; its id is "<kind>:<session id>".

    A page has names, times, topics and key sentences, a summary has key sentences, a graph has who speaks of which
    names and topics, and which names stand in one sentence.
    """

    def make(session: Session, turns: Sequence[Turn]) -> Made:
        said = _sentences(turns)
        names = _names(turns, said)
        data: dict[str, Any]
        if representation == "graph":
            data = {"relations": _relations(said, names, _topics(turns))}
        else:
            data = {"sentences": [_quoted(item) for item in _key_sentences(said, names)]}
        if representation == "episode":
            data |= {
                "topics": _topics(turns),
                "entities": [{"name": name} for name in names],
                "times": _times(turns),
            }
        return Made((draft(strategy, extract_kind(representation), session, turns, data),))

    return make


def _quoted(item: _Sentence) -> dict[str, Any]:
    place = {"turn_id": item.turn.turn_id, "start": item.start, "end": item.end}
    return {"text": " ".join(item.text.split()), "speaker": item.turn.name, **place}


def _sentences(turns: Sequence[Turn]) -> list[_Sentence]:
    speakers = set[str]().union(*(content(turn.name) for turn in turns))
    found = []
    for turn in turns:
        for start, end in sentences(turn.text):
            words = sum(1 for _ in tokens(turn.text[start:end]))
            stems = content(turn.text[start:end]) - speakers
            found.append(_Sentence(turn, start, end, frozenset(stems), words))
    return found


def _topics(turns: Sequence[Turn]) -> list[str]:
    """The content words of most turns, in the form they have first; speakers' names are no topic."""
    known = content(_CHAT).union(*(content(turn.name) for turn in turns))
    seen: Counter[str] = Counter()
    form: dict[str, str] = {}
    for turn in turns:
        here: dict[str, str] = {}
        for token in tokens(turn.text):
            if not (token.stop or token.stem in known or len(token.stem) < 2 or token.stem.isdigit()):
                here.setdefault(token.stem, turn.text[token.start : token.end])
        seen.update(here.keys())
        form = here | form
    return [form[stem] for stem, _ in seen.most_common(_TOPICS)]


def _names(turns: Sequence[Turn], said: Sequence[_Sentence]) -> list[str]:
    """Runs of words with a capital, the most frequent first, without speakers' names and times.

    The first word of a sentence has a capital anyway: it counts only with a name that stands elsewhere too.
    """
    speakers = set[str]().union(*(content(turn.name) for turn in turns))
    inside: Counter[str] = Counter()
    first: Counter[str] = Counter()
    for item in said:
        times = time_expressions(item.text)
        for start, end in _capitals(item.text):
            name = item.text[start:end]
            if any(begin < end and start < last for begin, last in times):
                continue
            if start == 0:
                first[name] += 1
                name = name.partition(" ")[2]
            if content(name).difference(speakers):
                inside[name] += 1
    for name, count in first.items():
        if name in inside:
            inside[name] += count
    return [name for name, _ in inside.most_common(_NAMES)]


def _capitals(text: str) -> list[tuple[int, int]]:
    """Spans of words with a capital that stand side by side, function words at their start left off."""
    spans: list[tuple[int, int]] = []
    for match in _WORD.finditer(text):
        word = re.sub(r"['’]s\Z", "", match.group())
        if not word[0].isupper() or (not content(word) and (not spans or spans[-1][1] != match.start() - 1)):
            continue
        end = match.start() + len(word)
        if spans and spans[-1][1] == match.start() - 1 and text[spans[-1][1]] == " ":
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((match.start(), end))
    return spans


def _times(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Expressions of time with their places, those that stand together as one."""
    found: list[dict[str, Any]] = []
    for turn in turns:
        joined: list[tuple[int, int]] = []
        for start, end in time_expressions(turn.text):
            if joined and _APART.fullmatch(turn.text, joined[-1][1], start):
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((start, end))
        found += [
            {"text": turn.text[start:end], "turn_id": turn.turn_id, "start": start, "end": end} for start, end in joined
        ]
    return found[:_TIMES]


def _key_sentences(said: Sequence[_Sentence], names: Sequence[str]) -> list[_Sentence]:
    """The sentences that say most of what the session is about, in order.

    As SumBasic (Nenkova & Vanderwende 2005): by the words most turns have, the worth of words that were said falling
    with every sentence taken. Differs in that turns are counted instead of words, names, times and numbers count more,
    and a sentence's sum is divided by the root of its length, as very short ones say too little to be read alone.
    """
    turns: dict[str, set[str]] = {}
    for item in said:
        turns.setdefault(item.turn.turn_id, set()).update(item.stems)
    worth = Counter(stem for stems in turns.values() for stem in stems)
    weights = {stem: math.log1p(count) for stem, count in worth.items()}
    for stem in set[str]().union(*map(content, names)):
        weights[stem] = weights.get(stem, 0.0) + 1.0
    counter = EstimateCounter()
    chat = content(_CHAT)
    left = {place: _factor(item) for place, item in enumerate(said) if item.words <= _LONGEST and item.stems - chat}
    full = [len(item.stems - chat) >= _STEMS for item in said]
    chosen: list[int] = []
    room = _TOKENS
    while left:
        best = max(left, key=lambda place: (full[place], left[place] * _sum(said[place], weights)))
        left.pop(best)
        cost = counter.count(f"{said[best].turn.name}: {said[best].text}\n")
        if cost > room:
            break
        room -= cost
        chosen.append(best)
        for stem in said[best].stems:
            weights[stem] *= _COVERED
    return [said[place] for place in sorted(chosen)]


def _sum(item: _Sentence, weights: dict[str, float]) -> float:
    # In a fixed order: sums of floats must not depend on how a set happens to be laid out.
    return sum(weights[stem] for stem in sorted(item.stems))


def _factor(item: _Sentence) -> float:
    tells = time_expressions(item.text) or any(sign.isdigit() for sign in item.text)
    factor = (_TELLS if tells else 1.0) * (_ASKS if turn_cues(item.text) & ASKS else 1.0)
    return factor / math.sqrt(item.words)


def _relations(said: Sequence[_Sentence], names: Sequence[str], topics: Sequence[str]) -> list[dict[str, Any]]:
    """Who speaks of which names and topics, and which names stand in one sentence; with the turns that say so."""
    mentioned: dict[tuple[str, str, str], dict[str, None]] = {}
    beside: dict[tuple[str, str, str], dict[str, None]] = {}
    things = {thing: content(thing) for thing in dict.fromkeys((*names, *topics))}
    for item in said:
        here = [name for name in names if name in item.text]
        for thing, stems in things.items():
            if thing in here or stems <= item.stems:
                mentioned.setdefault((item.turn.name, "mentions", thing), {})[item.turn.turn_id] = None
        for one, other in combinations(here, 2):
            beside.setdefault((one, "with", other), {})[item.turn.turn_id] = None
    return [
        {"subject": subject, "relation": relation, "object": thing, "turns": list(ids)}
        for (subject, relation, thing), ids in (*mentioned.items(), *list(beside.items())[:_RELATIONS])
    ]
