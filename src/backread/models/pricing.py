"""What calls cost, by a table the user gives. There are no built-in prices: they change, and an old one is a lie.

The table is a TOML file; amounts are for one million tokens, in whatever currency the user counts in:

    ["gpt-5-mini"]
    input = 0.25
    cached_input = 0.025     # where cached tokens are cheaper; left out, they cost what `input` says
    output = 2.0
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from backread.errors import InvalidInputError
from backread.types import Usage

__all__ = ["Price", "cost", "load_prices", "priced"]

MILLION = 1_000_000
_FIELDS = ("input", "cached_input", "output")


@dataclass(frozen=True, slots=True)
class Price:
    """Prices of one model for a million tokens; `cached_input` None: a cached token costs what another one does."""

    input: float
    output: float
    cached_input: float | None = None


def cost(usage: Usage, prices: Mapping[str, Price]) -> float | None:
    """What a call cost; None when its model has no price or its tokens are unknown.

    Cached tokens are the part of `input_tokens` that is billed at `cached_input`; where the endpoint does not report
    them all of the input is billed in full. Reasoning tokens are output.
    """
    price = prices.get(usage.model)
    if price is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    cached = min(usage.cache_read_tokens or 0, usage.input_tokens)
    cached_price = price.input if price.cached_input is None else price.cached_input
    fresh = usage.input_tokens - cached
    return (fresh * price.input + cached * cached_price + usage.output_tokens * price.output) / MILLION


def priced(usage: Usage, prices: Mapping[str, Price]) -> Usage:
    """`usage` with its cost, unless it has one already or it can't be known."""
    return usage if usage.cost is not None else replace(usage, cost=cost(usage, prices))


def load_prices(path: Path) -> dict[str, Price]:
    """The prices of a file by model name; see the module.

    Raises:
        InvalidInputError: the file can't be read, or says something that is no price.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror}", hint="`prices` names a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: {error}", hint="mend the TOML file") from error
    return {model: _price(model, table, path) for model, table in tables.items()}


def _price(model: str, table: object, path: Path) -> Price:
    if not isinstance(table, Mapping) or not {"input", "output"} <= table.keys() <= set(_FIELDS):
        raise InvalidInputError(
            f"{path}: {model!r} must have input and output, may have cached_input, and nothing else",
            hint="prices are for one million tokens",
        )
    amounts: dict[str, float] = {}
    for name, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise InvalidInputError(f"{path}: {name} of {model!r} must be a number from 0, not {value!r}")
        amounts[name] = float(value)
    return Price(**amounts)
