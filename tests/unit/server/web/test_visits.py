"""Visits: begun with a key, named by a token that is kept nowhere, over after a week."""

from __future__ import annotations

from backread.server.keys import ADMIN, Principal
from backread.server.web.visits import LASTS_S, Visits


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_visit_is_whose_it_was_begun_for() -> None:
    visits = Visits(now=Clock())
    ann, root = visits.begin(Principal("ann")), visits.begin(ADMIN)
    assert (visits.principal(ann), visits.principal(root)) == (Principal("ann"), ADMIN)
    assert ann != root
    assert len(ann) >= 43  # 32 bytes of chance
    assert [visits.principal(wrong) for wrong in (None, "", ann[:-1], ann + " ", "\ud800")] == [None] * 5


def test_it_ends() -> None:
    clock = Clock()
    visits = Visits(now=clock)
    ann, bo = visits.begin(Principal("ann")), visits.begin(Principal("bo"))
    visits.end(ann)
    visits.end(ann)
    visits.end(None)
    assert (visits.principal(ann), visits.principal(bo)) == (None, Principal("bo"))
    clock.now += LASTS_S - 1
    assert visits.principal(bo) == Principal("bo")
    clock.now += 1
    assert visits.principal(bo) is None


def test_the_oldest_makes_room() -> None:
    visits = Visits(now=Clock(), kept=2)
    tokens = [visits.begin(Principal(name)) for name in ("ann", "bo", "cy")]
    assert [visits.principal(token) for token in tokens] == [None, Principal("bo"), Principal("cy")]


def test_no_token_is_kept() -> None:
    visits = Visits(now=Clock())
    token = visits.begin(ADMIN)
    assert token not in repr(vars(visits))
