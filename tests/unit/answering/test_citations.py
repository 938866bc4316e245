"""Citations in replies as models really write them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from backread.answering.citations import Checked, check, find_quote
from backread.types import Evidence, Source, Turn

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)

TURNS = [
    ("Ann", "I bought a copper kettle in Porto. It leaks."),
    ("Bob", "My lamp is green,\n  and the   shade is torn."),
    ("Ann", "The ferry leaves at 7:45; don’t be late…"),
    ("Cleo", ""),
]
CAPTIONS = [None, None, "two tickets on a table", "a grey cat on a sofa"]


def turn(place: int) -> Turn:
    speaker, text = TURNS[place - 1]
    return Turn(f"t{place}", "s", place, "participant", text, NOON, speaker, caption=CAPTIONS[place - 1])


EVIDENCE = [
    Evidence(made.text, "verbatim", (Source(made.turn_id, 0, len(made.text)),), 0, made.speaker, caption=made.caption)
    for made in map(turn, range(1, 5))
]
BY_ID = {made.turn_id: made for made in map(turn, range(1, 5))}


def checked(reply: str, evidence: Sequence[Evidence] = EVIDENCE) -> Checked:
    result = check(reply, evidence, BY_ID)
    for citation in result.citations:
        assert citation.quote == BY_ID[citation.turn_id].text[citation.start : citation.end]
        assert f"[{citation.number}]" in result.text
    assert [citation.number for citation in result.citations] == sorted({c.number for c in result.citations})
    return result


def quotes(reply: str) -> dict[int, str]:
    return {citation.number: citation.quote for citation in checked(reply).citations}


class TestMarks:
    def test_one(self) -> None:
        result = checked('Ann bought a kettle [1].\n\nQUOTES\n[1] "a copper kettle"')
        assert result.text == "Ann bought a kettle [1]."
        assert [(c.turn_id, c.start, c.end, c.quote) for c in result.citations] == [("t1", 9, 24, "a copper kettle")]
        assert result.dropped == 0

    @pytest.mark.parametrize(
        "marks", ["[1, 2]", "[1,2]", "[1][2]", "[1; 2]", "[1-2]", "[1–2]", "【1】【2】", "［1，2］"]
    )
    def test_lists_and_ranges_are_written_one_by_one(self, marks: str) -> None:
        result = checked(f"A copper kettle and a green lamp {marks}.")
        assert result.text == "A copper kettle and a green lamp [1][2]."
        assert [citation.number for citation in result.citations] == [1, 2]

    def test_several_statements(self) -> None:
        result = checked("The kettle is copper [1]. The lamp is green [2]. The kettle leaks [1].")
        assert result.text.count("[1]") == 2
        assert quotes(result.text) == {1: "I bought a copper kettle in Porto.", 2: "My lamp is green,"}

    def test_a_mark_after_the_full_stop_belongs_to_the_sentence(self) -> None:
        assert quotes("Her kettle is copper. [1]") == {1: "I bought a copper kettle in Porto."}

    @pytest.mark.parametrize("mark", ["[0]", "[5]", "[17]", "[999]"])
    def test_a_line_that_does_not_exist(self, mark: str) -> None:
        result = checked(f"The kettle is copper {mark}.")
        assert (result.text, result.citations, result.dropped) == ("The kettle is copper.", (), 1)

    def test_what_stands_stays_beside_what_does_not(self) -> None:
        result = checked("The kettle is copper [9][1, 8].")
        assert (result.text, result.dropped) == ("The kettle is copper [1].", 2)

    @pytest.mark.parametrize(
        "text",
        ["[sic] he said", "see [a] or [1a]", "x[i] = []", "[ ]", "born [1987]", "from [2019-2021]", "(1)", "[-1]"],
    )
    def test_brackets_that_are_no_marks_stay(self, text: str) -> None:
        result = checked(text)
        assert (result.text, result.citations, result.dropped) == (text, (), 0)

    def test_a_year_is_a_line_once_there_are_so_many(self) -> None:
        assert checked("The kettle is copper [1985].", EVIDENCE * 500).citations[0].number == 1985

    @pytest.mark.parametrize(
        ("reply", "left"),
        [
            ("The sky is blue [9] today.", "The sky is blue today."),
            ("Le ciel est bleu [9] !", "Le ciel est bleu !"),
            ("blue [9]\nsky", "blue\nsky"),
            ("blue[9] sky :)", "blue sky :)"),
            ("Is it so ?", "Is it so ?"),
            ("  a , b  ", "a , b"),
        ],
    )
    def test_only_the_space_of_a_mark_goes_with_it(self, reply: str, left: str) -> None:
        assert checked(reply).text == left

    def test_no_evidence_no_citation(self) -> None:
        result = check("The kettle is copper [1].", [], {})
        assert (result.text, result.citations, result.dropped) == ("The kettle is copper.", (), 1)

    def test_a_turn_that_is_gone_meanwhile(self) -> None:
        assert check("The kettle is copper [1].", EVIDENCE, {}).dropped == 1


class TestWithoutQuotes:
    def test_the_sentence_that_shares_most_is_cited(self) -> None:
        assert quotes("It leaks [1].") == {1: "It leaks."}

    def test_a_number_is_support(self) -> None:
        assert quotes("Um 7:45 [3]") == {3: "The ferry leaves at 7:45; don’t be late…"}

    def test_function_words_are_no_support(self) -> None:
        result = checked("It is in the of and [1].")
        assert (result.text, result.dropped) == ("It is in the of and.", 1)

    def test_no_support_at_all(self) -> None:
        result = checked("Bob sold his car [2].")
        assert (result.text, result.citations, result.dropped) == ("Bob sold his car.", (), 1)

    def test_every_mark_needs_support_of_its_own(self) -> None:
        result = checked("The kettle is copper [1]. Elephants can swim [1].")
        assert (result.text, result.dropped) == ("The kettle is copper [1]. Elephants can swim.", 1)

    def test_only_what_was_shown_of_a_turn_supports(self) -> None:
        excerpt = Evidence("It leaks.", "verbatim", (Source("t1", 35, 44),), 0, "Ann", cut=True)
        assert check("A copper kettle [1].", [excerpt], BY_ID).dropped == 1
        (citation,) = check("It leaks [1].", [excerpt], BY_ID).citations
        assert (citation.start, citation.end) == (35, 44)

    def test_a_caption_supports_its_line(self) -> None:
        assert quotes("There is a grey cat [4].") == {4: ""}
        assert quotes("There were two tickets [3].") == {3: TURNS[2][1]}


class TestQuotes:
    @pytest.mark.parametrize(
        "heading",
        [
            "QUOTES",
            "Quotes",
            "QUOTES:",
            "**QUOTES**",
            "**Quotes:**",
            "## QUOTES",
            "  quotes  ",
            "---\nQUOTES\n---",
            "«QUOTES»",
        ],
    )
    def test_the_heading_in_any_dress(self, heading: str) -> None:
        result = checked(f'It is copper [1].\n{heading}\n\n[1] "copper kettle"\n')
        assert result.text.startswith("It is copper [1].")
        assert "copper kettle" not in result.text
        assert [c.quote for c in result.citations] == ["copper kettle"]

    @pytest.mark.parametrize(
        "line",
        [
            '[1] "copper kettle"',
            "[1] “copper kettle”",
            "[1] „copper kettle“",
            "[1] «copper kettle»",
            "[1] « copper kettle »",
            "[1] 「copper kettle」",
            "[1] 'copper kettle'",
            "[1] ‘copper kettle’",
            "[1] copper kettle",
            '[1]: "copper kettle"',
            '[1] - "copper kettle"',
            '- [1] "copper kettle"',
            '* [1] "copper kettle".',
            '1. [1] "copper kettle"',
            '**[1]** "copper kettle"',
            '> [1] "copper kettle"',
            '  [1]   "copper   kettle"  ',
            '【1】"copper kettle"',
            '[1] "COPPER Kettle"',
            '[1] "...copper kettle..."',
            '[1] "… copper kettle …"',
            '[1] "copper kettle."',
            '[1] "Ann: copper kettle"',
            '[1] "copper kettle" […cut from turn t1]',
            '[1] "made up"\n[1] "copper kettle"',
            '[2][1] "copper kettle"',
            '[1, 2] "copper kettle"',
        ],
    )
    def test_a_quote_in_any_dress(self, line: str) -> None:
        assert quotes(f"It is copper [1].\n\nQUOTES\n{line}") == {1: "copper kettle"}

    def test_the_heading_and_the_first_quote_on_one_line(self) -> None:
        assert quotes('It is copper [1].\nQUOTES: [1] "copper kettle"') == {1: "copper kettle"}

    def test_the_word_in_a_sentence_is_no_heading(self) -> None:
        result = checked("Quotes are fine.\nThe kettle is copper [1]. He likes quotes")
        assert result.text == "Quotes are fine.\nThe kettle is copper [1]. He likes quotes"

    def test_white_space_is_folded(self) -> None:
        assert quotes('Torn [2].\nQUOTES\n[2] "green, and the shade"') == {2: "green,\n  and the   shade"}

    def test_apostrophes_and_ellipses_in_another_form(self) -> None:
        assert quotes('Be on time [3].\nQUOTES\n[3] "don\'t be late..."') == {3: "don’t be late"}
        assert quotes('Seven [3].\nQUOTES\n[3] "at 7:45; don\'t be late…"') == {3: "at 7:45; don’t be late"}

    def test_a_quote_that_is_not_in_the_turn(self) -> None:
        result = checked('The kettle is copper [1].\nQUOTES\n[1] "a golden kettle"')
        assert (result.text, result.citations, result.dropped) == ("The kettle is copper.", (), 1)

    def test_a_quote_of_another_line(self) -> None:
        assert checked('The lamp is green [1].\nQUOTES\n[1] "My lamp is green"').dropped == 1

    def test_a_quote_without_a_mark_is_nothing(self) -> None:
        result = checked('No idea.\nQUOTES\n[1] "copper kettle"')
        assert (result.text, result.citations, result.dropped) == ("No idea.", (), 0)

    def test_a_mark_without_a_quote_beside_one_with(self) -> None:
        reply = 'The kettle is copper [1]. The lamp is green [2].\nQUOTES\n[1] "copper kettle"'
        assert quotes(reply) == {1: "copper kettle", 2: "My lamp is green,"}

    def test_words_of_the_caption(self) -> None:
        assert quotes('A cat [4].\nQUOTES\n[4] "a grey cat"') == {4: ""}
        assert quotes('Late [3].\nQUOTES\n[3] "be late… [image: two tickets"') == {3: "be late…"}

    def test_words_of_a_model_stand_for_the_span_they_were_made_from(self) -> None:
        made = Evidence("Ann owns a copper pot.", "rewrite", (Source("t1", 0, 34),), 0)
        (citation,) = check('Copper [1].\nQUOTES\n[1] "owns a copper pot"', [made], BY_ID).citations
        assert citation.quote == "I bought a copper kettle in Porto."

    def test_the_second_source_of_a_line(self) -> None:
        made = Evidence("Both.", "summary", (Source("t1"), Source("t2")), 0)
        (citation,) = check('Torn [1].\nQUOTES\n[1] "the shade is torn"', [made], BY_ID).citations
        assert citation.turn_id == "t2"


class TestFindQuote:
    @pytest.mark.parametrize(
        ("text", "quote", "span"),
        [
            ("a kettle", "kettle", (2, 8)),
            ("Kettle kettle", "kettle", (7, 13)),  # the case as given first
            ("KETTLE", "kettle", (0, 6)),
            ("a\tb\u3000c", "a b c", (0, 5)),
            ("concatenate", "cat", None),  # whole words
            ("东京很大", "京很", (1, 3)),  # where there are words
            ("a.b", "a*b", None),  # nothing is a pattern
            ("a+b (c)", "a+b (c)", (0, 7)),
            ("long–dash", "long-dash", (0, 9)),
            ("say “hi” now", 'say "hi"', (0, 8)),
            ("nul\x00byte", "nul\ufffdbyte", (0, 8)),  # as it was shown
            ("x", "", None),
            ("x", "…", None),
            ("x", " ... ", None),
            ("", "x", None),
            ("Stop! Now.", "stop", (0, 4)),
            ("Stop now", "Stop now!", (0, 8)),
            ("\ud800 lone", "lone", (2, 6)),
        ],
    )
    def test_where(self, text: str, quote: str, span: tuple[int, int] | None) -> None:
        assert find_quote(text, quote) == span

    def test_a_long_text_is_no_trouble(self) -> None:
        assert find_quote("a b " * 100_000 + "c", "a b " * 40 + "c") == (399_840, 400_001)

    @pytest.mark.parametrize(
        ("text", "quote", "span"),
        [
            ("a <|im_end|> b", "a < |im_end| > b", (0, 14)),  # as a prompt shows it
            ("a < |im_end| > b", "a <|im_end|> b", (0, 16)),
            ("see [ 1 ] and (2)", "see [1] and", (0, 13)),
            ("x < y and z > w", "x < y and z > w", (0, 15)),
            ("STRASSE [INST] İz", "strasse [ inst ] İZ", (0, 17)),
            ("xa-a-a end", "a-a", (3, 6)),  # not the one inside a longer word
        ],
    )
    def test_white_space_inside_brackets_is_left_aside(
        self, text: str, quote: str, span: tuple[int, int] | None
    ) -> None:
        assert find_quote(text, quote) == span
