"""Rows of usage: what records keep of model calls, and what they add up to."""

from __future__ import annotations

from backread.bench.measures.cost import added, prompt_tokens, usage_rows
from backread.bench.records import PurposeUsage
from backread.types import Usage

ANSWER = Usage("answer", "big", input_tokens=900, output_tokens=30, cost=0.02, seconds=1.5)
RECALL = Usage("recall", "small", calls=2, input_tokens=50, output_tokens=5, seconds=0.5)


def test_a_row_for_every_purpose_in_the_order_of_the_work() -> None:
    rows = usage_rows([ANSWER, RECALL, Usage("recall", "small"), Usage("extra", "x")])
    assert [row.purpose for row in rows] == ["recall", "answer", "extra"]
    assert rows[0] == PurposeUsage(
        purpose="recall",
        models=("small",),
        calls=3,
        input_tokens=50,
        output_tokens=5,
        cost=None,
        seconds=0.5,
        uncounted=1,
        unpriced=3,
    )
    assert (rows[1].input_tokens, rows[1].cost, rows[1].uncounted, rows[1].unpriced) == (900, 0.02, 0, 0)
    assert usage_rows([]) == ()


# LLM-05
def test_rows_of_records_add_up_as_their_calls_would() -> None:
    calls = [ANSWER, RECALL, Usage("answer", "other"), ANSWER, Usage("extra", "x", input_tokens=1)]
    by_record = [row for call in calls for row in usage_rows([call])]
    assert added(by_record) == usage_rows(calls)
    assert added([]) == ()
    unknown = added(usage_rows([Usage("build", "m")]) + usage_rows([Usage("build", "n")]))[0]
    assert (unknown.input_tokens, unknown.cost, unknown.seconds, unknown.uncounted) == (None, None, None, 2)
    assert unknown.models == ("m", "n")


def test_prompt_tokens_are_those_of_answering_or_unknown() -> None:
    assert prompt_tokens(usage_rows([ANSWER, ANSWER, RECALL])) == 1800
    assert prompt_tokens(usage_rows([RECALL])) is None
    assert prompt_tokens(usage_rows([ANSWER, Usage("answer", "big")])) is None
    assert prompt_tokens(usage_rows([Usage("answer", "big", input_tokens=5)])) is None
    assert prompt_tokens([]) is None
