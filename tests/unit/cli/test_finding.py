from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from backread import Memory
from backread.cli.asking import NO_CHAT, parse_budget
from backread.cli.searching import score
from backread.cli.wording import EXCERPT, excerpt, joined, marked
from backread.errors import InvalidInputError

Run = Callable[..., Result]
Data = Callable[..., Any]

pytestmark = pytest.mark.usefixtures("filled")


def test_a_hit_has_its_place_time_speaker_session_and_id(run: Run, data: Data) -> None:
    (hit,) = data("search", "--user", "ann", "-k", "1", "blue", "pot")["items"]
    told = run("search", "--user", "ann", "-k", "1", "blue", "pot").stdout
    heading, text = told.rstrip("\n").split("\n")
    assert heading.split() == ["1", score(hit["score"]), "2025-03-01", "10:00", "Ann", "garden", hit["turn"]["turn_id"]]
    assert text.strip() == "The spare key is under the blue pot."


def test_json_has_the_fields_of_the_dataclass(data: Data) -> None:
    hits = data("search", "--user", "ann", "key")
    assert set(hits) == {"items", "degraded", "pending"}
    assert set(hits["items"][0]) == {"turn", "score", "also"}
    assert hits["items"][0]["turn"]["said_at"] == "2025-03-01T10:00:00+00:00"


def test_json_names_attachments(data: Data, store: Path) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9000}}
    with Memory.open(store) as memory:
        message = {"role": "user", "content": [{"type": "text", "text": "the zeppelin"}, picture], "id": "z1"}
        memory.add(message, user_id="ann", session_id="sky")
    (hit,) = data("search", "--user", "ann", "zeppelin")["items"]
    (named,) = hit["turn"]["attachments"]
    assert (named["type"], named["bytes"] > 9000, set(named)) == ("image_url", True, {"type", "bytes", "sha256"})
    assert data("show", "--user", "ann", "z1")["attachments"] == [picture]


def test_nothing_found_is_no_error(run: Run, data: Data) -> None:
    result = run("search", "--user", "ann", "zebra")
    assert (result.stdout, result.stderr) == ("", "note: nothing found\n")
    assert data("search", "--user", "ann", "zebra")["items"] == []
    assert "'zoe' has no turns" in run("search", "--user", "zoe", "key").stderr


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--speaker", "Tom"), {"roses"}),
        (("--session", "boiler"), {"boiler"}),
        (("--after", "2025-04-01"), {"boiler"}),
        (("--before", "2025-03-01T10:01:00Z"), {"key"}),
        (("--as-of", "2025-03-02"), {"key", "roses"}),
        (("--role", "assistant"), set()),
        (("--role", "assistant", "--role", "user"), {"key", "roses", "boiler"}),
        (("--mode", "bm25"), {"key", "roses", "boiler"}),
    ],
)
def test_options_restrict_a_search(data: Data, options: tuple[str, ...], found: set[str]) -> None:
    texts = [hit["turn"]["text"] for hit in data("search", "--user", "ann", *options, "key roses boiler")["items"]]
    assert {word for word in ("key", "roses", "boiler") if any(word in text for text in texts)} == found


def test_top_k_is_the_number_of_hits(data: Data) -> None:
    assert len(data("search", "--user", "ann", "-k", "2", "key roses boiler")["items"]) == 2


def test_dense_without_an_embedder_is_a_model_error(run: Run) -> None:
    assert run("search", "--user", "ann", "--mode", "dense", "key", code=5).stderr.startswith("error: ")


def test_ver_02_a_long_text_is_cut_with_a_mark_and_its_length_and_full_shows_all(run: Run, data: Data) -> None:
    text = "lorem ipsum dolor " * 200 + "The attic code is 4411#.\n  Keep it safe."
    run("add", "--user", "ann", stdin=text)
    told = run("search", "--user", "ann", "attic code").stdout
    assert "… " in told
    assert "The attic code is" in told
    assert f"[cut; {len(text):,} characters in all]" in told
    assert len(told) < 500
    full = run("search", "--user", "ann", "--full", "attic code").stdout
    assert "cut;" not in full
    assert full.count("lorem") == 200
    assert full.endswith("4411#.\n    Keep it safe.\n")
    assert data("search", "--user", "ann", "attic code")["items"][0]["turn"]["text"] == text


def test_repeated_words_take_one_place(run: Run) -> None:
    for _ in range(5):
        run("add", "--user", "ann", "--session", "s", "the gate stays open")
    told = run("search", "--user", "ann", "gate").stdout
    assert "[the same words 4 more times: " in told
    assert told.count("the gate stays open") == 1


def test_stored_text_cannot_drive_the_terminal(run: Run, data: Data) -> None:
    run("add", "--user", "ann", "--session", "\x1b]0;s\x07", "the gate \x1b[2J code [bold]x[/bold] :smile:")
    for args in (("search", "--user", "ann", "gate"), ("show", "--user", "ann", "--session", "\x1b]0;s\x07")):
        told = run(*args).stdout
        assert "\x1b" not in told
        assert "\x07" not in told
        assert "[bold]x[/bold] :smile:" in told
    assert "\x1b[2J" in data("search", "--user", "ann", "gate")["items"][0]["turn"]["text"]


def test_ids_are_never_cut(run: Run, data: Data) -> None:
    session = "session-" + "x" * 300
    run("add", "--user", "ann", "--session", session, "the gate")
    for args in (("search", "--user", "ann", "gate"), ("sessions", "--user", "ann")):
        assert session in run(*args).stdout


def test_an_excerpt_is_short_and_around_the_words() -> None:
    text = "word " * 400 + "needle in here " + "word " * 400
    shown, cut = excerpt(text, "the needles")
    assert cut
    assert "needle" in shown
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert len(shown) <= EXCERPT + 4
    assert excerpt("  short\n\ttext ", "x") == ("short text", False)


def test_words_are_marked_whatever_their_form() -> None:
    line = marked("She adopts a cat; the CATS sleep.", "adopted cats")
    assert [line.plain[span.start : span.end] for span in line.spans] == ["adopts", "cat", "CATS"]


def test_function_words_are_marked_only_when_there_are_no_others() -> None:
    assert [span.start for span in marked("the cat", "the cat").spans] == [4]
    assert [span.start for span in marked("to be", "to be").spans] == [0, 3]


def test_words_come_from_the_shell_as_bytes() -> None:
    assert joined(["two", " words ", ""]) == "two  words  "
    assert joined(["caf\u00e9"]) == "café"
    assert joined(["\ud800"]) == "\ud800"
    with pytest.raises(InvalidInputError):
        joined(["\udcff"])


@pytest.mark.parametrize(("given", "budget"), [(None, "default"), ("none", None), (" NONE", None), ("300", 300)])
def test_budgets(given: str | None, budget: object) -> None:
    assert parse_budget(given) == budget


@pytest.mark.parametrize("given", ["0", "-5", "many", "", "1.5"])
def test_budgets_that_are_none(given: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_budget(given)


def test_recall_prints_the_block_and_what_it_took(run: Run, data: Data) -> None:
    result = run("recall", "--user", "ann", "Where", "is", "the", "key?")
    found = data("recall", "--user", "ann", "Where is the key?")
    assert result.stdout == found["rendered"] + "\n"
    assert f"{found['tokens']} tokens" in result.stderr
    assert "strategy naive_rag" in result.stderr


def test_recall_takes_budget_strategy_and_times(run: Run, data: Data) -> None:
    options = ("--strategy", "full_context", "--as-of", "2025-03-02", "--asked-at", "2026-01-01", "--budget", "none")
    found = data("recall", "--user", "ann", *options, "key")
    assert found["strategy"] == "full_context"
    assert found["asked_at"] == "2026-01-01T00:00:00+00:00"
    assert "boiler" not in found["rendered"]
    assert data("recall", "--user", "ann", "--budget", "3", "key")["overflow"] is True
    assert "held none of it" in run("recall", "--user", "ann", "--budget", "3", "key").stderr
    run("recall", "--user", "ann", "--strategy", "nope", "key", code=3)
    run("recall", "--user", "ann", "--asked-at", "nope", "key", code=2)


def test_without_a_chat_model_ask_says_so_and_quotes(run: Run, data: Data) -> None:
    told = run("ask", "--user", "ann", "Where is the spare key?").stdout
    found = data("ask", "--user", "ann", "Where is the spare key?")
    first = next(item for item in found["citations"] if "spare key" in item["quote"])
    assert told.startswith(NO_CHAT + "\n\n")
    source = f"2025-03-01 10:00 Ann (garden, {first['turn_id']}):"
    assert f"[{first['number']}] {source} “The spare key is under the blue pot.”" in told
    assert told.count("The spare key") == 1


def test_ask_says_when_the_record_has_nothing(run: Run) -> None:
    result = run("ask", "--user", "zoe", "Where is the key?")
    assert result.stdout == "The record has nothing on this.\n"


def test_trace_tells_what_was_done(run: Run) -> None:
    told = run("ask", "--user", "ann", "--trace", "Where is the key?").stderr
    assert "recall: " in told
    assert "step: retrieve: unit=turn" in told


def test_a_model_without_an_endpoint_stops_ask_and_nothing_else(
    run: Run, monkeypatch: pytest.MonkeyPatch, filled: Path
) -> None:
    monkeypatch.setenv("BACKREAD_MODEL", "gpt-x")
    assert "OPENAI_API_KEY" in run("ask", "--user", "ann", "key", code=5).stderr
    run("search", "--user", "ann", "key")
    run("add", "--user", "ann", "more")
