"""EM: whether an answer is the gold answer, but for case, punctuation and articles.

    EM = 1 if the words of both are the same in the same order, else 0

Source: SQuAD, Rajpurkar et al. 2016, arXiv 1606.05250; words are those of `answer_words.plain_words`.

The trap: "3" and "three", or "8 May 2023" and "May 8, 2023", are different answers to it. LoCoMo's code has an exact
match of its own that ignores the order of words; its published figures don't use it, and neither does this.
"""

from __future__ import annotations

from backread.bench.measures.answer_words import plain_words

__all__ = ["exact_match"]


def exact_match(hypothesis: str | None, gold: str | None) -> float | None:
    """EM, 0.0 or 1.0; None when there is no answer or no gold answer.

    Example:
        >>> exact_match("The year 2022.", "year 2022"), exact_match("in 2022", "2022")
        (1.0, 0.0)
    """
    if hypothesis is None or gold is None:
        return None
    return float(plain_words(hypothesis) == plain_words(gold))
