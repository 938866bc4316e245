"""Match(C, m): which constraints a memory meets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backread.strategies.leanmem.dating import days_in
from backread.strategies.leanmem.matching import Constraints, match

TEXT = "way to work Ann cycles to work, no more bus 2024-03-04"
DAYS = days_in("2024-03-04")


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        (Constraints(), 0.0),
        (Constraints(entity=("Ann",)), 1.0),
        (Constraints(entity=("ann",), attribute=("cycling",)), 1.0),  # any form of the words
        (Constraints(entity=("Ann", "Bob")), 0.5),
        (Constraints(attribute=("cycling to school",)), 0.0),  # all of its words
        (Constraints(relational=("no more",)), 1.0),  # function words, as they are written
        (Constraints(relational=(" ",)), 0.0),
        (Constraints(temporal=("2024-03",)), 1.0),
        (Constraints(temporal=("March 2024",)), 1.0),
        (Constraints(temporal=("2024-01-01 to 2024-06-30",)), 1.0),
        (Constraints(temporal=("2024-02",)), 0.0),
        (Constraints(temporal=("in March",)), 1.0),
        (Constraints(temporal=("in May",)), 0.0),
        (Constraints(entity=("Ann",), attribute=("bus",), temporal=("2023",), relational=("cycling",)), 0.75),
    ],
)
def test_the_share_that_is_met(constraints: Constraints, expected: float) -> None:
    assert match(constraints, TEXT, DAYS) == expected


words = st.lists(st.sampled_from(["Ann", "Bob", "bus", "2024-03", "May", "the"]), max_size=4).map(tuple)


@given(words, words, words, words, st.text(max_size=20))
def test_it_is_a_share(
    entity: tuple[str, ...], a: tuple[str, ...], t: tuple[str, ...], r: tuple[str, ...], text: str
) -> None:
    assert 0.0 <= match(Constraints(entity, a, t, r), text, DAYS) <= 1.0
    assert match(Constraints(entity, a, t, r), " ".join((*entity, *a, *t, *r)), DAYS) == bool(entity + a + t + r)
