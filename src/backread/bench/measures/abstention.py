"""Whether an answer says that the history doesn't say: for questions that have no answer in it, by rules alone.

    abstained = 1 if the answer refuses or denies what the question takes for granted, and doesn't give the trap; else 0

Ours; there is no paper. LoCoMo's official score of adversarial questions takes two fixed phrases for all of it
(`f1.locomo_refusal`): other refusals fail there, and "Not mentioned, but probably red" passes.

An answer is read clause by clause: clauses end at punctuation, at words that turn a sentence ("but", "although",
"because", …) and at words that begin a guess ("probably", "I think", …). A clause refuses when

- one of `REFUSALS` is in it: it speaks of a record that says nothing, or of not knowing; or
- it denies: it has a negation and two words of the question ("Lena never owned a tractor"), one is enough after "no"
  or "not have" ("she has no tractor") and in a clause that begins with "not" or "never" ("it was Max, not Lena").

A trap counts as given when at least half of its content words that the question doesn't have are in clauses that don't
refuse. Inside one that does it is denied along with the rest ("there is no record of a red tractor").

The traps: rules see words, not sense. They are strict, so that a doubtful answer is wrong: a correction that repeats
the trap for someone else ("Lena has none; Max's is red") gets 0, and so does one without a negation ("that was Max").
They are English. And a design that always refuses gets 1 on every question: this is a line of its own, never a part of
accuracy on questions that have an answer. Where a judge is at hand, its verdict is the better one.
"""

from __future__ import annotations

import re

from backread.text.analysis import tokens

__all__ = ["REFUSALS", "abstained"]

_SAID = r"(?:mentioned|stated|specified|discussed|recorded|documented|disclosed|indicated|noted|known)"
_SAYS = r"(?:mention|say|state|specify|indicate|discuss|reveal|record)"
_SOURCE = r"(?:record|histor|conversation|context|evidence|transcript|dialog|excerpt|information)\w*"
_ADVERBS = r"(?:\w+ly |ever |been )*"
_NEWS = r"(?:information|mention|records?|evidence|indication|data|details?|reference|answer|trace|memory|context)"

REFUSALS: tuple[str, ...] = (
    rf"\b(?:not|never|nowhere) {_ADVERBS}{_SAID}\b",
    rf"\b(?:do|does|did|has|have) not {_ADVERBS}{_SAYS}\b",
    r"\byou (?:have|did|had) (?:not|never) (?:\w+ly )?(?:told|tell|said|shared?)\b",
    rf"\bno (?:\w+ )?{_NEWS}\b",
    rf"\b(?:do|does|did) not (?:have|contain|provide|include|offer|give) (?:\w+ ){{0,3}}{_NEWS}\b",
    rf"\b(?:not enough|insufficient|lacks?(?: of)?|missing) {_NEWS}\b",
    r"\bno (?:idea|clue|such|way to (?:know|tell))\b",
    r"\b(?:i|we) (?:do|can|ca|could|did) not (?:\w+ly )?(?:know|recall|remember|find|determine|tell|answer|say|see)\b",
    r"\b(?:can|ca|could) not be (?:determined|answered|found|known|told|inferred|established)\b",
    r"\bunable to (?:determine|find|answer|tell|say)\b",
    r"\b(?:not |un)(?:sure|certain)\b",
    r"\b(?:is|are|was|were) not (?:\w+ly )?clear\b",
    r"(?:^|\b(?:is|are|was|were|remains?) )(?:unknown|unclear|unspecified|undisclosed|unanswerable)\b",
    r"^n/a$",
    r"\bnot (?:think|believe)\b.* (?:mentioned|said|discussed)\b",
    r"\bnothing (?:in|about|on|says?|said|mentions?|(?:is|was) (?:said|known|mentioned|recorded|stated))\b",
    r"\b(?:nobody|no one|neither) (?:\w+ )?(?:mentions?|mentioned|says?|said)\b",
    rf"\b{_SOURCE}\b.*\b(?:not|never|no|nothing)\b",
    rf"\b(?:no|none of(?: the| these| those)?) (?:{_SOURCE}|messages?|notes?|memories|turns?)\b",
)
"""Patterns of a refusing clause: lower case, "n't" written "not", one blank between words."""

_REFUSING = re.compile("|".join(REFUSALS))
_CLAUSES = re.compile(
    r"[.;:!?()\n]|,(?!\s*n?or\b)|—|\s[-–]+\s"
    r"|\b(?:but|however|though|although|yet|because|since|so|except)\b"
    r"|\b(?:probably|likely|perhaps|maybe|possibly|presumably|my (?:best )?guess"
    r"|i(?: would|'d)? (?:think|guess|suppose|believe|assume|say))\b"
)
_NEGATION = re.compile(r"(?!^)\b(?:no|nobody|none|neither|nor)\b|\b(?:not|never)\b")
_OWNS_NONE = re.compile(r"(?!^)\bno\b|\bnot (?:have|own|exist|any)\b")
_NEGATIVE = re.compile(r"\b(?:no|not|never|none|nobody|nothing|neither)\b")
_APOSTROPHES = str.maketrans("’‘ʼ", "'''")


def abstained(hypothesis: str | None, question: str, trap: str | None = None) -> float | None:
    """1.0 when the answer says that there is none, 0.0 otherwise; None when there is no answer at all.

    Args:
        hypothesis: the answer to be scored.
        question: what was asked.
        trap: the wrong answer the question is after; None when there is no particular one. When it negates something
            itself ("No"), a denial is no refusal, as it might be the trap in other words.

    Example:
        >>> question = "What colour is Lena's tractor?"
        >>> [abstained(answer, question, "red") for answer in ("Red.", "Lena has no tractor.", "Unknown, maybe red")]
        [0.0, 1.0, 0.0]
    """
    if hypothesis is None:
        return None
    asked = _stems(question)
    trapped = _stems(trap) if trap is not None else frozenset()
    denials = trap is None or not _NEGATIVE.search(_plain(trap))
    clauses = [" ".join(clause.split()) for clause in _CLAUSES.split(_plain(hypothesis))]
    refusing = [bool(_REFUSING.search(clause)) or (denials and _denies(clause, asked)) for clause in clauses]
    if not any(refusing):
        return 0.0
    rest = _stems(" ; ".join(clause for clause, refuses in zip(clauses, refusing, strict=True) if not refuses))
    telling = trapped - asked or trapped
    return float(not telling or 2 * len(telling & rest) < len(telling))


def _denies(clause: str, asked: frozenset[str]) -> bool:
    if not _NEGATION.search(clause):
        return False
    needed = 1 if clause.startswith(("not ", "never ")) or _OWNS_NONE.search(clause) else 2
    return len(_stems(clause) & asked) >= needed


def _plain(text: str) -> str:
    """Lower case, with "n't" and "cannot" written out."""
    plain = text.translate(_APOSTROPHES).lower()
    return plain.replace("n't", " not").replace("cannot", "can not")


def _stems(text: str) -> frozenset[str]:
    """Stems of content words; of all words where there is no content word ("No", "that")."""
    words = [(token.stem, token.stop) for token in tokens(text)]
    return frozenset(stem for stem, stop in words if not stop) or frozenset(stem for stem, _ in words)
