"""Key utterances: the turns of a session that say something, by rules alone.

LeanMem, section 3.2, "Key Utterance Filtering": greetings, acknowledgements and restatements are dropped before a model
reads anything. The paper gives no rules; these are ours. A turn is dropped when

- it has no letter and no digit: a lone emoji, punctuation;
- it has at most six words and is nothing but phrases of a small lexicon: "Hi there!", "Ok, thanks a lot";
- its speaker said the same before in the session: its words stand in a row in the earlier turn, or four fifths of the
  words of both are common (Jaccard), it has no content word of its own, and both negate alike.

A turn is never dropped that holds a digit, an address, or a word with a capital that begins no sentence. A caption
counts as words of its turn. The lexicon is English with a little Spanish, German and French; turns in other languages
are dropped by the first and the last rule only. Dropped turns stay in the record, and in the spans around.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cache

from backread.store.history import HUMAN_ROLES
from backread.store.indexing import passage_text
from backread.text.analysis import Token, tokens
from backread.text.excerpts import sentences
from backread.types import Turn

__all__ = ["anchors", "is_chatter", "key_utterances"]

MOST_WORDS = 6
"""Words a turn of phrases may have to be dropped."""

SAME = 0.8
"""Share of common words from which a turn says what an earlier one said."""

_LEXICON = """
    hi, hiya, hello, hey, howdy, there, morning, good morning, good afternoon, good evening, good night, good day
    how are you, how are you doing, how's it going, what's up, nice to meet you, welcome back
    bye, goodbye, see you, see ya, see you later, see you soon, later, take care, talk soon, talk to you later
    have a nice day, have a great day, have a good one, good luck
    thanks, thank you, thx, ty, cheers, many thanks, much appreciated, appreciate it, i appreciate it, a lot, a bunch
    so much, very much, again, for everything, for that, for the help, for your help, you're welcome, you are welcome
    no problem, no worries, my pleasure, anytime, you too, please
    ok, okay, k, kk, yes, yeah, yep, yup, sure, sure thing, right, alright, all right, fine, got it, i see, understood
    makes sense, that makes sense, sounds good, sounds great, of course, for sure, will do, exactly, absolutely
    definitely, indeed, true, agreed, perfect, great, cool, nice, awesome, amazing, wow, oh, ah, aha, hm, hmm, haha, lol
    that's great, that's good, that's nice, that's cool, well, so, and, then, really, very, good, one, great idea
    good idea, good point, will do, congrats, congratulations

    hola, buenos días, buenas tardes, buenas noches, adiós, hasta luego, hasta pronto, gracias, muchas gracias, de nada
    vale, sí, claro, perfecto, entendido, muy bien, por favor
    hallo, guten morgen, guten tag, guten abend, gute nacht, tschüss, auf wiedersehen, bis bald, bis später, danke
    danke schön, vielen dank, bitte, ja, alles klar, genau, verstanden, prima, super, gut
    bonjour, bonsoir, salut, bonne nuit, au revoir, à bientôt, merci, merci beaucoup, de rien, d'accord, oui, bien sûr
    très bien, parfait, compris, s'il vous plaît
"""
_NEGATING = """
    no not never none nothing nobody neither nor cannot without
    nicht nie kein keine keinen keiner ohne
    nunca nada jamas sin ni
    ne pas rien sans aucun aucune
"""
_NEGATIONS = frozenset(_NEGATING.split())
_ADDRESS = re.compile(r"https?://|\bwww\.", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_][\w'’]*")
_FIRST_PERSON = re.compile(r"I(?:['’]\w+)?\Z")


def key_utterances(turns: Sequence[Turn]) -> list[Turn]:
    """The anchors among the turns of a session that say something new, in order; see the module for the rules."""
    kept: list[Turn] = []
    said: dict[str, _Said] = {}
    for turn in anchors(turns):
        text = passage_text(turn.text, turn.caption)
        if is_chatter(text):
            continue
        earlier = said.setdefault(turn.name, _Said())
        words = list(tokens(text))
        if not earlier.restated_by(words) or _is_protected(text):
            kept.append(turn)
        earlier.add(words)
    return kept


def anchors(turns: Sequence[Turn]) -> list[Turn]:
    """The turns of people: users, and everybody of a conversation between people. All turns where there are none."""
    people = [turn for turn in turns if turn.role in HUMAN_ROLES]
    return people or list(turns)


def is_chatter(text: str) -> bool:
    """Whether a text is only greetings, thanks and the like, or has no letter and no digit at all."""
    if not any(sign.isalnum() for sign in text):
        return True
    words = [token.surface for token in tokens(text) if any(sign.isalnum() for sign in token.surface)]
    return len(words) <= MOST_WORDS and _is_covered(words) and not _is_protected(text)


def _is_covered(words: Sequence[str]) -> bool:
    """Whether the words are phrases of the lexicon one after another, the longest first."""
    phrases = _phrases()
    longest = max(map(len, phrases))
    place = 0
    while place < len(words):
        sizes = (size for size in range(longest, 0, -1) if tuple(words[place : place + size]) in phrases)
        size = next(sizes, 0)
        if not size:
            return False
        place += size
    return True


def _is_protected(text: str) -> bool:
    if any(sign.isdigit() for sign in text) or _ADDRESS.search(text):
        return True
    starts = {start for start, _ in sentences(text)}
    return any(
        match.group()[0].isupper()
        and match.start() not in starts
        and not _FIRST_PERSON.match(match.group())
        and not _lexicon_words().issuperset(token.surface for token in tokens(match.group()))
        for match in _WORD.finditer(text)
    )


@cache
def _phrases() -> frozenset[tuple[str, ...]]:
    """The lexicon, its words as analysis folds them."""
    listed = (phrase for line in _LEXICON.splitlines() for phrase in line.split(",") if phrase.strip())
    return frozenset(tuple(token.surface for token in tokens(phrase)) for phrase in listed)


@cache
def _lexicon_words() -> frozenset[str]:
    """The words of the lexicon: with a capital they are no names."""
    return frozenset(word for phrase in _phrases() for word in phrase)


class _Said:
    """What one speaker said so far in a session."""

    def __init__(self) -> None:
        self._rows: list[str] = []
        self._words: list[frozenset[str]] = []
        self._negations: list[frozenset[str]] = []
        self._places: dict[str, list[int]] = {}

    def add(self, words: Sequence[Token]) -> None:
        for surface in {token.surface for token in words}:
            self._places.setdefault(surface, []).append(len(self._rows))
        self._rows.append(_row(words))
        self._words.append(frozenset(token.surface for token in words))
        self._negations.append(_negations(words))

    def restated_by(self, words: Sequence[Token]) -> bool:
        """Whether these words say again what an earlier turn said."""
        own = frozenset(token.surface for token in words)
        content = {token.surface for token in words if not token.stop}
        row, negations = _row(words), _negations(words)
        for place in self._holding(content or own):
            earlier = self._words[place]
            same = content <= earlier and len(own & earlier) >= SAME * len(own | earlier)
            if self._negations[place] == negations and (same or row in self._rows[place]):
                return True
        return False

    def _holding(self, words: Collection[str]) -> Sequence[int]:
        """Earlier turns that may hold all of these words: those with the rarest of them."""
        held = [self._places.get(word, []) for word in sorted(words)]
        return min(held, key=len, default=[])


def _row(words: Sequence[Token]) -> str:
    return f" {' '.join(token.surface for token in words)} "


def _negations(words: Sequence[Token]) -> frozenset[str]:
    """The words that negate; contracted ones count as "not", for they negate alike."""
    surfaces = {"not" if token.surface.endswith("n't") else token.surface for token in words}
    return frozenset(surfaces & _NEGATIONS)
