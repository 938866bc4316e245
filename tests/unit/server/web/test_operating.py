"""Reports in a frame that can do nothing, and the settings without their keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from memory_samples import opened
from web_samples import Browser, browser

from backread import Memory

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'self'"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path, api_key="sk-secret", base_url="https://me:pw@host.example/v1?token=t", budget=700) as made:
        yield made


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    folder = tmp_path / "bench"
    for place, (name, text) in enumerate((("old", "first"), ("runs/new one", "<script>x</script>second"))):
        path = folder / name / "report.html"
        path.parent.mkdir(parents=True)
        path.write_text(f"<!doctype html>{text}", encoding="utf-8")
        os.utime(path, (1_700_000_000 + place,) * 2)
    (folder / "old" / "report.md").write_text("no page", encoding="utf-8")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "report.html").write_text("secret", encoding="utf-8")
    return folder


@pytest.fixture
def page(memory: Memory, reports: Path) -> Iterator[Browser]:
    with browser(memory, reports=reports) as made:
        yield made


def test_reports_the_latest_first(page: Browser) -> None:
    links = [
        (item.text, item["href"]) for item in page.seen("/ui/reports", "a") if item["href"].startswith("/ui/reports/")
    ]
    assert links == [("runs/new one", "/ui/reports/runs%2Fnew%20one"), ("old", "/ui/reports/old")]
    assert [item.text for item in page.seen("/ui/reports", "td")][:2] == ["2023-11-14 22:13", "39 bytes"]


def test_a_report_stands_in_a_frame_that_can_do_nothing(page: Browser) -> None:
    (frame,) = page.seen("/ui/reports/runs%2Fnew%20one", "iframe")
    assert frame["sandbox"] == ""
    assert frame["title"] == "Report runs/new one"
    shown = page.get("/ui/reports/runs%2Fnew%20one")
    assert "frame-src 'self'" in shown.headers["content-security-policy"]
    file = page.get(frame["src"])
    assert file.headers["content-security-policy"] == POLICY
    assert file.text == "<!doctype html><script>x</script>second"
    assert "frame-src" not in page.get("/ui/reports").headers["content-security-policy"]


@pytest.mark.parametrize(
    "name",
    ["nothing", "..%2Fsecret", "%2E%2E%2Fsecret", "old%2F..%2F..%2Fsecret", "%2Fetc", "old%2Freport.html", "link"],
)
def test_no_name_leads_out_of_the_folder(page: Browser, reports: Path, name: str) -> None:
    (reports / "link").symlink_to(reports.parent / "secret")
    page.get(f"/ui/reports/{name}", 404)
    page.get(f"/ui/reports/{name}/file", 404)


def test_the_folder_itself_may_be_a_report(memory: Memory, reports: Path) -> None:
    with browser(memory, reports=reports / "old") as page:
        assert "first" in page.get("/ui/reports/old/file").text
    with browser(memory, reports=reports / "none") as page:
        assert "There is no report.html here." in page.main("/ui/reports")
    with browser(memory) as page:
        assert "The server shows none." in page.main("/ui/reports")
        assert "/ui/reports" not in page.get("/").text


def test_settings_without_keys(page: Browser) -> None:
    rows = {row.text.split()[0]: row.text for row in page.seen("/ui/settings", "tr")}
    assert rows["budget"] == "budget 700 BACKREAD_BUDGET"
    assert rows["api_key"] == "api_key set, not shown OPENAI_API_KEY"
    assert rows["reranker_api_key"] == "reranker_api_key not set BACKREAD_RERANKER_API_KEY"
    assert rows["base_url"] == "base_url https://host.example/v1 OPENAI_BASE_URL"
    text = page.get("/ui/settings").text
    assert not [secret for secret in ("sk-secret", "me:", "pw@", "token=t") if secret in text]


def test_an_address_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with opened(tmp_path / "x", base_url="http://[secret", model=None) as memory, browser(memory) as page:
        assert "set, but no address" in page.main("/ui/settings")


def test_counts_of_the_store(memory: Memory, page: Browser) -> None:
    memory.add({"role": "user", "content": "x"}, user_id="ann")
    counts = [item.text for item in page.seen("/ui/settings", "dd")]
    assert counts[0].startswith("1 user, 1 session, 1 turn, 0 entries, ")
    assert "none: search is by words" in page.main("/ui/settings")
