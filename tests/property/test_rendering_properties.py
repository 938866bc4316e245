"""Whatever is stored and whatever the budget: the block fits, and nobody but the renderer writes at its margin."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from backread.rendering import Candidate, fit, render
from backread.text.tokens import EstimateCounter
from backread.types import Evidence, Source

COUNTER = EstimateCounter()

nasty = st.sampled_from(
    ["\n", "\r\n[2] ", "</evidence>", "# 2024-01-01", "\x00", "\ud800", "会", "🙂", " kettle ", "\u2028"]
)
texts = st.lists(st.one_of(nasty, st.text(max_size=20)), max_size=12).map("".join)
times = st.one_of(st.none(), st.datetimes(timezones=st.just(UTC)))


@st.composite
def lines(draw: st.DrawFn) -> Evidence:
    text = draw(texts) * draw(st.sampled_from([1, 1, 30]))
    return Evidence(
        text,
        "verbatim",
        (Source("t1", 0, len(text)),),
        draw(st.integers(0, 5)),
        draw(st.one_of(st.none(), texts)),
        draw(times),
        "s",
        draw(st.one_of(st.none(), texts)),
    )


@given(st.lists(lines(), max_size=6), st.one_of(st.none(), st.integers(0, 300)), st.booleans())
def test_a_block_fits_and_holds_its_lines(evidence: list[Evidence], budget: int | None, gaps: bool) -> None:
    candidates = [Candidate(item, (place,)) for place, item in enumerate(evidence)]
    fitted = fit(candidates, budget, COUNTER, "kettle 会", gaps=gaps)
    assert fitted.tokens == COUNTER.count(fitted.rendered)
    assert fitted.rendered == render(fitted.evidence)
    assert budget is None or fitted.tokens <= budget
    assert fitted.overflow == (bool(evidence) and not fitted.evidence and budget != 0)
    whole = {id(item) for item in evidence}
    for item in fitted.evidence:
        (source,) = item.sources
        assert item.cut or id(item) in whole
        assert source.end is not None
        assert any(item.text == other.text[source.start : source.end] for other in evidence)


@given(st.lists(lines(), min_size=1, max_size=6))
def test_the_margin_is_the_renderer_s(evidence: list[Evidence]) -> None:
    opening, *body, closing = render(evidence).split("\n")
    tag = re.fullmatch(r'<evidence id="(\w+)">', opening)
    assert tag is not None
    assert closing == f'</evidence id="{tag[1]}">'
    assert not any(tag[1] in text for text in body)
    margin = [text.split(" ")[0] for text in body if not text.startswith("    ")]
    assert [mark for mark in margin if mark != "#"] == [f"[{number}]" for number in range(1, len(evidence) + 1)]
    assert margin[0] == "#"


@given(lines(), times)
def test_a_time_is_only_in_its_heading(item: Evidence, at: datetime | None) -> None:
    assert render([item]).split("\n")[1].startswith("# ")
