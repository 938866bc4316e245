"""What an answer costs in tokens, under two names that must not be mixed up.

    context tokens = tokens of the rendered evidence block, by the counter of the record (`QuestionRecord.tokens`)
    prompt tokens  = tokens of everything the answering model was sent, as its endpoint counted them

Context tokens are counted by one counter for all designs, so they compare, and a budget is one of them. Prompt tokens
are what is paid for: instructions, question and evidence, in the tokens of the model at hand. The LightMem
reproduction (arXiv 2607.29104) prints 0.66k, 498 and 529 "answering tokens" for runs of one setting: which of the two
is meant has to be said.

Write-time tokens ("build") are spent once a history, the rest once a question: they are never added without saying
how many questions share a build.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from backread.bench.records import PurposeUsage
from backread.models.usage import PURPOSES, by_purpose
from backread.types import Usage

__all__ = ["added", "prompt_tokens", "usage_rows"]


def usage_rows(usages: Iterable[Usage]) -> tuple[PurposeUsage, ...]:
    """A row for every purpose there is, in the order of the work; what is in which number: see `models.usage`."""
    return tuple(
        PurposeUsage(
            purpose=purpose,
            models=total.models,
            calls=total.calls,
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            cost=total.cost,
            seconds=total.seconds,
            uncounted=total.uncounted,
            unpriced=total.unpriced,
        )
        for purpose, total in by_purpose(usages).items()
    )


def added(rows: Iterable[PurposeUsage]) -> tuple[PurposeUsage, ...]:
    """The rows of several records added up, a row for every purpose, in the order of the work.

    A number is the sum of what is known, None where nothing is; `uncounted` and `unpriced` say how many calls it lacks.
    """
    items = list(rows)
    found = {row.purpose for row in items}
    ordered = [*(name for name in PURPOSES if name in found), *sorted(found.difference(PURPOSES))]
    return tuple(_sum(name, [row for row in items if row.purpose == name]) for name in ordered)


def prompt_tokens(rows: Iterable[PurposeUsage]) -> int | None:
    """Prompt tokens of the purpose "answer"; None when there was no call or one of them wasn't counted.

    Example:
        >>> row = PurposeUsage(purpose="answer", models=("m",), calls=2, input_tokens=903, output_tokens=20,
        ...                    cost=None, seconds=None)
        >>> prompt_tokens([row]), prompt_tokens([row.model_copy(update={"uncounted": 1})])
        (903, None)
    """
    sent = [None if row.uncounted else row.input_tokens for row in rows if row.purpose == "answer"]
    return _tokens(sent) if None not in sent else None


def _sum(purpose: str, rows: Sequence[PurposeUsage]) -> PurposeUsage:
    return PurposeUsage(
        purpose=purpose,
        models=tuple(dict.fromkeys(model for row in rows for model in row.models)),
        calls=sum(row.calls for row in rows),
        input_tokens=_tokens([row.input_tokens for row in rows]),
        output_tokens=_tokens([row.output_tokens for row in rows]),
        cost=_amount([row.cost for row in rows]),
        seconds=_amount([row.seconds for row in rows]),
        uncounted=sum(row.uncounted for row in rows),
        unpriced=sum(row.unpriced for row in rows),
    )


def _tokens(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _amount(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return math.fsum(known) if known else None
