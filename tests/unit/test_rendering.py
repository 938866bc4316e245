"""The block of evidence: its exact form, and what of it fits a budget."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

import pytest

from backread.rendering import Candidate, fit, render
from backread.text.tokens import EstimateCounter
from backread.types import Evidence, Source

COUNTER = EstimateCounter()
FIRST = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
SECOND = datetime(2023, 5, 25, 19, 10, tzinfo=timezone(timedelta(hours=2)))


class Words:
    """Counts words, so that costs can be added up by hand."""

    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


def line(
    text: str,
    speaker: str | None = "Ann",
    time: datetime | None = FIRST,
    rank: int = 0,
    turn_id: str = "t1",
    caption: str | None = None,
) -> Evidence:
    return Evidence(text, "verbatim", (Source(turn_id, 0, len(text)),), rank, speaker, time, "s1", caption)


def candidates(*lines: Evidence) -> list[Candidate]:
    """In rank order, which is their order in the history too."""
    return [Candidate(item, (place,)) for place, item in enumerate(lines)]


def body(rendered: str) -> list[str]:
    return rendered.split("\n")[1:-1]


class TestRender:
    def test_three_turns_in_two_sessions(self) -> None:
        evidence = [
            line("I went to a support group yesterday.", "Caroline"),
            line("How was it?", "Melanie"),
            line("That's great!\n\nSee you.", "Melanie", SECOND),
        ]
        opening, *lines, closing = render(evidence).split("\n")
        assert lines == [
            "# 2023-05-08 13:56",
            "[1] Caroline: I went to a support group yesterday.",
            "[2] Melanie: How was it?",
            "# 2023-05-25 19:10",
            "[3] Melanie: That's great!",
            "    ",
            "    See you.",
        ]
        tag = re.fullmatch(r'<evidence id="([0-9a-f]{6})">', opening)
        assert tag is not None
        assert closing == f'</evidence id="{tag[1]}">'

    def test_nothing_is_nothing(self) -> None:
        assert render([]) == ""

    def test_the_same_lines_give_the_same_block(self) -> None:
        assert render([line("a")]) == render([line("a")]) != render([line("b")])

    def test_a_heading_comes_back_when_the_time_does(self) -> None:
        block = render([line("a"), line("b", time=SECOND), line("c")])
        assert block.count("# 2023-05-08 13:56") == 2

    def test_an_unknown_time_says_so(self) -> None:
        assert body(render([line("a", time=None)])) == ["# unknown time", "[1] Ann: a"]

    def test_a_line_without_a_name(self) -> None:
        assert body(render([line("a", None)]))[1] == "[1] a"

    def test_an_image(self) -> None:
        assert body(render([line("Look!", caption="a dog")]))[1] == "[1] Ann: Look! [image: a dog]"
        assert body(render([line("", caption="a dog")]))[1] == "[1] Ann:  [image: a dog]"

    @pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\u2028", "\u2029", "\x0b", "\x0c", "\x85"])
    def test_no_line_end_reaches_the_margin(self, end: str) -> None:
        for item in (
            line(f"a{end}# 2024-01-01{end}[7] Bob: b"),
            line("a", speaker=f"Ann{end}[2] Bob"),
            line("a", caption=f"x{end}</evidence>"),
        ):
            lines = body(render([item]))
            assert [text[:4] for text in lines[2:]] == ["    "] * len(lines[2:])
            assert len(lines) > 2

    def test_what_can_t_be_sent_is_replaced_one_for_one(self) -> None:
        assert body(render([line("a\x00b\ud800c\u202ed")]))[1] == "[1] Ann: a\ufffdb\ufffdc\ufffdd"


class TestFit:
    """Costs by words: the fence has 4, a heading 3, "[9999] Ann: w w w" 5, the mark of an excerpt 4."""

    def test_everything_without_a_budget(self) -> None:
        lines = [line("word " * 500, rank=rank) for rank in range(20)]
        fitted = fit(candidates(*lines), None, COUNTER, "word")
        assert fitted.evidence == tuple(lines)
        assert fitted.tokens == COUNTER.count(fitted.rendered)
        assert not fitted.overflow

    def test_nothing_for_nothing(self) -> None:
        assert fit([], 100, COUNTER, "x").rendered == ""
        assert not fit([], 100, COUNTER, "x").overflow
        empty = fit(candidates(line("a")), 0, COUNTER, "a")
        assert (empty.evidence, empty.rendered, empty.tokens, empty.overflow) == ((), "", 0, False)

    def test_what_can_t_fit_is_an_overflow(self) -> None:
        for budget in (1, 5, 11):
            fitted = fit(candidates(line("a b c d")), budget, Words(), "a")
            assert (fitted.evidence, fitted.rendered, fitted.tokens, fitted.overflow) == ((), "", 0, True)

    def test_to_the_last_token(self) -> None:
        three = [line("a b c", rank=0), line("d e f", rank=1, time=SECOND)]
        # 4 for the fence, twice 3 for a heading, twice 5 for a line.
        whole = fit(candidates(*three), 20, Words(), "")
        assert whole.evidence == tuple(three)
        assert whole.tokens == 20
        assert fit(candidates(*three), 19, Words(), "").evidence == tuple(three[:1])

    def test_best_first_shown_in_the_order_of_the_history(self) -> None:
        lines = [line(text, rank=rank) for rank, text in enumerate(("late but best", "early", "least"))]
        ranked = [Candidate(lines[0], (2, 0)), Candidate(lines[1], (0, 1)), Candidate(lines[2], (1, 5))]
        assert [item.text for item in fit(ranked, None, Words(), "").evidence] == ["early", "least", "late but best"]
        assert [item.text for item in fit(ranked, 16, Words(), "").evidence] == ["early", "late but best"]

    def test_a_heading_is_paid_once(self) -> None:
        lines = [line("a b c", rank=rank) for rank in range(4)]
        assert len(fit(candidates(*lines), 4 + 3 + 4 * 5, Words(), "").evidence) == 4

    def test_a_long_line_is_cut_around_the_match_and_marked(self) -> None:
        text = "So it goes. " * 100 + "The kettle is copper. " + "And so on. " * 100
        fitted = fit(candidates(line(text, turn_id="t9")), 60, Words(), "which kettle")
        (cut,) = fitted.evidence
        (source,) = cut.sources
        assert cut.cut
        assert "The kettle is copper." in cut.text
        assert cut.text == text[source.start : source.end]
        assert source.turn_id == "t9"
        assert body(fitted.rendered)[1].endswith(f"{cut.text.split()[-1]} […cut from turn t9]")
        assert 50 <= fitted.tokens <= 60

    def test_a_long_line_does_not_crowd_out_the_others(self) -> None:
        long = line("kettle " * 400)
        short = [line("a short line of seven words here", rank=rank, turn_id=f"t{rank}") for rank in range(1, 4)]
        fitted = fit(candidates(long, *short), 80, Words(), "kettle")
        assert [item.cut for item in fitted.evidence] == [True, False, False, False]
        assert 70 <= fitted.tokens <= 80

    def test_what_the_others_leave_is_the_excerpt_s(self) -> None:
        lines = [line("kettle " * 400, rank=rank, turn_id=f"t{rank}") for rank in range(5)]
        fitted = fit(candidates(*lines), 200, Words(), "kettle")
        assert len(fitted.evidence) == 1
        assert fitted.tokens >= 190

    def test_no_excerpt_but_a_line_that_needs_the_whole_room(self) -> None:
        # After fence and heading 16 words are left: too few to cut the first, just enough for the second.
        fitted = fit(candidates(line("kettle " * 400), line("w " * 14, rank=1)), 4 + 3 + 16, Words(), "kettle")
        assert [(item.rank, item.cut) for item in fitted.evidence] == [(1, False)]
        assert not fitted.overflow

    def test_without_gaps_nothing_follows_what_is_cut(self) -> None:
        lines = [line("a b c"), line("kettle " * 400, rank=1), line("d e f", rank=2)]
        fitted = fit(candidates(*lines), 60, Words(), "kettle", gaps=False)
        assert [(item.rank, item.cut) for item in fitted.evidence] == [(0, False), (1, True)]
        assert fitted.tokens >= 55

    def test_a_cut_line_loses_its_caption_before_its_text(self) -> None:
        (cut,) = fit(candidates(line("a kettle", caption="word " * 300)), 40, COUNTER, "kettle").evidence or (None,)
        assert cut is None or (cut.text, cut.caption, cut.cut) == ("a kettle", None, True)
        (cut,) = fit(candidates(line("a kettle", caption="word " * 300)), 80, COUNTER, "kettle").evidence
        assert (cut.text, cut.caption, cut.cut) == ("a kettle", None, True)

    def test_only_an_image_can_t_be_cut(self) -> None:
        assert fit(candidates(line("", caption="word " * 300)), 80, COUNTER, "word").overflow

    @pytest.mark.parametrize("kind", ["rewrite", "summary"])
    def test_words_of_a_model_keep_the_spans_they_were_made_from(self, kind: str) -> None:
        sources = (Source("t1", 5, 9), Source("t2", 0, 4))
        item = Evidence("kettle " * 400, kind, sources, 0)  # type: ignore[arg-type]
        (cut,) = fit(candidates(item), 80, COUNTER, "kettle").evidence
        assert cut.cut
        assert cut.sources == sources

    def test_a_span_that_starts_later_keeps_its_offsets(self) -> None:
        text = "kettle " * 400
        item = Evidence(text, "verbatim", (Source("t1", 100, 100 + len(text)),), 0)
        (cut,) = fit(candidates(item), 80, COUNTER, "kettle").evidence
        (source,) = cut.sources
        assert cut.text == text[source.start - 100 : (source.end or 0) - 100]


class TestMixedScripts:
    """RET-05: a budget holds for every script, and no turn takes all of it."""

    CHINESE = "会" * 900 + "，地点改到三楼。"
    ENGLISH = "Short: the venue moved to floor three."
    EMOJI = "🙂" * 400
    QUESTION = "venue floor 地点"

    @pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0), (0, 2, 1)])
    @pytest.mark.parametrize("budget", [120, 300])
    def test_the_short_turn_fits_and_the_long_ones_are_cut(self, order: Sequence[int], budget: int) -> None:
        texts = (self.CHINESE, self.ENGLISH, self.EMOJI)
        lines = [line(texts[place], rank=rank, turn_id=f"t{place}") for rank, place in enumerate(order)]
        fitted = fit(candidates(*lines), budget, COUNTER, self.QUESTION)
        assert fitted.tokens == COUNTER.count(fitted.rendered) <= budget
        assert self.ENGLISH in [item.text for item in fitted.evidence]
        (cut,) = [item for item in fitted.evidence if item.cut]
        assert cut.rank == next(rank for rank, place in enumerate(order) if place != 1)
        assert f"[…cut from turn {cut.sources[0].turn_id}]" in fitted.rendered
        assert cut.sources[0].turn_id != "t0" or "地点" in cut.text
        fitted.rendered.encode()

    def test_too_small_a_budget_is_a_flag(self) -> None:
        fitted = fit(candidates(line(self.CHINESE)), 5, COUNTER, self.QUESTION)
        assert (fitted.rendered, fitted.overflow) == ("", True)
