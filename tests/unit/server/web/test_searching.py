"""Search as you type: hits with scores and marked words, filters, and what fell short."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from memory_samples import TALK, keep_old, opened
from web_samples import Browser, browser, elements

from backread import Memory
from backread.testing.fakes import HashEmbedder

PATH = "/ui/users/ann/search"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path) as made:
        keep_old(made, TALK, "s1")
        made.add({"role": "user", "content": "Bo's kettle"}, user_id="bo", session_id="s1")
        yield made


@pytest.fixture
def page(memory: Memory) -> Iterator[Browser]:
    with browser(memory) as made:
        yield made


def hits(page: Browser, query: str) -> list[str]:
    part = page.get(f"{PATH}?{query}", hx_request="true").text
    return [item.text for item in elements(part) if item.tag == "li" and "data-move" in item.attributes]


def test_hits_with_score_words_and_the_way_to_the_turn(memory: Memory, page: Browser) -> None:
    part = elements(page.get(f"{PATH}?q=kettles&mode=bm25", hx_request="true").text)
    (found,) = memory.search("kettles", user_id="ann", mode="bm25")
    (hit,) = [item for item in part if "data-move" in item.attributes]
    assert hit.text == f"{found.score:.4f} Ann Wed 2024-05-01 09:00 s1 I bought a copper kettle."
    assert [item.text for item in part if item.tag == "mark"] == ["kettle"]
    (jump,) = [item for item in part if "jump" in item.classes]
    assert jump["href"] == jump["hx-get"] == f"/ui/users/ann/turns/{found.turn.turn_id}"
    (status,) = [item for item in part if item.attributes.get("hx-swap-oob")]
    assert (status["id"], status.text.rsplit(", in ")[0]) == ("status", "1 hit")


def test_a_whole_page_holds_the_same(page: Browser) -> None:
    path = f"{PATH}?q=lamp&mode=bm25&speaker=Bob"
    assert [item.text for item in page.seen(path, "mark")] == ["lamp"]
    (field,) = [item for item in page.seen(path, "input") if item.attributes.get("name") == "q"]
    assert field["value"] == "lamp"
    chosen = [item.text for item in page.seen(path, "option") if "selected" in item.attributes]
    assert chosen == ["bm25", "Bob"]
    assert not [item for item in page.seen(path) if "hx-swap-oob" in item.attributes]
    assert page.seen(path, kind="status")[0]["role"] == "status"


def test_nothing_is_asked_for_a_blank_query(page: Browser) -> None:
    part = page.get(f"{PATH}?q=+++", hx_request="true").text
    assert "Type to search." in part
    assert "hit" not in part.replace("hits", "")
    assert "Nothing found." in page.get(f"{PATH}?q=zebra&mode=bm25", hx_request="true").text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("q=the+lamp+kettle+ferry+vinegar", 4),
        ("q=the+lamp+kettle+ferry+vinegar&speaker=Ann", 2),
        ("q=the+lamp+kettle+ferry+vinegar&speaker=assistant", 1),
        ("q=the+lamp+kettle+ferry+vinegar&session=s2", 0),
        ("q=the+lamp+kettle+ferry+vinegar&from=2024-05-02", 1),
        ("q=the+lamp+kettle+ferry+vinegar&to=2024-05-01", 2),  # the whole last day
        ("q=the+lamp+kettle+ferry+vinegar&to=2024-04-30", 0),
        ("q=the+lamp+kettle+ferry+vinegar&top_k=1", 1),
    ],
)
def test_filters(page: Browser, query: str, expected: int) -> None:
    assert len(hits(page, f"mode=bm25&{query}")) == expected


def test_what_fell_short_is_said(page: Browser) -> None:
    notes = [item.text for item in page.seen(f"{PATH}?q=kettle&mode=bm25&from=2024-01-01", kind="notes")]
    assert notes == ["time turns of unknown time are left out (1)"]


def test_only_ways_that_work_are_offered(tmp_path: Path, page: Browser) -> None:
    def offered(browser_: Browser) -> list[str]:
        return [item["value"] for item in browser_.seen(PATH, "option") if "title" in item.attributes]

    assert offered(page) == ["hybrid", "bm25"]
    (tmp_path / "e").mkdir()
    with opened(tmp_path / "e", HashEmbedder()) as memory, browser(memory) as other:
        assert offered(other) == ["hybrid", "interpolation", "rrf", "bm25", "dense"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("q=x&mode=magic", "there is no way to search called 'magic'"),
        ("q=x&from=someday", "not a time that can be read: 'someday'"),
        ("q=x&to=2024-02-30", "not a time that can be read: '2024-02-30'"),
        ("q=x&top_k=0", "top_k: Input should be greater"),
        ("q=x&mode=dense", "retriever 'dense' needs an embedder"),
    ],
)
def test_what_cannot_be_searched_is_no_empty_result(page: Browser, query: str, told: str) -> None:
    response = page.client.get(f"{PATH}?{query}", headers={"HX-Request": "true"})
    assert response.status_code in (422, 503)
    assert told in elements(response.text)[0].text
    assert "Nothing found" not in response.text


def test_more_hits(memory: Memory, page: Browser) -> None:
    memory.add([{"role": "user", "content": f"kettle {n}"} for n in range(30)], user_id="ann", session_id="s2")
    path = f"{PATH}?q=kettle&mode=bm25&speaker=user"
    assert len(hits(page, "q=kettle&mode=bm25&speaker=user")) == 20
    (more,) = page.seen(path, "a", kind="button")
    assert more["href"] == f"{PATH}?q=kettle&mode=bm25&speaker=user&top_k=40"
    assert len(page.seen(more["href"], kind="score")) == 30
    assert page.seen(more["href"], "a", kind="button") == []


def test_the_same_words_again_stand_under_one_hit(memory: Memory, page: Browser) -> None:
    memory.add(TALK[0] | {"id": "m8", "timestamp": "2024-07-01T10:00Z"}, user_id="ann", session_id="s2")
    (hit,) = hits(page, "q=kettle&mode=bm25")
    assert "the same words 1 more time, 2024-0" in hit
