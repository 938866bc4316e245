"""Sums of usage and costs: what is in what, and what a hole in a total looks like."""

from __future__ import annotations

from pathlib import Path

import pytest

from backread.errors import InvalidInputError
from backread.models.pricing import Price, cost, load_prices, priced
from backread.models.usage import by_purpose, total
from backread.types import Usage

FULL = Usage(
    "build", "a", input_tokens=100, output_tokens=20, cache_read_tokens=60, reasoning_tokens=5, cost=0.1, seconds=2
)
BARE = Usage("build", "b", calls=2)


def test_parts_are_not_added_to_wholes() -> None:
    found = total([FULL, FULL])
    assert (found.calls, found.input_tokens, found.output_tokens) == (2, 200, 40)
    assert (found.cache_read_tokens, found.reasoning_tokens, found.seconds) == (120, 10, 4)
    assert found.cost == pytest.approx(0.2)
    assert (found.uncounted, found.unpriced, found.models) == (0, 0, ("a",))


# LLM-05
def test_a_total_names_its_holes() -> None:
    found = total([FULL, BARE])
    assert (found.calls, found.input_tokens, found.cost) == (3, 100, 0.1)
    assert (found.uncounted, found.unpriced, found.models) == (2, 2, ("a", "b"))
    half = total([Usage("build", "a", input_tokens=5)])
    assert (half.input_tokens, half.output_tokens, half.uncounted) == (5, None, 1)


def test_of_nothing_everything_is_unknown_but_the_calls() -> None:
    found = total([])
    assert (found.calls, found.uncounted, found.unpriced) == (0, 0, 0)
    assert (found.input_tokens, found.cost, found.seconds) == (None, None, None)
    assert total([BARE]).cost is None


def test_zero_is_known() -> None:
    found = total([Usage("build", "a", input_tokens=0, output_tokens=0, cost=0.0)])
    assert (found.input_tokens, found.cost, found.uncounted) == (0, 0.0, 0)


def test_purposes_come_in_the_order_of_the_work() -> None:
    usages = [Usage(purpose, "a") for purpose in ("judge", "probe", "answer", "build", "answer", "alpha")]
    found = by_purpose(usages)
    assert list(found) == ["build", "answer", "judge", "alpha", "probe"]
    assert found["answer"].calls == 2


PRICES = {"a": Price(input=2.0, output=8.0, cached_input=0.5), "b": Price(input=2.0, output=8.0)}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        # 40 fresh at 2, 60 cached at 0.5, 20 out at 8 (reasoning inside)
        (Usage("x", "a", input_tokens=100, output_tokens=20, cache_read_tokens=60, reasoning_tokens=5), 270.0),
        (Usage("x", "a", input_tokens=100, output_tokens=20), 360.0),
        (Usage("x", "b", input_tokens=100, output_tokens=20, cache_read_tokens=60), 360.0),
        (Usage("x", "a", input_tokens=10, output_tokens=0, cache_read_tokens=99), 5.0),
        (Usage("x", "a", input_tokens=0, output_tokens=0), 0.0),
        (Usage("x", "a", input_tokens=100), None),
        (Usage("x", "a", output_tokens=100), None),
        (Usage("x", "c", input_tokens=100, output_tokens=20), None),
    ],
)
def test_cost(usage: Usage, expected: float | None) -> None:
    found = cost(usage, PRICES)
    assert found == (None if expected is None else pytest.approx(expected / 1e6))
    assert priced(usage, PRICES).cost == found


def test_a_known_cost_stands() -> None:
    assert priced(FULL, PRICES) is FULL


def test_prices_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('["org/a-1.5"]\ninput = 2\noutput = 8.0\ncached_input = 0.5\n[b]\ninput = 0\noutput = 0\n', "utf-8")
    assert load_prices(path) == {"org/a-1.5": Price(2.0, 8.0, 0.5), "b": Price(0.0, 0.0)}


@pytest.mark.parametrize(
    "content",
    [
        "[a]\ninput = 1\n",
        "[a]\ninput = 1\noutput = 2\nrequest = 3\n",
        '[a]\ninput = "1"\noutput = 2\n',
        "[a]\ninput = -1\noutput = 2\n",
        "[a]\ninput = nan\noutput = 2\n",
        "[a]\ninput = inf\noutput = 2\n",
        "[a]\ninput = true\noutput = 2\n",
        "a = 1\n",
        "[a",
    ],
)
def test_a_file_that_holds_no_prices_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(content, "utf-8")
    with pytest.raises(InvalidInputError, match=r"prices\.toml"):
        load_prices(path)
    with pytest.raises(InvalidInputError, match=r"missing\.toml"):
        load_prices(tmp_path / "missing.toml")
