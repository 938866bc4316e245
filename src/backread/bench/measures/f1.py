"""F1: how far the words of an answer are those of the gold answer.

    precision = words in common / words of the answer
    recall    = words in common / words of the gold answer
    F1        = 2 precision recall / (precision + recall)

Words in common are counted as often as they occur in both. Range 0 to 1, higher is better.

The traps: F1 depends on how words are made, so F1s of two benchmarks don't compare. `token_f1` is that of SQuAD;
`locomo_f1` is LoCoMo's, which stems, drops "and" too, and has a rule for each category of question. And F1 punishes an
answer for each word that explains it: a right sentence gets less than a right word.
"""

from __future__ import annotations

import math

from backread.bench.measures.answer_words import locomo_words, overlap_f1, plain_words
from backread.errors import InvalidInputError
from backread.importers.locomo import CATEGORIES

__all__ = ["locomo_f1", "locomo_gold", "locomo_refusal", "token_f1"]

_NO_RULE = "unknown"
_REFUSALS = ("no information available", "not mentioned")


def token_f1(hypothesis: str | None, gold: str | None) -> float | None:
    """F1 of SQuAD, over `plain_words`; None when there is no answer or no gold answer.

    Where one of the two has no word left it is 1 when both have none and 0 otherwise, as in SQuAD 2.0 (Rajpurkar et
    al. 2018, arXiv 1806.03822).

    Example:
        Answer "in old riga", gold "old town riga" without its article: 2 words in common of 3 and 3, so 2/3.

        >>> round(token_f1("In old Riga.", "the old town, Riga"), 4)
        0.6667
    """
    if hypothesis is None or gold is None:
        return None
    given, wanted = plain_words(hypothesis), plain_words(gold)
    return overlap_f1(given, wanted) if given and wanted else float(given == wanted)


def locomo_f1(hypothesis: str | None, gold: str | None, question_type: str) -> float | None:
    """LoCoMo's official score of an answer, over `locomo_words`; None when it is undefined.

    By the names of `importers.locomo.CATEGORIES`, as its numbers are easily mixed up:

    - "single-hop", "temporal": F1;
    - "open-domain": F1 against the gold answer up to its first ";";
    - "multi-hop": both are split at ","; for each part of the gold the best F1 of any part of the answer, averaged;
    - "adversarial": `locomo_refusal`, whatever `gold` is.

    It is undefined without an answer, without a gold answer (but for "adversarial"), and for a question of the type
    "unknown". An answer or a gold answer without a word left gets 0.

    Raises:
        InvalidInputError: no category has this name.

    Example:
        Gold parts "pottery", "painting", "camping"; the answer's parts give 1, 2/3 ("she paint" for "paint") and 0.

        >>> round(locomo_f1("pottery, she paints", "pottery, painting, camping", "multi-hop"), 4)
        0.5556
    """
    if question_type not in (*CATEGORIES.values(), _NO_RULE):
        raise InvalidInputError(
            f"LoCoMo has no category {question_type!r}", hint=f"categories: {', '.join(CATEGORIES.values())}"
        )
    if question_type == "adversarial":
        return locomo_refusal(hypothesis)
    wanted = locomo_gold(gold, question_type)
    if hypothesis is None or wanted is None or question_type == _NO_RULE:
        return None
    if question_type != "multi-hop":
        return overlap_f1(locomo_words(hypothesis), locomo_words(wanted))
    parts = [locomo_words(part) for part in hypothesis.split(",")]
    best = [max(overlap_f1(part, locomo_words(piece)) for part in parts) for piece in wanted.split(",")]
    return math.fsum(best) / len(best)


def locomo_gold(gold: str | None, question_type: str) -> str | None:
    """The gold answer as the official score takes it: of "open-domain" only what stands before the first ";"."""
    return gold.split(";")[0].strip() if gold is not None and question_type == "open-domain" else gold


def locomo_refusal(hypothesis: str | None) -> float | None:
    """LoCoMo's official score of an adversarial question: 1.0 when the answer has one of two phrases, else 0.0.

    The phrases are "no information available" and "not mentioned", in any case; None when there is no answer.

    The traps: a refusal in other words gets 0, and a refusal that goes on to give the wrong answer gets 1. For what
    the question means to ask see `abstention.py`.

    Example:
        >>> locomo_refusal("Not mentioned, but probably red"), locomo_refusal("I do not know")
        (1.0, 0.0)
    """
    if hypothesis is None:
        return None
    return float(any(phrase in hypothesis.lower() for phrase in _REFUSALS))
