"""Lay out the pages of the site in build/docs, and its navigation in build/mkdocs.yml.

The pages in docs/ are plain Markdown that reads well where it lies; what a site needs beside them is made here. The
navigation is that of docs/index.md. Files outside docs/ that pages link to have a place in the site too. The reference
is made from docstrings: a page of it names objects, and mkdocstrings puts in what their docstrings say.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from backread import errors

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
ICON = "src/backread/server/web/static/icon.svg"

_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)((?:#[^)\s]*)?)\)")
_LISTED = re.compile(r"^(?:\| |- )\[([^]]+)\]\(([^)#\s]+\.md)\)", re.MULTILINE)


class Page(NamedTuple):
    """A page of the reference: its title, what it is about, and the objects it shows."""

    title: str
    about: str
    names: tuple[str, ...]


_TYPES = (
    "AddReceipt Answer Citation Degradation DeleteReceipt Evidence Hit Hits Recall Session Source Turn".split()  # noqa: SIM905 - one a word
)

REFERENCE: Mapping[str, Page] = MappingProxyType(
    {
        "memory": Page("Memory", "What a program opens, and all it does.", ("backread.Memory", "backread.AsyncMemory")),
        "types": Page(
            "Types",
            "What methods return, and what strategies work with.",
            (
                *(f"backread.{name}" for name in _TYPES),
                *(f"backread.types.{name}" for name in ("BuildReport", "Entry", "Step", "Usage")),
            ),
        ),
        "settings": Page("Settings", "What can be set.", ("backread.Settings", "backread.settings.resolve")),
        "errors": Page(
            "Errors",
            "Everything that is raised on purpose.",
            tuple(f"backread.errors.{name}" for name in errors.__all__),
        ),
        "strategies": Page(
            "Strategies",
            "What a memory design is, and what it is given.",
            (
                *(f"backread.strategies.base.{name}" for name in ("Strategy", "Context", "Parts")),
                "backread.store.history.History",
                *(f"backread.rendering.{name}" for name in ("Candidate", "fit")),
                "backread.strategies.evidence",
            ),
        ),
        "retrieval": Page(
            "Retrievers",
            "What ranks, and what is ranked.",
            (
                "backread.retrieval.base.Retriever",
                "backread.retrieval.base.Scorer",
                "backread.store.corpus.Corpus",
                "backread.types.Ranking",
                "backread.types.ScoredUnit",
            ),
        ),
        "models": Page("Models", "What a model must do to be used.", ("backread.models.base",)),
        "stores": Page("Stores", "What a store must do.", ("backread.store.base.TurnStore",)),
        "servers": Page(
            "Servers",
            "The servers as parts of a program.",
            ("backread.server.app.create_app", "backread.server.keys", "backread.server.mcp.create_server"),
        ),
        "integrations": Page(
            "Integrations",
            "Classes for frameworks.",
            tuple(
                f"backread.integrations.{name}"
                for name in (
                    "langchain.BackreadRetriever",
                    "langgraph.BackreadStore",
                    "llama_index.BackreadRetriever",
                    "mem0.Memory",
                    "openai_agents.BackreadSession",
                )
            ),
        ),
        "testing": Page("Testing", "Stand-ins for models, for tests of your own.", ("backread.testing.fakes",)),
    }
)


def places(root: Path) -> dict[str, str]:
    """Where each page of the repository stands in the site, by its path; both from their roots, with "/"."""
    found = {path.relative_to(root).as_posix(): path for path in sorted((root / "docs").rglob("*.md"))}
    made = {name: PurePosixPath(name).relative_to("docs").as_posix() for name in found}
    for path in sorted((root / "src" / "backread" / "strategies").glob("*/PAPER.md")):
        made[path.relative_to(root).as_posix()] = f"papers/{path.parent.name}.md"
    made["src/backread/store/schema.md"] = "schema.md"
    made |= {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
    return made


def relinked(text: str, source: str, known: Mapping[str, str], root: Path) -> tuple[str, set[str]]:
    """A page with its links as they are in the site, and the files they lead to that are no pages.

    Args:
        text: the page. What stands in fenced blocks is left alone.
        source: its path in the repository.
        known: see `places`.
        root: of the repository.

    Raises:
        ValueError: a link leads nowhere, or to a folder.
    """
    here = PurePosixPath(known[source]).parent
    files: set[str] = set()

    def target(match: re.Match[str]) -> str:
        link, anchor = match[1], match[2]
        if re.match(r"[a-z]+:", link):
            return match[0]
        path = os.path.normpath(PurePosixPath(source).parent / link)
        if not (root / path).is_file():
            raise ValueError(f"{source}: {link} is no file")
        if path not in known:
            files.add(path)
        return f"]({os.path.relpath(known.get(path, f'files/{path}'), here)}{anchor})"

    parts = _FENCED.split(text)
    return "".join(part if number % 2 else _LINK.sub(target, part) for number, part in enumerate(parts)), files


def navigation(index: str, known: Mapping[str, str], root: Path) -> list[tuple[str, list[tuple[str, str]]]]:
    """Sections with the titles and places of their pages: those of the index by its headings, then what is added."""
    sections: list[tuple[str, list[tuple[str, str]]]] = []
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        pages = [(title.replace("`", ""), page) for title, page in _LISTED.findall(section)]
        if pages:
            sections.append((section.partition("\n")[0], pages))
    papers = [(_title(root / source), place) for source, place in known.items() if place.startswith("papers/")]
    reference = [(page.title, f"reference/{name}.md") for name, page in REFERENCE.items()]
    project = [
        ("The tables of a store", "schema.md"),
        ("Changelog", "changelog.md"),
        ("Contributing", "contributing.md"),
        ("Security", "security.md"),
    ]
    return [*sections, ("Designs and their papers", papers), ("Reference", reference), ("Project", project)]


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def configuration(base: str, sections: Iterable[tuple[str, list[tuple[str, str]]]]) -> str:
    """`base` with the navigation behind it; strings are written as JSON, which is YAML too."""
    lines = ["nav:", '  - "Home": index.md']
    for title, pages in sections:
        lines.append(f"  - {json.dumps(title, ensure_ascii=False)}:")
        lines += [f"      - {json.dumps(name, ensure_ascii=False)}: {json.dumps(page)}" for name, page in pages]
    return base.rstrip("\n") + "\n\n" + "\n".join(lines) + "\n"


def reference_page(page: Page) -> str:
    """A page that mkdocstrings fills in."""
    return f"# {page.title}\n\n{page.about}\n\n" + "\n".join(f"::: {name}\n" for name in page.names)


def stage(root: Path, build: Path) -> None:
    """Write pages, files and configuration into `build`, in place of those before."""
    docs = build / "docs"
    shutil.rmtree(docs, ignore_errors=True)
    known = places(root)
    files = {ICON}
    for source, place in known.items():
        text, linked = relinked((root / source).read_text(encoding="utf-8"), source, known, root)
        files |= linked
        _write(docs / place, text)
    for name in files:
        to = docs / ("icon.svg" if name == ICON else f"files/{name}")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, to)
    for name, page in REFERENCE.items():
        _write(docs / "reference" / f"{name}.md", reference_page(page))
    index = (root / "docs" / "index.md").read_text(encoding="utf-8")
    base = (root / "mkdocs.yml").read_text(encoding="utf-8")
    _write(build / "mkdocs.yml", configuration(base, navigation(index, known, root)))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    try:
        stage(ROOT, BUILD)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
