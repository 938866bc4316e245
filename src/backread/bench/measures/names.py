"""The measures of one question under the names of records, and what each name means.

A name is its level, a colon, the measure and its cut-off: "turn:R@5", "session:AllEvidence@10", "turn:RR". A measure of
evidence is named after it ("coverage:verbatim"), one of an answer stands alone ("F1"). What is left without level and
cut-off is the stem, by which `DESCRIPTIONS` says what a name means.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from backread.bench.measures.abstention import abstained
from backread.bench.measures.all_evidence import all_evidence
from backread.bench.measures.coverage import (
    claimed_coverage,
    claimed_session_coverage,
    verbatim_coverage,
    word_coverage,
)
from backread.bench.measures.exact_match import exact_match
from backread.bench.measures.f1 import locomo_f1, locomo_gold, locomo_refusal, token_f1
from backread.bench.measures.longmemeval import ndcg_lme, recall_all_lme, recall_any_lme, turn_to_session
from backread.bench.measures.ndcg import ndcg
from backread.bench.measures.recall import recall
from backread.bench.measures.reciprocal_rank import reciprocal_rank
from backread.bench.measures.success import success
from backread.bench.records import ShownLine
from backread.errors import InvalidInputError
from backread.importers.base import Question

__all__ = [
    "DESCRIPTIONS",
    "Level",
    "answer_measures",
    "coverage_measures",
    "longmemeval_measures",
    "ranking_measures",
    "session_ranking",
    "stem",
]

Level = Literal["turn", "round", "session", "entry"]
"""What is ranked; see `records.QuestionRecord.level`."""

DESCRIPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "R": "share of the gold items among the first k of the ranking",
        "Success": "1 if any gold item is among the first k (often published as recall@k)",
        "AllEvidence": "1 if all gold items are among the first k",
        "nDCG": "gold items among the first k discounted by log2(rank + 1), against the best possible order",
        "RR": "one over the rank of the first gold item in the ranking as recorded (at most 50 items)",
        "recall_any_LME": "LongMemEval's own: 1 if any gold item is among the first k",
        "recall_all_LME": "LongMemEval's own: 1 if all gold items are among the first k",
        "nDCG_LME": "LongMemEval's own discount, ranks 1 and 2 both in full; not comparable with nDCG",
        "coverage:verbatim": "mean over gold turns of the share of the turn's characters shown word for word",
        "coverage:claimed": "share of the gold turns (or sessions) a line names as its source; doesn't compare designs",
        "coverage:words": "mean over gold turns of the share of the turn's content words in the evidence shown",
        "F1": "overlap of the words of answer and gold answer (LoCoMo's official rules on LoCoMo, SQuAD's elsewhere)",
        "EM": "1 if answer and gold answer are the same but for case, punctuation and articles",
        "abstention:strict": "1 if the answer says there is none, in any of many wordings, and doesn't give the trap",
        "abstention:phrases": 'LoCoMo\'s own rule: 1 if the answer has "no information available" or "not mentioned"',
    }
)
"""The meaning of each stem in one line, for the legend of a report."""

_LEVEL = re.compile(r"\A(?:turn|round|session|entry|turn2session):")
_CUTOFF = re.compile(r"@\d+\Z")


def stem(name: str) -> str:
    """A measure's name without its level and its cut-off: "turn:R@5" gives "R".

    Raises:
        InvalidInputError: no measure is called so.
    """
    bare = _CUTOFF.sub("", _LEVEL.sub("", name))
    if bare not in DESCRIPTIONS:
        raise InvalidInputError(f"there is no measure {name!r}", hint=f"measures: {', '.join(DESCRIPTIONS)}")
    return bare


def ranking_measures(
    ranked: Sequence[str], gold: Collection[str], cutoffs: Sequence[int], level: Level
) -> dict[str, float | None]:
    """R, Success, AllEvidence and nDCG at each cut-off, and RR; all None when `gold` is empty.

    Args:
        ranked: ids of that level, best first, each once.
        gold: ids of that level.
        cutoffs: each k.
        level: what the ids name; a prefix of the names.

    Raises:
        InvalidInputError: an id is ranked twice, or a cut-off is below 1.
    """
    measured: dict[str, float | None] = {}
    for k in cutoffs:
        measured[f"{level}:R@{k}"] = recall(ranked, gold, k)
        measured[f"{level}:Success@{k}"] = success(ranked, gold, k)
        measured[f"{level}:AllEvidence@{k}"] = all_evidence(ranked, gold, k)
        measured[f"{level}:nDCG@{k}"] = ndcg(ranked, gold, k)
    measured[f"{level}:RR"] = reciprocal_rank(ranked, gold)
    return measured


def session_ranking(ranked: Sequence[str], session_of: Mapping[str, str]) -> tuple[str, ...]:
    """Sessions in the order of their best turns, from turns best first.

    Raises:
        InvalidInputError: a turn is in no session.
    """
    if unknown := [turn_id for turn_id in ranked if turn_id not in session_of]:
        raise InvalidInputError(f"turn {unknown[0]!r} has no session", hint="give the session of every turn")
    return tuple(dict.fromkeys(session_of[turn_id] for turn_id in ranked))


def longmemeval_measures(
    ranked: Sequence[str], gold: Collection[str], cutoffs: Sequence[int], session_of: Mapping[str, str]
) -> dict[str, float | None]:
    """LongMemEval's official metrics of turns ("turn:…") and of sessions from turns ("turn2session:…").

    Args:
        ranked: turn ids, best first, each once; the whole corpus for the official figures.
        gold: turn ids.
        cutoffs: each k; the official ones are 1, 3, 5, 10, 30 and 50.
        session_of: the session of every turn of the corpus, which officially holds user turns only.

    Raises:
        InvalidInputError: a turn is ranked twice or isn't in the corpus, or a cut-off is below 1.
    """
    measured: dict[str, float | None] = {}
    for k in cutoffs:
        measured[f"turn:recall_any_LME@{k}"] = recall_any_lme(ranked, gold, k)
        measured[f"turn:recall_all_LME@{k}"] = recall_all_lme(ranked, gold, k)
        measured[f"turn:nDCG_LME@{k}"] = ndcg_lme(ranked, gold, k)
        scores = turn_to_session(ranked, gold, k, session_of) or (None, None, None)
        for what, value in zip(("recall_any", "recall_all", "nDCG"), scores, strict=True):
            measured[f"turn2session:{what}_LME@{k}"] = value
    return measured


def coverage_measures(
    shown: Sequence[ShownLine],
    rendered: str,
    gold: Mapping[str, str],
    gold_sessions: Collection[str],
    session_of: Mapping[str, str],
    *,
    captions: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, float | None]:
    """The three coverages of gold turns, and the claimed one of gold sessions.

    Args:
        shown: lines of evidence.
        rendered: the block as shown.
        gold: external id to text, of every gold turn.
        gold_sessions: session ids.
        session_of: the session of every turn of the history.
        captions: external id to the caption of a gold turn's image, whose words count as said.

    Raises:
        InvalidInputError: a source is in no session, or a span lies outside its turn.
    """
    said = {turn_id: f"{text}\n{captions[turn_id]}" if turn_id in captions else text for turn_id, text in gold.items()}
    return {
        "coverage:verbatim": verbatim_coverage(shown, gold),
        "coverage:claimed": claimed_coverage(shown, gold, session_of, Counter(session_of.values())),
        "coverage:words": word_coverage(rendered, said),
        "session:coverage:claimed": claimed_session_coverage(shown, gold_sessions, session_of),
    }


def answer_measures(hypothesis: str | None, question: Question, *, locomo: bool) -> dict[str, float | None]:
    """F1 and EM of an answer; for questions without an answer in the history, how it abstains instead.

    Both kinds never meet in one name: a design that refuses everything gains nothing in F1 and EM.

    Args:
        hypothesis: the answer; None when there is none.
        question: with its gold answer.
        locomo: score F1 by LoCoMo's official rules.

    Raises:
        InvalidInputError: `locomo`, and the question's type is no category of LoCoMo.
    """
    if question.abstention:
        strict = abstained(hypothesis, question.question, question.trap)
        official = {"abstention:phrases": locomo_refusal(hypothesis)} if locomo else {}
        return {"abstention:strict": strict, **official}
    if locomo:
        gold = locomo_gold(question.answer, question.question_type)
        f1 = locomo_f1(hypothesis, question.answer, question.question_type)
        return {"F1": f1, "EM": exact_match(hypothesis, gold)}
    return {"F1": token_f1(hypothesis, question.answer), "EM": exact_match(hypothesis, question.answer)}
