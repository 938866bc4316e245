"""The pages of the site: links lead where they led, everything has a place, and the reference names what there is."""

from __future__ import annotations

import importlib
import runpy
from pathlib import Path
from typing import Any

import pytest

import backread

ROOT = Path(__file__).resolve().parents[2]
STAGE: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "stage_docs.py"))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("docs/a.md", "docs/design/b.md", "docs/images/c.png", "src/backread/strategies/d/PAPER.md", "LICENSE"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("# Title\n", encoding="utf-8")
    return tmp_path


def relinked(text: str, source: str, root: Path) -> tuple[str, set[str]]:
    made: tuple[str, set[str]] = STAGE["relinked"](text, source, STAGE["places"](root), root)
    return made


@pytest.mark.parametrize(
    ("link", "source", "became"),
    [
        ("design/b.md#why", "docs/a.md", "design/b.md#why"),
        ("../a.md", "docs/design/b.md", "../a.md"),
        ("../src/backread/strategies/d/PAPER.md", "docs/a.md", "papers/d.md"),
        ("../../src/backread/strategies/d/PAPER.md", "docs/design/b.md", "../papers/d.md"),
        ("https://example.org/x", "docs/a.md", "https://example.org/x"),
        ("#here", "docs/a.md", "#here"),
    ],
)
def test_links_between_pages_lead_to_their_places_in_the_site(
    link: str, source: str, became: str, repository: Path
) -> None:
    assert relinked(f"See [it]({link}).", source, repository) == (f"See [it]({became}).", set())


def test_files_that_are_no_pages_come_along(repository: Path) -> None:
    text = "![a](images/c.png) [b](../LICENSE)"
    made = "![a](files/docs/images/c.png) [b](files/LICENSE)"
    assert relinked(text, "docs/a.md", repository) == (made, {"docs/images/c.png", "LICENSE"})


def test_fenced_blocks_are_left_alone(repository: Path) -> None:
    text = "```text\n[x](../LICENSE) [y](nowhere.md)\n```\n"
    assert relinked(text, "docs/a.md", repository) == (text, set())


@pytest.mark.parametrize("link", ["nowhere.md", "images", "/etc"])
def test_a_link_that_leads_nowhere_is_an_error(link: str, repository: Path) -> None:
    with pytest.raises(ValueError, match=f"docs/a.md: {link} is no file"):
        relinked(f"[it]({link})", "docs/a.md", repository)


def test_the_navigation_is_that_of_the_index() -> None:
    table = "| page | what |\n| --- | --- |\n| [A](a.md) | x [no](n.md) |\n"
    index = f"# T\n\n## One\n\n{table}\n## Two\n\n- [`B` b](d/b.md)\n\n## Words\n\nNone.\n"
    sections = STAGE["navigation"](index, {}, ROOT)
    assert sections[:2] == [("One", [("A", "a.md")]), ("Two", [("B b", "d/b.md")])]
    assert [title for title, _ in sections[2:]] == ["Designs and their papers", "Reference", "Project"]


def test_the_configuration_holds_the_navigation() -> None:
    made = STAGE["configuration"]("site_name: x\n", [("One: 1", [('A "b"', "a.md")])])
    assert made == ('site_name: x\n\nnav:\n  - "Home": index.md\n  - "One: 1":\n      - "A \\"b\\"": "a.md"\n')


def test_every_page_of_the_repository_is_in_the_navigation() -> None:
    known = STAGE["places"](ROOT)
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = {page for _, pages in STAGE["navigation"](index, known, ROOT) for _, page in pages}
    assert set(known.values()) - listed == {"index.md"}


def test_the_reference_has_every_public_name_and_names_nothing_else() -> None:
    names = [name for page in STAGE["REFERENCE"].values() for name in page.names]
    public = {f"backread.{name}" for name in backread.__all__ if name != "__version__"}
    homes = {f"backread.errors.{name}" for name in backread.errors.__all__}
    assert public <= {*names, *(f"backread.{name.rpartition('.')[2]}" for name in homes)}
    assert len(names) == len(set(names))
    for name in names:
        module, _, attribute = name.rpartition(".")
        if module.startswith("backread.integrations"):
            continue  # they need the libraries they are for
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module), attribute), name


def test_staging_writes_what_the_site_is_built_from(repository: Path, tmp_path: Path) -> None:
    for name in (
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "src/backread/store/schema.md",
        STAGE["ICON"],
        "mkdocs.yml",
    ):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text("site_name: x\n", encoding="utf-8")
    (repository / "docs" / "index.md").write_text("# T\n\n## One\n\n- [A](a.md)\n", encoding="utf-8")
    stale = tmp_path / "build" / "docs" / "gone.md"
    stale.parent.mkdir(parents=True)
    stale.write_text("old", encoding="utf-8")
    STAGE["stage"](repository, tmp_path / "build")
    docs = tmp_path / "build" / "docs"
    assert not stale.exists()
    assert (docs / "papers" / "d.md").read_text(encoding="utf-8") == "# Title\n"
    assert "::: backread.Memory\n" in (docs / "reference" / "memory.md").read_text(encoding="utf-8")
    assert '      - "A": "a.md"\n' in (tmp_path / "build" / "mkdocs.yml").read_text(encoding="utf-8")
