"""Ask: steps, memory and answer as they are made, or a page with all of it; and what is told of a step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from memory_samples import TALK, opened
from web_samples import Browser, Element, browser, elements

from backread import Memory
from backread.errors import ModelRequestError
from backread.models.roles import ChatRoles
from backread.server.web.tracing import MemoryLine, candidates, step_shown
from backread.settings import Settings
from backread.testing.fakes import ChatRequest, FunctionChat
from backread.text.tokens import EstimateCounter
from backread.types import Step

PATH = "/ui/users/ann/ask"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path) as made:
        made.add(TALK, user_id="ann", session_id="s1")
        yield made


@pytest.fixture
def page(memory: Memory) -> Iterator[Browser]:
    with browser(memory) as made:
        yield made


@contextmanager
def with_chat(path: Path, chat: FunctionChat) -> Iterator[tuple[Memory, Browser]]:
    settings = Settings(path=path / "c.db", embedder="none")
    roles = ChatRoles(recall=chat, answer=chat)
    with Memory.open(model=roles, counter=EstimateCounter(), settings=settings) as memory, browser(memory) as page:
        memory.add(TALK, user_id="ann", session_id="s1")
        yield memory, page


def events(page: Browser, **fields: str) -> list[tuple[str, Any]]:
    """(kind, data) of every event of an answer."""
    response = page.post(PATH, headers={"Accept": "text/event-stream"}, form=fields)
    assert response.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in response.text.split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith(":")]
        if lines:
            assert [line.split(": ")[0] for line in lines] == ["event", "data"]
            found.append((lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))))
    return found


def part(told: list[tuple[str, Any]], name: str) -> list[Element]:
    return elements("".join(data["html"] for _, data in told if data.get("part") == name))


def test_the_form(page: Browser) -> None:
    assert "No chat model is configured: the closest passages are quoted" in page.main(PATH)
    (chosen,) = [item.text for item in page.seen(PATH, "option") if "selected" in item.attributes]
    assert chosen == "naive_rag"
    (told,) = [item for item in page.seen(f"{PATH}?question=Where%3F") if item.attributes.get("id") == "told"]
    assert "hidden" in told.attributes
    (field,) = [
        item for item in page.seen(f"{PATH}?question=Where%3F", "input") if item.attributes.get("name") == "question"
    ]
    assert field["value"] == "Where?"


def test_step_memory_answer(memory: Memory, page: Browser) -> None:
    told = events(page, question="Which kettle?", asked_at="2025-01-01", budget="200")
    assert [(kind, data["part"]) for kind, data in told] == [
        ("step", "steps"),
        ("step", "memory"),
        ("answer", "answer"),
    ]
    recall = memory.recall("Which kettle?", user_id="ann", budget=200, asked_at="2025-01-01")
    (line,) = [item for item in part(told, "memory") if item.attributes.get("id") == "line-1"]
    assert line.text == "1 Ann 2024-05-01 09:00 s1 I bought a copper kettle."
    assert f"3 lines, {recall.tokens} of 200 tokens (estimate-1), strategy naive_rag" in part(told, "memory")[0].text
    (block,) = [item for item in part(told, "memory") if item.tag == "pre"]
    assert block.text == " ".join(recall.rendered.split())
    ranked = [item.text for item in part(told, "memory") if "shown" in item.classes]
    assert ranked[0] == f"{recall.ranked[0].score:.4f} Ann I bought a copper kettle. in the memory"
    assert len(ranked) == 3
    assert part(told, "steps")[0].text.startswith("retrieve")
    answer = part(told, "answer")
    assert [item.text for item in answer if item.tag == "blockquote"] == ["I bought a copper kettle."]
    assert "Quoted: no model wrote this." in "".join(item.text for item in answer if item.tag == "p")
    jumps = {item["href"] for item in answer if "jump" in item.classes}
    assert jumps == {f"/ui/users/ann/turns/{memory.get('m1', user_id='ann').turn_id}"}


def test_without_the_script_it_is_one_page(page: Browser) -> None:
    found = elements(page.post(PATH, question="Which kettle?").text)
    by_id = {item["id"]: item for item in found if "id" in item.attributes}
    assert "hidden" not in by_id["told"].attributes
    assert "I bought a copper kettle." in by_id["answer"].text
    assert "1 Ann 2024-05-01 09:00 s1" in by_id["memory"].text
    assert by_id["steps"].text.startswith("retrieve")


def test_nothing_on_this(page: Browser) -> None:
    told = events(page, question="zebra crossing")
    assert "The record has nothing on this that fits." in "".join(item.text for item in part(told, "memory"))
    assert [item.text for item in part(told, "answer") if "answer" in item.classes] == [
        "The record has nothing on this."
    ]


def test_a_budget_that_holds_nothing_is_said(page: Browser) -> None:
    assert (
        "the budget held none of what there was" in part(events(page, question="kettle", budget="1"), "memory")[0].text
    )


def test_budgets(page: Browser) -> None:
    assert "of 1,000 tokens" in part(events(page, question="kettle"), "memory")[0].text
    assert "of unlimited tokens" in part(events(page, question="kettle", budget="none"), "memory")[0].text


def test_as_of(page: Browser) -> None:
    told = events(page, question="When does the ferry leave?", as_of="2024-05-15")
    assert "ferry" not in "".join(item.text for item in part(told, "memory") if item.tag == "li")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"question": " "}, "the question is blank"),
        ({"question": "x", "budget": "lots"}, "a budget is a number of tokens, not 'lots'"),
        ({"question": "x", "budget": "-1"}, "a budget is a number of tokens from 0 on, not -1"),
        ({"question": "x", "strategy": "magic"}, "there is no strategy 'magic'"),
        ({"question": "x", "asked_at": "soon"}, "not a time that can be read: 'soon'"),
    ],
)
def test_what_cannot_be_asked(page: Browser, fields: dict[str, str], told: str) -> None:
    for accept in ("text/event-stream", "text/html"):
        response = page.client.post(
            PATH,
            data=fields,
            headers={"Accept": accept, "Sec-Fetch-Site": "same-origin"},
        )
        assert response.status_code in (404, 422)
        (problem,) = [item for item in elements(response.text) if "problem" in item.classes]
        assert problem.text.startswith(told)
        assert ("<html" in response.text) is (accept == "text/html")


def test_a_model_that_is_down_is_no_quotation(tmp_path: Path) -> None:
    def down(request: ChatRequest) -> str:
        raise ModelRequestError("the endpoint is down", hint="start it")

    with with_chat(tmp_path, FunctionChat(down)) as (_, page):
        told = events(page, question="Which kettle?")
        assert [kind for kind, _ in told] == ["step", "step", "error"]  # the memory is there, the answer isn't
        assert (told[2][1]["detail"], told[2][1]["hint"]) == ("the endpoint is down", "start it")
        response = page.post(PATH, 502, question="Which kettle?")
        assert "the endpoint is down" in response.text
        assert "Quoted" not in response.text


def test_an_answer_that_a_model_wrote(tmp_path: Path) -> None:
    chat = FunctionChat(lambda request: "A copper kettle [1], and a boat [7].", name="seven-b")
    with with_chat(tmp_path, chat) as (memory, page):
        assert "seven-b answers." in page.main(PATH)
        told = events(page, question="Which kettle?")
        answer = part(told, "answer")
        assert [item.text for item in answer if "answer" in item.classes] == ["A copper kettle [1], and a boat."]
        (mark,) = [item for item in answer if item.text == "[1]"]
        assert (mark["title"], mark["href"]) == (
            "I bought a copper kettle.",
            f"/ui/users/ann/turns/{memory.get('m1', user_id='ann').turn_id}",
        )
        assert [item.text for item in answer if "notes" in item.classes] == [
            "citations could not be tied to a turn and were removed (1)"
        ]
        written = "Written by seven-b; every citation was checked. 1 citation could not be checked and were removed."
        assert [item.text for item in answer if item.classes == ["soft", "small"]] == [written]
        (usage,) = [item for item in answer if item.attributes.get("aria-label") == "Usage of models"]
        assert usage.text.startswith("answer: seven-b, 1 call, ")
        counted = page.get("/metrics").text
        assert 'backread_model_calls_total{model="seven-b",purpose="answer"} 1.0' in counted


def test_memory_is_told_line_by_line_while_it_is_made(tmp_path: Path) -> None:
    def reply(request: ChatRequest) -> str:
        if request.purpose == "answer":
            return "A copper kettle [1]."
        cache = [{"text": "Ann has a copper kettle.", "from": ["1.1"]}]
        return json.dumps({"reasoning": "It says so.", "memory_cache": cache, "action": {"name": "Answer"}})

    with with_chat(tmp_path, FunctionChat(reply)) as (memory, page):
        told = events(page, question="Which kettle?", strategy="t2mem")
        assert [data["part"] for _, data in told] == ["steps", "steps", "memory", "answer"]
        step = elements(told[1][1]["html"])
        assert step[0].text.startswith("t2mem, step 1 Answer ")
        assert "It says so." in step[0].text
        href = f"/ui/users/ann/turns/{memory.get('m1', user_id='ann').turn_id}"
        (line,) = [item for item in step if item.tag == "li" and item.text.startswith("Ann has")]
        assert line.text == "Ann has a copper kettle. source"
        assert [item["href"] for item in step if "jump" in item.classes] == [href]
        (shown,) = [item for item in part(told, "memory") if item.attributes.get("id") == "line-1"]
        assert shown.text == "1 source 2024-05-01 09:00 s1 rewrite Ann has a copper kettle."


@pytest.mark.parametrize(
    "strategy", ["naive_rag:round", "naive_rag:session", "full_context", "t2mem:no_rollout", "lightmem"]
)
def test_what_was_found_is_shown_for_every_kind_of_unit(memory: Memory, page: Browser, strategy: str) -> None:
    memory.build(user_id="ann", strategy=strategy, flush=True)
    told = events(page, question="Which kettle did Ann buy?", strategy=strategy)
    recall = memory.recall("Which kettle did Ann buy?", user_id="ann", strategy=strategy)
    scores = [item.text for item in part(told, "memory") if "score" in item.classes]
    assert scores == [f"{item.score:.4f}" for item in recall.ranked]
    assert [item for item in part(told, "memory") if "shown" in item.classes or not recall.ranked]


def test_what_was_deleted_since_is_left_out(memory: Memory) -> None:
    recall = memory.recall("Which kettle?", user_id="ann")
    known = candidates(memory, memory.history("ann"), recall)
    memory.delete(user_id="ann", turn_id=recall.ranked[0].unit_id)
    assert candidates(memory, memory.history("ann"), recall) == known[1:]


def test_a_question_stands_for_its_user_only(memory: Memory, page: Browser) -> None:
    memory.add({"role": "user", "content": "Bo's kettle is iron."}, user_id="bo")
    told = events(page, question="Which kettle is iron?")
    assert "iron." not in "".join(item.text for item in part(told, "memory"))


class TestSteps:
    def test_what_people_look_for_comes_first(self) -> None:
        detail = {
            "step": 2,
            "query": "kettles",
            "reasoning": "Look again.",
            "memory": ["a", "b"],
            "sources": [["t1", "t2"], []],
            "action": "ReadRaw",
            "entry_id": 8,
            "input_tokens": 1200,
            "output_tokens": None,
            "fault": None,
            "observation": {"kind": "entries", "entries": [8, 7]},
            "valid": True,
            "share": 0.123456,
            "many": 12345,
            "none_yet": [],
        }
        made = step_shown(Step("t2mem", detail, 0.5))
        assert (made.name, made.seconds, made.query, made.prose) == ("t2mem, step 2", 0.5, "kettles", "Look again.")
        assert (made.action, made.fault, made.input_tokens, made.output_tokens) == ("ReadRaw(8)", "", 1200, None)
        assert made.memory == (MemoryLine("a", ("t1", "t2")), MemoryLine("b", ()))
        assert made.facts == (
            ("observation", "kind entries, entries 8, 7"),
            ("valid", "yes"),
            ("share", "0.1235"),
            ("many", "12,345"),
            ("none yet", "none"),
        )

    def test_one_that_says_little(self) -> None:
        made = step_shown(Step("retrieve", {"found": 3}))
        assert (made.name, made.seconds, made.query, made.memory) == ("retrieve", None, "", None)
        assert made.facts == (("found", "3"),)
        assert step_shown(Step("x", {"memory": ["a"]})).memory == (MemoryLine("a", ()),)
