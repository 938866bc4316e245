"""Answering without a model: sentences of the record, quoted and cited."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from backread.answering import quote_answer
from backread.errors import ModelRequestError
from backread.testing.fakes import FailingEmbedder, HashEmbedder
from backread.types import Answer, Degradation, Evidence, Recall, Source, Turn, Usage

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def ask(question: str, *texts: str, embedder: HashEmbedder | None = None, quotes: int = 3, **recall: object) -> Answer:
    """Lines shown in the order given, ranked in it too."""
    turns = {
        f"t{place}": Turn(f"t{place}", "s", place, "user", text, NOON, "Ann", said_at=NOON)
        for place, text in enumerate(texts)
    }
    lines = tuple(
        Evidence(turn.text, "verbatim", (Source(turn.turn_id, 0, len(turn.text)),), turn.position, "Ann", NOON)
        for turn in turns.values()
    )
    asked = Recall(question, "s", lines, "", 0, "c", **recall)  # type: ignore[arg-type]
    made = quote_answer(asked, turns, embedder, quotes=quotes)
    assert made.extractive
    assert made.model is None
    assert made.prompt_hash is None
    for citation in made.citations:
        assert citation.quote == turns[citation.turn_id].text[citation.start : citation.end]
    return made


def test_a_sentence_is_quoted_with_who_said_it_and_when() -> None:
    made = ask("Where is the kettle?", "Hello. The kettle is in the garage. Bye.")
    assert made.text == "“The kettle is in the garage.” — Ann, 2024-05-01 12:00 [1]"
    assert [(c.number, c.turn_id, c.start, c.end) for c in made.citations] == [(1, "t0", 7, 35)]


def test_no_evidence_says_so() -> None:
    made = ask("Where is the kettle?")
    assert (made.text, made.citations) == ("The record has nothing on this.", ())


def test_evidence_without_a_word_says_so() -> None:
    assert ask("Where is the kettle?", "", " \n").citations == ()


def test_a_line_is_quoted_once() -> None:
    made = ask("kettle", "The kettle is old. The kettle is blue. The kettle leaks.", "A kettle.")
    assert [citation.number for citation in made.citations] == [1, 2]
    assert len(made.text.split("\n")) == 2


@pytest.mark.parametrize("quotes", [1, 2, 3])
def test_no_more_quotes_than_asked_for(quotes: int) -> None:
    made = ask("blue kettle", *["The blue kettle is here."] * 6, quotes=quotes)
    assert len(made.citations) == quotes
    assert [citation.number for citation in made.citations] == [1, 2, 3][:quotes]


def test_the_best_comes_first_and_citations_by_number() -> None:
    one, two = "A big red kettle is in the garage.", "The big red copper kettle is in the garage."
    made = ask("big red copper kettle in the garage", one, two)
    assert made.text.split("\n")[0].endswith("[2]")
    assert [citation.number for citation in made.citations] == [1, 2]


def test_a_sentence_that_asks_gives_way_to_one_that_answers() -> None:
    made = ask("Where is the kettle?", "Where is the kettle?", "The kettle is here.", quotes=1)
    assert made.citations[0].quote == "The kettle is here."


def test_the_best_is_quoted_however_bad_it_is() -> None:
    assert ask("Where is the kettle?", "Where do you live?").citations[0].number == 1
    assert ask("zeppelin", "The kettle is here.").citations[0].number == 1


def test_an_embedder_finds_what_shares_no_word() -> None:
    class Synonyms(HashEmbedder):
        def _vector(self, text: str):  # type: ignore[no-untyped-def]
            return super()._vector(text.replace("pot", "kettle"))

    texts = ("My lamp is in the garage.", "A pot stands here.")
    assert ask("kettle", *texts, quotes=1).citations[0].number == 1
    assert ask("kettle", *texts, quotes=1, embedder=Synonyms(2048)).citations[0].number == 2


def test_an_embedder_that_is_down_is_an_error() -> None:
    turn = Turn("t0", "s", 0, "user", "A kettle.", NOON)
    line = Evidence(turn.text, "verbatim", (Source("t0", 0, 9),), 0)
    with pytest.raises(ModelRequestError):
        quote_answer(Recall("kettle", "s", (line,), "", 0, "c"), {"t0": turn}, FailingEmbedder())


def test_only_what_was_shown_of_a_turn_is_quoted() -> None:
    turn = Turn("t0", "s", 0, "user", "The kettle is blue. The kettle leaks.", NOON)
    line = Evidence("The kettle leaks.", "verbatim", (Source("t0", 20, 37),), 0, cut=True)
    made = quote_answer(Recall("blue kettle", "s", (line,), "", 0, "c"), {"t0": turn})
    assert [(c.start, c.end, c.quote) for c in made.citations] == [(20, 37, "The kettle leaks.")]


def test_a_turn_that_is_gone_meanwhile_is_left_out() -> None:
    line = Evidence("A kettle.", "verbatim", (Source("t0", 0, 9),), 0)
    assert quote_answer(Recall("kettle", "s", (line,), "", 0, "c"), {}).citations == ()


def test_an_answer_can_be_shown() -> None:
    turn = Turn("t0", "s", 0, "user", "A \x1b[31m kettle \ud800.", NOON, "Mal\n[9] \x00")
    line = Evidence(turn.text, "verbatim", (Source("t0", 0, len(turn.text)),), 0, turn.name)
    made = quote_answer(Recall("kettle", "s", (line,), "", 0, "c"), {"t0": turn})
    assert made.text == "“A \ufffd[31m kettle \ufffd.” — Mal [9] \ufffd, unknown time [1]"
    assert made.citations[0].quote == turn.text


def test_other_languages() -> None:
    made = ask("茶壶在哪里", "天气很好。茶壶在车库里。再见。")
    assert made.citations[0].quote == "茶壶在车库里。"


def test_usage_and_degradations_of_the_recall_come_along() -> None:
    usage, down = (Usage("recall", "r"),), (Degradation("dense", "is down"),)
    made = ask("kettle", "A kettle.", usage=usage, degraded=down)
    assert (made.usage, made.degraded) == (usage, down)
