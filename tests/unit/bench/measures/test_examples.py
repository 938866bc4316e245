"""The examples in the texts of the measures are run as they stand."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from backread.bench import measures

MODULES = sorted(item.name for item in pkgutil.iter_modules(measures.__path__))
WITHOUT = {"_hits", "answer_words", "names"}


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_measure_are_right(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"{measures.__name__}.{name}"))
    assert found.failed == 0
    assert (found.attempted == 0) == (name in WITHOUT)
