"""What a judge's reply says: correct, incorrect, or nothing that can be relied on.

A verdict is read in three places only, and in these a whole phrase must be one:

- the last line: bare ("CORRECT"), behind a label ("Final verdict: correct"), or before its explanation ("Incorrect. The
  correct answer is Bo.");
- a field of a JSON object ("verdict", "label", "correct", …), wherever the object stands;
- the first line, when it has a label and the other two places have none.

The words of the reasoning are never searched: they quote the answer, and "not incorrect" contains "correct". Where two
places disagree, or one holds something else ("partially correct"), the reply is unscored.
"""

from __future__ import annotations

import re

from backread.bench.records import Verdict
from backread.models.json_reply import candidates
from backread.models.thinking import split_thinking

__all__ = ["read_value", "read_verdict"]

_CORRECT = frozenset(("correct", "right", "true", "yes", "pass", "passed"))
_INCORRECT = frozenset(("incorrect", "not correct", "wrong", "not right", "false", "no", "fail", "failed"))

_FIELDS = frozenset(
    ("verdict", "label", "grade", "judgment", "judgement", "decision", "correct", "is_correct", "match")
)
_LABELLED = re.compile(
    r"(?:my |the )?(?:final (?:answer|verdict|grade|label|judge?ment|decision)|final|verdict|grade|label|judge?ment"
    r"|decision|is_correct|correct|match)[*_`\s]*[:=](?P<value>.*)"
)
_SAYS = re.compile(
    r"(?:(?:so|thus|hence|therefore),? )?the (?:answer|hypothesis|response) is"
    r" (?P<value>(?:not |in)?correct|wrong|right)"
)
_EXPLAINED = re.compile(r"(?P<value>[a-z]+(?: [a-z]+)?)[*_`]*\s*(?P<sign>[.!:;,–—]|\s-)\s+(?P<rest>\S.*)")
_AGAINST = re.compile(
    r"\b(?:incorrect|wrong|false|inaccurate|mistaken|partly|partially|however|but|not correct|\w+n['’]t correct)\b"
)
_FOR = re.compile(r"\b(?:correct|right|true)\b")

_EDGES = " \t*_`#~|.!-–—"  # not ">": a line that markdown quotes is somebody else's
_MOST_PAIRS = 8
_PAIRS = {'"': '"', "'": "'", "“": "”", "(": ")", "[": "]"}


def read_verdict(text: str) -> Verdict:
    """The verdict of a judge's reply; see the module. Reasoning that a model wrote before its reply is left aside."""
    reply = split_thinking(text).answer
    lines = [bare for line in reply.splitlines() if (bare := _bare(line))]
    if not lines:
        return "unscored"
    found = {*_of_fields(reply), *_of_line(lines[-1])}
    if not found and (first := _LABELLED.fullmatch(lines[0])):
        others = [match["value"] for line in lines[1:] if (match := _LABELLED.fullmatch(line))]
        found = {read_value(first["value"]), *(read_value(value) for value in others)}
    return found.pop() if len(found) == 1 else "unscored"


def read_value(value: object) -> Verdict:
    """The verdict that a field's value is: a truth value, 1 or 0, or a word or phrase for one; otherwise unscored."""
    if isinstance(value, str):
        bare = _bare(value)
        return "correct" if bare in {*_CORRECT, "1"} else "incorrect" if bare in {*_INCORRECT, "0"} else "unscored"
    if isinstance(value, bool | int | float) and value in (0, 1):
        return "correct" if value else "incorrect"
    return "unscored"


def _bare(text: str) -> str:
    """In lower case, single spaces, and without the marks, quotes and brackets around it."""
    bare = " ".join(text.lower().split()).strip(_EDGES)
    for _ in range(_MOST_PAIRS):
        if len(bare) < 2 or _PAIRS.get(bare[0]) != bare[-1]:
            break
        bare = bare[1:-1].strip(_EDGES)
    return bare


def _of_fields(reply: str) -> set[Verdict]:
    """What the fields of the JSON objects in a reply say."""
    objects = [candidate.value for candidate in candidates(reply) if isinstance(candidate.value, dict)]
    return {read_value(value) for item in objects for key, value in item.items() if key.strip().lower() in _FIELDS}


def _of_line(line: str) -> set[Verdict]:
    """What a bare line says, empty when it is no verdict and has no label, or when it is the end of an object."""
    if line.endswith("}"):
        return set()
    if match := _LABELLED.fullmatch(line):
        return {_phrase(match["value"], labelled=True)}
    verdict = _phrase(line)
    return set() if verdict == "unscored" else {verdict}


def _phrase(line: str, *, labelled: bool = False) -> Verdict:
    """The verdict that a line is, or starts with before it is explained."""
    bare = _bare(line)
    whole = read_value(bare) if labelled or bare not in ("0", "1") else "unscored"
    if whole == "unscored" and (says := _SAYS.fullmatch(bare)):
        whole = read_value(says["value"])
    if whole != "unscored" or not (match := _EXPLAINED.fullmatch(bare)):
        return whole
    verdict, rest = read_value(match["value"]), match["rest"]
    if verdict == "correct" and _AGAINST.search(rest):
        return "unscored"
    if verdict == "incorrect" and read_value(re.split(r"[.!;:]\s", rest)[-1]) == "correct":
        return "unscored"  # "Incorrect. Wait: correct."
    if match["value"] in ("no", "false") and match["sign"] not in ".!;" and _FOR.search(rest):
        return "unscored"  # "No, it is correct"
    return verdict
