"""The form without a model: a scheduler, events and gists by rule, word for word from the conversation.

A segment is kept as the first of these that fits, in the paper's order of priority:

1. record, when details matter: an utterance of more than 120 words, or of three lines of a list, or with code;
2. event, when a sentence has a digit, an expression of time, or a word of change ("now", "no longer", "moved");
3. profile, when at least half of its sentences are stable descriptions of the speaker: "my … is", "I am a", "I like",
   "I live in", "I have a", "my name is", and the like in Spanish, German and French;
4. record.

Nothing is ignored. Dates are not resolved and nothing is rephrased: it stands in for the published design where there
is no model, and is no measure of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from backread.construction.segmentation import Segment
from backread.strategies.leanmem.dating import days_in
from backread.strategies.leanmem.routing import Attribute, Routing
from backread.text.cues import ASKS, time_expressions, turn_cues
from backread.text.excerpts import excerpt, sentences
from backread.text.support import content
from backread.text.tokens import EstimateCounter
from backread.types import Turn

__all__ = ["anchor_by_rule", "attributes_in", "gist_by_rule", "route_by_rule", "state_by_rule", "tells_change"]

_LONG = 120
_LIST = 3
_GIST = 60
_STATE = 80

_CHANGE = re.compile(
    r"\b(?:now|no longer|any ?more|used to|since|started|stopped|began|begun|quit|switched|changed|moved|became|become|"
    r"joined|left|bought|sold|finished|decided|planning|plan to|going to|got (?:an?|my|the|married|engaged)|"
    r"ahora|ya no|antes|desde|empecé|dejé|mudé|cambié|jetzt|nicht mehr|seit|früher|umgezogen|angefangen|aufgehört|"
    r"maintenant|depuis|avant|déménagé|commencé|arrêté)\b",
    re.IGNORECASE,
)
_LIST_LINE = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s", re.MULTILINE)
_CODE = re.compile(r"```|^ {4}\S.*[;{}()]$", re.MULTILINE)

_VALUE = r"(?P<value>[^.!?;\n]{2,80})"
_ADVERB = r"(?:(?:really|also|just|absolutely|do) )?"
_NOT_STABLE = (
    r"(?!\w+ing\b|(?:so|not|just|sure|sorry|glad|happy|excited|here|back|done|ready|afraid|ok|okay|fine|in|on|at)\b)"
)
_ATTRIBUTES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:my|our|mein|meine|mi|mon|ma|minha|meu) (?P<attribute>[\w' -]{{2,40}}?) "
        rf"(?:is|are|is called|are called|ist|sind|heißt|es|se llama|est|s'appelle|é|chama-se) {_VALUE}",
        rf"\bI(?:'m|’m| (?P<attribute>am)) {_NOT_STABLE}{_VALUE}",
        rf"\bI {_ADVERB}(?P<attribute>like|love|enjoy|hate|prefer|dislike|can't stand|don't like|have(?: got)?|own|"
        rf"live in|work (?:at|in|for|as)|come from|speak|collect|play|study) {_VALUE}",
        rf"\b(?:(?:ich )?(?P<attribute>heiße|mag|liebe|wohne in|arbeite (?:bei|als|in))) {_VALUE}",
        rf"\b(?P<attribute>me llamo|me gustan?|vivo en|trabajo (?:en|como)|prefiero) {_VALUE}",
        rf"\b(?P<attribute>je m'appelle|j'aime|j'habite (?:à|en)|je travaille (?:à|chez|comme)|je préfère) {_VALUE}",
    )
)


def route_by_rule(segment: Segment) -> Routing:
    """What the rules decide about a segment; see the module."""
    if any(_is_detailed(turn.text) for turn in segment.utterances):
        return Routing("record", segment.utterances)
    changed = tuple(turn for turn in segment.utterances if any(map(tells_change, _sentences(turn.text))))
    if changed:
        return Routing("event", changed)
    described = {turn.turn_id: attributes_in(turn.text) for turn in segment.utterances}
    attributes = tuple(dict.fromkeys(item for found in described.values() for item in found))
    said = sum(len(_sentences(turn.text)) for turn in segment.utterances)
    if attributes and 2 * sum(map(len, described.values())) >= said:
        return Routing("profile", tuple(turn for turn in segment.utterances if described[turn.turn_id]), attributes)
    return Routing("record", segment.utterances)


def tells_change(sentence: str) -> bool:
    """Whether a sentence has a digit, an expression of time or a word of change, and doesn't only ask."""
    if turn_cues(sentence) & ASKS:
        return False
    return bool(any(map(str.isdigit, sentence)) or time_expressions(sentence) or _CHANGE.search(sentence))


def attributes_in(text: str) -> list[Attribute]:
    """Stable descriptions of the speaker, at most one a sentence, in order; the attribute is a word of the sentence."""
    found = []
    for sentence in _sentences(text):
        if turn_cues(sentence) & ASKS:
            continue
        for pattern in _ATTRIBUTES:
            match = pattern.search(sentence)
            if match:
                attribute = match["attribute"] or "am"
                found.append(Attribute(" ".join(attribute.split()), " ".join(match["value"].split())))
                break
    return found


def state_by_rule(turns: Sequence[Turn]) -> str:
    """What an event says: the sentences that tell of time or change, in order, as much as fits 80 tokens."""
    told = [sentence for turn in turns for sentence in _sentences(turn.text) if tells_change(sentence)]
    return _filled(told or [turn.text for turn in turns], _STATE)


def anchor_by_rule(turns: Sequence[Turn]) -> str:
    """The only date with a year that is said; "" where there is none, or several."""
    said = {days for turn in turns for days in days_in(turn.text)}
    if len(said) != 1:
        return ""
    (days,) = said
    return days.first.isoformat() if days.first == days.last else days.first.isoformat()[:7]


def gist_by_rule(turns: Sequence[Turn]) -> str:
    """The sentences that say most by their content words, in order, as much as fits 60 tokens."""
    said = [sentence for turn in turns for sentence in _sentences(turn.text)]
    said = said or [turn.caption for turn in turns if turn.caption] or [turn.text for turn in turns]
    counter = EstimateCounter()
    room = _GIST
    chosen: list[int] = []
    for place in sorted(range(len(said)), key=lambda place: -len(content(said[place]))):
        cost = counter.count(said[place])
        if cost <= room:
            chosen.append(place)
            room -= cost
    return " ".join(said[place] for place in sorted(chosen)) or _filled(said, _GIST)


def _sentences(text: str) -> list[str]:
    return [" ".join(text[start:end].split()) for start, end in sentences(text)]


def _is_detailed(text: str) -> bool:
    return len(text.split()) > _LONG or len(_LIST_LINE.findall(text)) >= _LIST or _CODE.search(text) is not None


def _filled(texts: Sequence[str], room: int) -> str:
    """Texts one after another as long as they fit; the beginning of the first when that alone is too long."""
    count = EstimateCounter().count
    start, end = excerpt(texts[0], (), max_tokens=room, count=count)
    filled = texts[0][start:end]
    for text in texts[1:]:
        if count(f"{filled} {text}") > room:
            break
        filled = f"{filled} {text}"
    return filled
