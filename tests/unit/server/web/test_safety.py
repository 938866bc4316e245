"""Whatever is stored is text: no markup, no script, nothing invisible; and what every response bears."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from memory_samples import opened
from rest_samples import KEYS
from web_samples import Browser, Element, browser, elements

from backread import Memory
from backread.server.requests import path_segment
from backread.server.web.templating import static_version
from backread.types import EntryDraft, Source

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
FORGED = "</p></script><script>alert(1)</script><img src=x onerror=alert(2)>\"' onfocus=alert(3) {{ 7 * 7 }} &lt;b&gt;"
HIDDEN = "\ud800 \x00 \x1b[31m \u202e \u2066 \x9b"  # lone surrogate, NUL, escape, override, isolate, C1
EVIL = f"lamp {FORGED} {HIDDEN}"
SHOWN = f"lamp {FORGED} \ufffd \ufffd \ufffd[31m \ufffd \ufffd \ufffd"
USER = f"u {EVIL}"
SESSION = f"s {EVIL}"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    message: dict[str, Any] = {
        "role": "user",
        "name": f"n {EVIL}",
        "content": f"c {EVIL}",
        "caption": f"i {EVIL}",
        "id": f"x {EVIL}",
        "timestamp": "2024-05-01T09:00Z",
        "attachments": [{"type": f"a {EVIL}"}],
    }
    with opened(tmp_path) as made:
        (turn_id,) = made.add(message, user_id=USER, session_id=SESSION).turn_ids
        entry = EntryDraft(
            f"e {EVIL}", "t2mem", f"k {EVIL}", {f"d {EVIL}": [f"v {EVIL}"]}, f"t {EVIL}", (Source(turn_id),), None
        )
        made.history(USER).commit("t2mem", 0, [entry])
        yield made


@pytest.fixture
def page(memory: Memory) -> Iterator[Browser]:
    with browser(memory) as made:
        yield made


def views() -> list[str]:
    own = f"/ui/users/{path_segment(USER)}"
    return [
        "/",
        own,
        f"{own}/sessions/{path_segment(SESSION)}",
        f"{own}/search?q=lamp&mode=bm25&speaker={path_segment(FORGED)}&session={path_segment(FORGED)}",
        f"{own}/search?q={path_segment(FORGED)}%20lamp&mode=bm25",
        f"{own}/ask?question={path_segment(FORGED)}",
        f"{own}/entries",
        f"{own}/sessions/{path_segment(FORGED)}",
        f"{own}/turns/{path_segment(FORGED)}",
        f"/ui/{path_segment(FORGED)}",
        "/ui/settings",
        "/ui/reports",
        f"/ui/signin?next={path_segment(FORGED)}",
    ]


def check(html: str) -> list[Element]:
    """The elements of a page, of which none may do anything that a template didn't write."""
    found = elements(html)
    for item in found:
        assert item.tag not in {"b", "img", "object", "embed", "base", "style"}, item
        assert item.tag != "script" or (item.text == "" and item["src"].startswith("/ui/static/"))
        assert not [name for name in item.attributes if name.startswith(("on", "hx-on")) or name == "style"], item
        for name in ("href", "src", "action", "hx-get", "hx-post"):
            assert re.match(r"/(?!/)|[#?]", item.attributes.get(name, "/")), item
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]", html)
    return found


def test_stored_markup_is_shown_as_it_was_written(memory: Memory, page: Browser) -> None:
    for path in views():
        response = page.client.get(path, follow_redirects=False)
        assert response.status_code in (200, 303, 404), path
        check(response.text)
        assert "49" not in [item.text for item in elements(response.text)], "a template was made from stored text"


def test_every_stored_field_is_there_in_full(memory: Memory, page: Browser) -> None:
    own = f"/ui/users/{path_segment(USER)}"
    (turn,) = page.seen(f"{own}/sessions/{path_segment(SESSION)}", kind="turn")
    for field in "ncia":
        assert f"{field} {SHOWN}" in turn.text, field
    assert page.seen(f"{own}/sessions/{path_segment(SESSION)}", "h1")[0].text == f"s {SHOWN}"
    (entry,) = [item for item in page.seen(f"{own}/entries", "li") if "data-move" in item.attributes]
    assert f"t {SHOWN}" in entry.text
    (data,) = [item for item in page.seen(f"{own}/entries", "pre") if "Data" in item["aria-label"]]
    assert "alert(1)" in data.text


def test_parts_are_as_safe_as_pages(memory: Memory, page: Browser) -> None:
    own = f"/ui/users/{path_segment(USER)}"
    (turn,) = memory.turns(user_id=USER)
    for path in (
        f"{own}/turns/{turn.turn_id}",
        f"{own}/search?q=lamp&mode=bm25",
        f"{own}/turns/{path_segment(FORGED)}",
    ):
        response = page.client.get(path, headers={"HX-Request": "true"})
        check(response.text)
        assert response.headers["content-security-policy"] == POLICY
    asked = page.post(f"{own}/ask", question=f"lamp {FORGED}")
    (lines,) = [item for item in check(asked.text) if item.attributes.get("id") == "memory"]
    assert f"c {SHOWN}" in lines.text


def test_what_every_response_bears(memory: Memory, page: Browser) -> None:
    for path in views():
        headers = page.client.get(path, follow_redirects=False).headers
        assert headers["content-security-policy"] == POLICY, path
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"


def test_a_page_can_be_used_without_seeing_it(memory: Memory, page: Browser) -> None:
    for path in views():
        found = elements(page.client.get(path).text)
        by_id = [item["id"] for item in found if "id" in item.attributes]
        assert len(by_id) == len(set(by_id)), path
        tags = [item.tag for item in found]
        assert (tags.count("main"), tags.count("h1"), tags.count("header")) == (1, 1, 1), path
        skip = next(item for item in found if item.tag == "a")
        assert skip["href"] == f"#{next(item for item in found if item.tag == 'main')['id']}"
        assert all(item["aria-label"] for item in found if item.tag in ("nav", "aside"))
        assert {item.attributes.get("tabindex", "0") for item in found} <= {"0", "-1"}
        named = {item["for"] for item in found if item.tag == "label" and "for" in item.attributes}
        inside = "".join(item.text for item in found if item.tag == "label" and "for" not in item.attributes)
        for item in found:
            if item.tag in ("input", "select") and item.attributes.get("type") != "hidden":
                assert item.attributes.get("id") in named or inside, item


def test_static_files_may_be_kept(page: Browser) -> None:
    for name, kind in (("page.css", "text/css"), ("page.js", "text/javascript"), ("icon.svg", "image/svg+xml")):
        response = page.get(f"/ui/static/{name}?v={static_version()}")
        assert response.headers["content-type"].split(";")[0] == kind
        assert "immutable" in response.headers["cache-control"]
    assert "Permission to use" in page.get("/ui/static/htmx.LICENSE.txt").text
    for name in ("nothing.js", "..%2Fpage.py", "%2E%2E%2Fpage.py"):
        page.get(f"/ui/static/{name}", 404)


def test_no_file_of_the_page_names_another_server() -> None:
    from importlib.resources import files

    folder = files("backread.server.web")
    for kind in ("static", "templates"):
        for item in folder.joinpath(kind).iterdir():
            if item.name.endswith((".css", ".js", ".html")):
                text = item.read_text("utf-8")
                named = re.findall(r"(?:https?:)?//[\w.-]+\.[a-z]{2,}", text)
                assert not named, item.name
                assert "@import" not in text


def test_only_the_page_itself_may_send_its_forms(page: Browser) -> None:
    own = f"/ui/users/{path_segment(USER)}"
    forms = {"Content-Type": "application/x-www-form-urlencoded"}
    for path in (f"{own}/ask", f"{own}/builds", f"{own}/builds/b-1/cancel", "/ui/signin", "/ui/signin/end"):
        for headers in (
            {},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Sec-Fetch-Site": "none"},
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://127.0.0.1:1"},
            {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "cross-site"},
        ):
            response = page.client.post(path, content="question=lamp", headers=forms | headers, follow_redirects=False)
            assert response.status_code == 403, (path, headers)
            assert "not sent by the page" in response.text
    good = page.client.post(f"{own}/ask", content="question=lamp", headers=forms | {"Origin": "http://127.0.0.1"})
    assert good.status_code == 200


def test_a_form_is_a_form(page: Browser) -> None:
    own = f"/ui/users/{path_segment(USER)}"
    for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x", ""):
        page.post(f"{own}/ask", 415, headers={"Content-Type": kind})
    many = {f"f{number}": "x" for number in range(101)}
    page.post(f"{own}/ask", 400, form=many)


def test_the_page_is_not_part_of_the_api(memory: Memory) -> None:
    with browser(memory, KEYS) as page:
        paths = page.get("/v1/openapi.json").json()["paths"]
        assert [path for path in paths if not path.startswith("/v1/")] == ["/healthz", "/readyz", "/metrics"]
