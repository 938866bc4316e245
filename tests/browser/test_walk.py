"""A person's way through the page in a real browser: by mouse, by keyboard alone, in the dark, on a small screen.

Every walk fails on an error in the browser's console and on a request to anything but the server.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from backread import Memory
from backread.server.keys import hash_key

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.timeout(180),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine: bash scripts/browser.sh"),
]

WAIT_MS = 30_000
FORGED = "</p><script>window.forged = 1</script><img src=x onerror='window.forged = 2'> & <b>bold</b>"
VIEWS = ("", "/sessions/2025-03-06-gas-cert", "/search?q=boiler", "/ask", "/entries")

Walk = Callable[..., Any]


def fill(path: Path) -> None:
    """The bundled history, and a turn that would like to be a page."""
    with Memory.open(path, embedder="none") as memory:
        lines = (files("backread") / "demo" / "history.jsonl").read_text("utf-8").splitlines()
        messages = [json.loads(line) for line in lines]
        for session_id, group in groupby(messages, key=lambda message: message["session_id"]):
            talk = [{name: value for name, value in item.items() if name != "session_id"} for item in group]
            memory.add(talk, user_id="marta", session_id=session_id)
        memory.add({"role": "user", "content": f"zebra {FORGED}", "id": "z1"}, user_id="eve", session_id=FORGED)


@contextmanager
def serving(path: Path, *options: str) -> Iterator[str]:
    command = [sys.executable, "-m", "backread", "serve", "--path", str(path), "--port", "0", *options]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("BACKREAD_", "OPENAI_"))}
    env |= {"BACKREAD_EMBEDDER": "none", "NO_COLOR": "1", "OPENAI_API_KEY": ""}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found is not None, line + process.stderr.read()
        drain = threading.Thread(target=process.stderr.read, daemon=True)
        drain.start()
        try:
            yield found[0]
        finally:
            process.terminate()
            process.wait(60)
            drain.join(60)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "m.db"
    fill(path)
    return path


@pytest.fixture(scope="module")
def url(store: Path) -> Iterator[str]:
    with serving(store) as found:
        yield found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def walk(chromium: Browser) -> Iterator[Walk]:
    """Opens pages that may not err and may not ask anybody else; both are looked at when the walk is over."""
    wrong: list[str] = []
    contexts = []

    def open_page(server: str, **how: Any) -> Page:
        context = chromium.new_context(viewport=how.pop("viewport", {"width": 1280, "height": 800}), **how)
        context.set_default_timeout(WAIT_MS)
        contexts.append(context)

        def on_console(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                wrong.append(f"console: {message.text}")

        def on_request(request: Request) -> None:
            parts = urlsplit(request.url)
            if parts.scheme != "data" and parts.netloc != urlsplit(server).netloc:
                wrong.append(f"request: {request.url}")

        context.on("console", on_console)
        context.on("weberror", lambda error: wrong.append(f"error: {error.error}"))
        context.on("request", on_request)
        return context.new_page()

    expect.set_options(timeout=WAIT_MS)
    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def test_a_day_with_the_page(walk: Walk, url: str) -> None:
    page: Page = walk(url)
    page.goto(url)
    page.get_by_role("link", name="marta").click()
    expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
    expect(page.get_by_role("list", name="Sessions by month").get_by_role("link")).to_have_count(12)
    page.get_by_role("link", name="2025-03-06-gas-cert").click()
    expect(page.get_by_role("list", name="Turns").get_by_role("listitem")).to_have_count(22)
    expect(page.locator(".turn").first).to_contain_text("guess what")
    searching(page)
    asking(page)
    building(page)
    page.get_by_role("link", name="Settings").click()
    expect(page.get_by_role("row", name="embedder_api_key")).to_contain_text("not set")


def searching(page: Page) -> None:
    """As you type, narrowed by speaker, to the turn beside the list and on to its session."""
    page.get_by_role("navigation", name="History").get_by_role("link", name="Search").click()
    field = page.get_by_role("searchbox", name="What to look for")
    expect(field).to_be_focused()
    field.press_sequentially("boiler flue", delay=30)  # nobody presses Enter
    hit = page.locator(".hits li", has_text="the boiler flue is too close to the neighbour's window")
    expect(hit).to_be_visible()
    expect(hit.locator("mark").first).to_have_text("boiler")
    expect(page.get_by_role("status")).to_have_text(re.compile(r"^(the best )?\d+ hits?, in \d"))
    expect(page).to_have_url(re.compile(r"q=boiler(%20|\+)flue"))
    page.get_by_label("Speaker").select_option("assistant")
    expect(hit).to_have_count(0)
    page.get_by_label("Speaker").select_option("Marta")
    expect(hit).to_be_visible()
    hit.get_by_role("link", name="Marta").click()
    panel = page.get_by_role("complementary", name="A turn in its place")
    expect(panel.locator(".target")).to_contain_text("the boiler flue is too close")
    expect(panel.get_by_role("heading", name="2025-03-06-gas-cert")).to_be_focused()
    panel.get_by_role("link", name="Open the session").click()
    expect(page).to_have_url(re.compile(r"/sessions/2025-03-06-gas-cert#t-"))
    expect(page.locator(".turn:target")).to_be_in_viewport()
    expect(page.locator(".turn:target")).to_contain_text("the boiler flue is too close")


def asking(page: Page) -> None:
    """Steps, memory and answer appear; a line leads to its turn."""
    page.get_by_role("link", name="Ask").click()
    page.get_by_label("Question").fill("When did the gas safety certificate fail?")
    page.get_by_label("Budget").fill("300")
    page.get_by_label("Asked at").fill("2025-12-21")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#answer")).to_contain_text("Quoted: no model wrote this.")
    expect(page.locator("#steps > li")).to_have_count(1)
    expect(page.locator("#memory")).to_contain_text("of 300 tokens")
    page.get_by_text("The block as the answerer sees it").click()
    expect(page.locator("#memory pre")).to_contain_text("<evidence id=")
    line = page.locator(".lines > li", has_text="gas safety").first
    words = line.locator(".text").inner_text()
    line.locator(".text").click()  # anywhere on the line
    panel = page.get_by_role("complementary", name="A turn in its place")
    expect(panel.locator(".target")).to_contain_text(words[:60])
    page.get_by_role("button", name="Close").click()
    expect(panel).to_be_hidden()


def building(page: Page) -> None:
    """A build is started and watched, and what it built leads to its turns."""
    page.get_by_role("link", name="Entries").click()
    page.get_by_label("Strategy").select_option("t2mem")
    page.get_by_label("flush").check()  # the latest session too
    page.get_by_role("button", name="Build").click()
    page.get_by_role("link", name="Show what was built").click()
    expect(page.locator(".entries > li")).to_have_count(50)
    page.locator(".entries .jump").first.click()
    expect(page.locator("#panel .target")).to_be_visible()


def test_with_the_keyboard_alone(walk: Walk, url: str) -> None:
    page: Page = walk(url)
    page.goto(f"{url}/ui/users/marta")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    expect(page.get_by_role("link", name="Skip to content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()

    page.keyboard.press("j")
    first = page.locator(".list a").first
    expect(first).to_be_focused()
    assert first.evaluate("link => getComputedStyle(link).outlineStyle") == "solid"
    page.keyboard.press("j")
    expect(page.locator(".list a").nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("list", name="Turns")).to_be_visible()

    page.keyboard.press("/")
    expect(page.get_by_label("Search this history")).to_be_focused()
    page.keyboard.type("jk?/ allotment")  # in a field these are letters
    expect(page.get_by_label("Search this history")).to_have_value("jk?/ allotment")
    page.keyboard.press("Enter")
    expect(page.locator(".hits li").first).to_be_visible()
    page.locator("main").focus()
    page.keyboard.press("j")
    jump = page.locator(".hits .jump").first
    expect(jump).to_be_focused()
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("heading").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(jump).to_be_focused()

    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_be_visible()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Space")  # turns the keys off
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.reload()
    expect(page.locator(".hits li").first).to_be_visible()
    page.locator("main").focus()
    page.keyboard.press("j")
    expect(page.locator("main")).to_be_focused()


def test_a_link_with_ctrl_opens_beside(walk: Walk, url: str) -> None:
    page: Page = walk(url)
    page.goto(f"{url}/ui/users/marta/search?q=boiler&mode=bm25")
    with page.context.expect_page() as opened:
        page.locator(".hits .jump").first.click(modifiers=["Control"])
    expect(opened.value.locator(".turn:target")).to_be_visible()
    expect(page.get_by_role("complementary")).to_be_hidden()


CONTRAST = """scheme => {
  const parse = color => color.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = color => {
    const [r, g, b] = parse(color).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((m, n) => n - m); return (x + .05) / (y + .05); };
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const found = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$|transparent/.test(found)) return found;
    }
  };
  const low = [];
  for (const element of document.querySelectorAll("main *, header *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.offsetParent === null || element.matches("option, optgroup")) continue;
    const found = ratio(getComputedStyle(element).color, behind(element));
    if (found < 4.5) low.push(`${element.tagName}.${element.className} ${found.toFixed(2)}`);
  }
  return [light(getComputedStyle(document.body).backgroundColor), [...new Set(low)]];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_can_be_read(walk: Walk, url: str, scheme: str) -> None:
    page: Page = walk(url, color_scheme=scheme)
    for view in VIEWS:
        page.goto(f"{url}/ui/users/marta{view}")
        ground, low = page.evaluate(CONTRAST)
        assert (ground > 0.9) if scheme == "light" else (ground < 0.02)
        assert low == [], view


def test_a_small_screen(walk: Walk, url: str) -> None:
    page: Page = walk(url, viewport={"width": 400, "height": 800})
    for view in ("/", "/ui/settings", *(f"/ui/users/marta{view}" for view in VIEWS)):
        page.goto(url + view)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 400, view
    page.goto(f"{url}/ui/users/marta/search?q=boiler&mode=bm25")
    page.locator(".hits .jump").first.click()
    expect(page.locator("#panel .target")).to_be_in_viewport()
    expect(page.locator(".hits li").first).to_be_in_viewport()


def test_stored_markup_stays_text(walk: Walk, url: str) -> None:
    page: Page = walk(url)
    page.goto(f"{url}/ui/users/eve")
    page.locator(".list a").first.click()
    expect(page.locator(".turn .text")).to_have_text(f"zebra {FORGED}")
    expect(page.locator("h1")).to_have_text(FORGED)
    page.goto(f"{url}/ui/users/eve/search")
    page.locator("#q").press_sequentially("zebra")
    page.locator(".hits .jump").click()
    expect(page.locator("#panel .target .text")).to_have_text(f"zebra {FORGED}")
    page.goto(f"{url}/ui/users/eve/ask")
    page.get_by_label("Question").fill(f"zebra {FORGED}")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".lines .text")).to_have_text(f"zebra {FORGED}")
    assert page.evaluate("window.forged") is None
    assert page.locator("main b, main img, main script").count() == 0


def test_the_browser_itself_lets_no_other_script_run(chromium: Browser, url: str) -> None:
    page = chromium.new_page()
    page.goto(url)
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.ran = 1";
          document.body.append(script);
          const button = document.createElement("button");
          button.setAttribute("onclick", "window.ran = 2");
          document.body.append(button);
          button.click();
        }"""
    )
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in text for text in told)
    page.close()


def test_without_the_script(walk: Walk, url: str) -> None:
    page: Page = walk(url, java_script_enabled=False)
    page.goto(f"{url}/ui/users/marta/search")
    page.locator("#q").fill("boiler flue")
    page.locator("#q").press("Enter")
    page.locator(".hits li", has_text="flue").get_by_role("link", name="Marta").first.click()
    expect(page.locator(".turn:target")).to_contain_text("flue")
    page.goto(f"{url}/ui/users/marta/ask")
    page.get_by_label("Question").fill("When did the gas safety certificate fail?")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#answer")).to_contain_text("Quoted: no model wrote this.")
    expect(page.locator(".lines > li").first).to_be_visible()


def test_a_key_is_typed_once(walk: Walk, store: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    keys.write_text(f'[[keys]]\nsha256 = "{hash_key("open sesame")}"\nuser = "marta"\n', encoding="utf-8")
    with serving(store, "--keys", str(keys)) as url:
        page: Page = walk(url)
        page.goto(f"{url}/ui/users/marta/search?q=boiler")
        expect(page.get_by_label("Key", exact=True)).to_be_focused()
        page.keyboard.type("open sesame")
        page.keyboard.press("Enter")
        expect(page.locator(".hits li").first).to_be_visible()
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("link", name="backread").click()
        expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
        expect(page.get_by_role("link", name="Settings")).to_have_count(0)
        page.get_by_role("button", name="Sign out").click()
        page.goto(f"{url}/ui/users/marta")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
