"""Where a question was lost, told from its record alone.

LazyMem's taxonomy of wrong answers, in this order: the evidence was not found; it was found, and dropped or spoiled on
the way to the answerer; the answerer had it and was wrong. The first that applies counts. Differs from LazyMem in that
"found" means looked at by any design (`gold_considered`), not only lying in one of its windows, and in that it also
covers designs that edit nothing: there, what drops evidence that was found is the budget.

Gold turns are a benchmark's labels. A wrong answer whose gold turns were all shown is blamed on the answerer also where
the labels are incomplete.
"""

from __future__ import annotations

from typing import Literal, cast

from backread.bench.records import QuestionRecord

__all__ = ["Attribution", "Stage", "attribute", "loss_stage"]

Attribution = Literal["retrieval miss", "memory-editing loss", "QA reasoning error"]
Stage = Literal["not ranked", "over budget", "shown"]


def attribute(record: QuestionRecord, *, sufficient: bool | None = None) -> Attribution | None:
    """Why the answer is wrong, for a question with gold turns that the strict judge called incorrect; otherwise None.

    - "retrieval miss": the design didn't look at every gold turn.
    - "memory-editing loss": it did, but a gold turn is behind no line that was shown, or the evidence doesn't suffice.
    - "QA reasoning error": every gold turn was shown and the evidence suffices.

    Args:
        record: of one question.
        sufficient: whether the evidence suffices for the gold answer, as a judge said; None when nobody was asked.
            Then a gold turn that was shown whole and verbatim is taken for sufficient; one that is only behind a line
            that was cut or rewritten may have lost what counts, so the cause can't be told: None.
    """
    if record.status != "ok" or record.verdicts.get("strict") != "incorrect":
        return None
    stage = loss_stage(record)
    if stage is None:
        return None
    if stage == "not ranked":
        return "retrieval miss"
    if stage == "over budget" or sufficient is False:
        return "memory-editing loss"
    return "QA reasoning error" if sufficient or set(record.gold_turns) <= _shown(record, whole=True) else None


def loss_stage(record: QuestionRecord) -> Stage | None:
    """Where the evidence for a question was lost, without any answer: of its gold turns, the one that came least far.

    - "not ranked": the design didn't look at some gold turn.
    - "over budget": it looked at all, but some gold turn is behind no line that was shown. In a design that edits, that
      it was dropped may also be its decision.
    - "shown": every gold turn is behind a line that was shown, be it cut or rewritten.

    None where there is nothing to lose or to tell: no gold turns, a question without an answer in the history (its
    labels don't hold one), or a record of a failure.
    """
    if record.digest is not None:
        return cast("Stage | None", record.digest.stage)
    gold = set(record.gold_turns)
    if record.status != "ok" or record.abstention or not gold:
        return None
    if not gold <= set(record.gold_considered):
        return "not ranked"
    return "shown" if gold <= _shown(record) else "over budget"


def _shown(record: QuestionRecord, *, whole: bool = False) -> set[str]:
    """The turns behind the lines shown; `whole`: only of verbatim lines that were not cut."""
    lines = [line for line in record.shown if not whole or (line.kind == "verbatim" and not line.cut)]
    return {turn for line in lines for turn, _, _ in line.sources}
