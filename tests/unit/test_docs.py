"""The documentation can't drift: its examples run, its generated parts are fresh, its links lead somewhere.

A page's ```python blocks run in order in one namespace, in a folder of their own; a ```text block right after one is
what it prints. Commands of its ```console blocks run in another folder, and must print what the block shows. "…" stands
for anything. A block after `<!-- file: NAME -->` is in that file, in both folders. Search is by text only unless the
page says `<!-- needs weights -->`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark.structures import ParameterSet

import backread

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^<!-- file: ([\w.]+) -->\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


class Block(NamedTuple):
    """A fenced block: its language, its text, the line it starts on, and where it ends."""

    language: str
    text: str
    line: int
    end: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2)), m.end()) for m in _FENCE.finditer(text)]


def with_blocks(language: str) -> list[ParameterSet]:
    found = []
    for page in PAGES:
        if any(block.language == language for block in blocks(page)):
            needs = "<!-- needs weights -->" in page.read_text(encoding="utf-8")
            name = page.relative_to(ROOT).as_posix()
            found.append(pytest.param(page, id=name, marks=[pytest.mark.weights] if needs else []))
    return found


def write_files(page: Path) -> None:
    for name, content in _FILE.findall(page.read_text(encoding="utf-8")):
        Path(name).write_text(content, encoding="utf-8")


def agrees(shown: str, printed: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in shown.strip().split("…"))
    lines = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    return re.fullmatch(pattern, lines, re.DOTALL) is not None


@pytest.fixture(autouse=True)
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if request.node.get_closest_marker("weights") is None:
        monkeypatch.setenv("BACKREAD_EMBEDDER", "none")


@pytest.mark.timeout(120)  # the libraries that integrations are for take seconds to import
@pytest.mark.parametrize("page", with_blocks("python"))
def test_the_python_examples_run_and_print_what_they_say(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "__main__"}
    write_files(page)
    found = blocks(page)
    for number, block in enumerate(found):
        if block.language != "python":
            continue
        output = io.StringIO()
        code = compile("\n" * block.line + block.text, str(page), "exec")
        with contextlib.redirect_stdout(output):
            exec(code, namespace)
        after = found[number + 1] if number + 1 < len(found) else None
        if after and after.language == "text" and text[block.end :].startswith("\n\n```text\n"):
            assert agrees(after.text, output.getvalue()), f"line {block.line} prints:\n{output.getvalue()}"
    for value in namespace.values():
        if isinstance(value, backread.Memory):
            value.close()


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", with_blocks("console"))
def test_the_commands_print_what_the_page_shows(page: Path) -> None:
    env = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    write_files(page)
    for block in blocks(page):
        if block.language != "console":
            continue
        for example in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, shown = example.partition("\n")
            words = shlex.split(command)
            assert words[0] == "backread", f"line {block.line}: console blocks hold backread's commands"
            done = subprocess.run(
                [sys.executable, "-m", *words], env=env, capture_output=True, text=True, encoding="utf-8", check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            assert agrees(shown, done.stdout), f"{command}\nprints:\n{done.stdout}"


def test_the_generated_parts_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "update_docs.py"), "--check"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_can_be_reached_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link).resolve() for link in _LINK.findall(index.read_text(encoding="utf-8"))}
    assert set((ROOT / "docs").rglob("*.md")) - {index} <= linked


def test_every_public_name_is_explained() -> None:
    page = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
    assert [name for name in backread.__all__ if f"`{name}" not in page and f"{name}(" not in page] == []
