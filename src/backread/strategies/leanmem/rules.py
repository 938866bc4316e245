"""The form without a model: a scheduler, events and gists by rule, word for word from the conversation.

A segment is kept as the first of these that fits, in the paper's order of priority:

1. record, when a note could not hold it: its utterances have more than 80 tokens, three lines of a list, or code;
2. event, when a sentence has a digit, an expression of time, or a word of change ("now", "no longer", "moved");
3. profile, when each of its sentences, but for questions and greetings, is a stable description of the speaker: "my …
   is", "I am a", "I like", "I live in", "I have a", "my name is", and the like in Spanish, German and French;
4. record.

So no statement is lost, and none is ignored, dated or rephrased. It stands in for the published design where
there is no model, and is no measure of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from backread.construction.segmentation import Segment
from backread.construction.utterances import is_chatter
from backread.strategies.leanmem.dating import days_in
from backread.strategies.leanmem.routing import Attribute, Routing
from backread.text.cues import ASKS, time_expressions, turn_cues
from backread.text.excerpts import excerpt, sentences
from backread.text.support import content
from backread.text.tokens import EstimateCounter
from backread.types import Turn

__all__ = ["anchor_by_rule", "attributes_in", "gist_by_rule", "route_by_rule", "state_by_rule", "tells_change"]

_NOTE = 80  # tokens of an event
_GIST = 60
_LIST = 3

_CHANGE = re.compile(
    r"\b(?:now|no longer|any ?more|used to|since|started|stopped|began|begun|quit|switched|changed|moved|became|become|"
    r"joined|left|bought|sold|finished|decided|planning|plan to|going to|got (?:an?|my|the|married|engaged)|"
    r"ahora|ya no|antes|desde|empecé|dejé|mudé|cambié|jetzt|nicht mehr|seit|früher|umgezogen|angefangen|aufgehört|"
    r"maintenant|depuis|avant|déménagé|commencé|arrêté)\b",
    re.IGNORECASE,
)
_LIST_LINE = re.compile(r"^[^\S\n]*(?:[-*•]|\d{1,2}[.)])\s", re.MULTILINE)
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
    texts = [turn.text for turn in segment.utterances]
    if any(turn.caption for turn in segment.utterances) or any(map(_is_detailed, texts)) or _tokens(texts) > _NOTE:
        return Routing("record", segment.utterances)
    said = [sentence for text in texts for sentence in _sentences(text)]
    if any(map(tells_change, said)):
        return Routing("event", segment.utterances)
    attributes = [item for text in texts for item in attributes_in(text)]
    telling = [sentence for sentence in said if not (turn_cues(sentence) & ASKS or is_chatter(sentence))]
    if attributes and len(attributes) == len(telling):
        return Routing("profile", segment.utterances, tuple(dict.fromkeys(attributes)))
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
    """What an event says: what was said, each speaker's words after their name."""
    return " ".join(f"{turn.name}: {' '.join(turn.text.split())}" for turn in turns)


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
    count = EstimateCounter().count
    room = _GIST
    chosen: list[int] = []
    for place in sorted(range(len(said)), key=lambda place: -len(content(said[place]))):
        cost = count(said[place])
        if cost <= room:
            chosen.append(place)
            room -= cost
    if chosen:
        return " ".join(said[place] for place in sorted(chosen))
    start, end = excerpt(said[0], (), max_tokens=_GIST, count=count)
    return said[0][start:end]


def _sentences(text: str) -> list[str]:
    return [" ".join(text[start:end].split()) for start, end in sentences(text)]


def _is_detailed(text: str) -> bool:
    return len(_LIST_LINE.findall(text)) >= _LIST or _CODE.search(text) is not None


def _tokens(texts: Sequence[str]) -> int:
    return EstimateCounter().count(" ".join(texts))
