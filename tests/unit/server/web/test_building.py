"""Entries with their sources, and builds while they run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from memory_samples import TALK
from web_samples import Browser, browser, elements

from backread import Memory
from backread.errors import ModelRequestError
from backread.settings import Settings
from backread.store.sqlite import SqliteStore
from backread.types import BuildReport, Step

PATH = "/ui/users/ann/entries"
BUILDS = "/ui/users/ann/builds"
PART = {"HX-Request": "true"}
WAIT = 20


class Held(Memory):
    """A memory whose builds wait to be let go where `hold` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(SqliteStore(path), Settings(embedder="none"))
        self.hold, self.go, self.started = False, threading.Event(), threading.Event()
        self.error: Exception | None = None

    def build(self, *, on_step: Callable[[Step], None] | None = None, **how: Any) -> BuildReport:
        if self.hold:
            assert on_step is not None
            on_step(Step("session", {}))
            self.started.set()
            assert self.go.wait(WAIT)
        if self.error is not None:
            raise self.error
        return super().build(on_step=on_step, **how)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Held]:
    made = Held(tmp_path / "m.db")
    made.add(TALK, user_id="ann", session_id="s1")
    yield made
    made.go.set()
    made.close()


@pytest.fixture
def page(memory: Held) -> Iterator[Browser]:
    with browser(memory) as made:
        yield made
        memory.go.set()


def ended(page: Browser) -> str:
    """The list of builds once none runs, as somebody sees it who watches."""
    for _ in range(1000):
        builds = page.get("/v1/users/ann/builds").json()["items"]
        if all(build["status"] in ("done", "failed", "cancelled") for build in builds):
            return str(page.get(BUILDS).text)
        threading.Event().wait(0.01)
    raise AssertionError("the build never ended")


def test_nothing_is_built(page: Browser) -> None:
    assert "Nothing is built." in page.main(PATH)
    offered = {item.text.partition(":")[0] for item in page.seen(PATH, "option")}
    assert offered >= {"leanmem", "lightmem", "t2mem"}
    assert not offered & {"full_context", "lazymem", "naive_rag", "search_o1"}  # these have nothing to build


def test_entries_with_their_sources(memory: Held, page: Browser) -> None:
    memory.build(user_id="ann", strategy="t2mem", flush=True)
    (entry,) = memory.entries(user_id="ann", strategy="t2mem")
    path = f"{PATH}?strategy=t2mem&kind={entry.kind}"
    for view in (PATH, path):  # the first kind there is, when none is named
        (item,) = [item for item in page.seen(view, "li") if "data-move" in item.attributes]
        assert " ".join(entry.index_text.split()) in item.text
        assert "by rules" in item.text
        assert [link["href"] for link in page.seen(view, "a", kind="jump")] == [
            f"/ui/users/ann/turns/{source.turn_id}" for source in entry.sources
        ]
        (here,) = [link for link in page.seen(view, "a") if link.text == f"t2mem {entry.kind} 1"]
        assert here["aria-current"] == "page"
    assert "There are no entries of this kind." in page.main(f"{PATH}?strategy=lightmem&kind=fact")


def test_many_entries_are_read_page_by_page(memory: Held, page: Browser) -> None:
    for number in range(51):
        memory.add({"role": "user", "content": f"Kettle {number} is blue."}, user_id="ann", session_id=f"k{number}")
    memory.build(user_id="ann", strategy="t2mem", flush=True)
    (entry, *_) = memory.entries(user_id="ann", strategy="t2mem")
    assert len([item for item in page.seen(PATH, "li") if "data-move" in item.attributes]) == 50
    (following,) = [item["href"] for item in page.seen(PATH, "a") if item.attributes.get("rel") == "next"]
    assert following == f"{PATH}?strategy=t2mem&kind={entry.kind}&page=2"
    assert "51 to 52 of 52" in page.main(following)


def test_a_build_is_watched(memory: Held, page: Browser) -> None:
    memory.hold = True
    started = page.post(BUILDS, headers=PART, strategy="t2mem", flush="1").text
    assert "<html" not in started
    assert memory.started.wait(WAIT)
    running = page.get(BUILDS).text
    (poll,) = [item for item in elements(running) if "hx-get" in item.attributes]
    assert poll["hx-trigger"] == "every 1s"
    assert "t2mem, flush running 1 session Stop" in elements(running)[0].text
    assert page.client.get(poll["hx-get"], headers=PART).status_code == 204  # nothing new: nothing is said again
    memory.go.set()
    over = ended(page)
    assert "t2mem, flush done 2 1 put, 0 dropped" in elements(over)[0].text
    assert "Show what was built" in over
    assert "hx-trigger" not in over
    assert "done" in page.main(PATH)


def test_a_build_is_stopped(memory: Held, page: Browser) -> None:
    memory.hold = True
    page.post(BUILDS, headers=PART, strategy="t2mem")
    assert memory.started.wait(WAIT)
    (build,) = page.get("/v1/users/ann/builds").json()["items"]
    page.post(f"{BUILDS}/{build['build_id']}/cancel", headers=PART)
    memory.go.set()
    assert "cancelled" in ended(page)


def test_without_the_script(page: Browser) -> None:
    assert page.post(BUILDS, 303, strategy="naive_rag").headers["location"] == PATH
    ended(page)
    (build,) = page.get("/v1/users/ann/builds").json()["items"]
    assert page.post(f"{BUILDS}/{build['build_id']}/cancel", 303).headers["location"] == PATH


def test_a_build_that_failed_says_why(memory: Held, page: Browser) -> None:
    memory.error = ModelRequestError("the endpoint is down", hint="start it")
    page.post(BUILDS, headers=PART, strategy="t2mem")
    assert "t2mem failed 0 the endpoint is down start it" in elements(ended(page))[0].text


def test_what_cannot_be_built(memory: Held, page: Browser) -> None:
    assert "there is no such strategy" in page.post(BUILDS, 422, headers=PART, strategy="magic").text
    memory.hold = True
    page.post(BUILDS, headers=PART, strategy="t2mem")
    assert "is not over" in page.post(BUILDS, 409, headers=PART, strategy="t2mem").text
    page.post(f"{BUILDS}/b-9/cancel", 404, headers=PART)
