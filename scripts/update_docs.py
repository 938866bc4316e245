"""Write the generated parts of the documentation, or with --check say which of them are stale.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`; what stands there is replaced.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

os.environ.update(COLUMNS="80", NO_COLOR="1", TERM="dumb", TERMINAL_WIDTH="80")

import typer
from typer.testing import CliRunner

from backread import errors
from backread.bench.measures.names import DESCRIPTIONS
from backread.cli import app
from backread.retrieval.registry import RETRIEVERS, retriever_spec
from backread.server.limits import LIMITS, Limits
from backread.settings import ENVIRONMENT, Settings
from backread.strategies.base import StrategySpec
from backread.strategies.registry import STRATEGIES, strategy_spec

ROOT = Path(__file__).resolve().parent.parent
_PART = re.compile(r"(<!-- generated: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def settings_table() -> str:
    described = dict(re.findall(r"^ {8}(\w+): (.+(?:\n {12}.+)*)$", Settings.__doc__ or "", re.MULTILINE))
    rows = ["| setting | variable | default | what it is |", "| --- | --- | --- | --- |"]
    for field in fields(Settings):
        default = "`memory.db` in the user's data folder" if field.name == "path" else f"`{field.default}`"
        default = "not set" if field.default is None else default
        text = " ".join(described[field.name].split())
        rows.append(f"| `{field.name}` | `{ENVIRONMENT[field.name]}` | {default} | {text} |")
    return "\n".join(rows)


def limits_table() -> str:
    rows = [f"| `{name}` | {getattr(Limits(), name):,} | {what} |" for name, what in LIMITS.items()]
    return "\n".join(["| limit | default | what it is |", "| --- | --- | --- |", *rows])


def commands() -> str:
    return "\n\n".join(_help(words, command) for words, command in _walk(typer.main.get_command(app), ()))


def _walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 - click's
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _walk(inner, (*words, name))


def _help(words: tuple[str, ...], command: Any) -> str:  # noqa: ANN401 - click's
    result = CliRunner().invoke(app, [*words, "--help"], prog_name="backread")
    if result.exit_code != 0:
        raise RuntimeError(f"backread {' '.join(words)} --help ends with {result.exit_code}")
    shown = "\n".join(line.rstrip() for line in result.output.strip("\n").splitlines()).strip("\n")
    return f"## backread {' '.join(words)}".rstrip() + f"\n\n```text\n{shown}\n```"


def retrievers_table() -> str:
    rows = [f"| `{name}` | {what} |" for name, what in ((name, retriever_spec(name).summary) for name in RETRIEVERS)]
    return "\n".join(["| retriever | what it is |", "| --- | --- |", *rows])


def strategies_table() -> str:
    rows = [f"| `{name}` | {'yes' if spec.builds else ''} | {spec.summary} |" for name, spec in _specs()]
    return "\n".join(["| strategy | builds | what it does |", "| --- | --- | --- |", *rows])


def _specs() -> list[tuple[str, StrategySpec]]:
    return [(name, strategy_spec(name)) for name in STRATEGIES]


def measures_table() -> str:
    rows = [f"| {name} | {what.replace('|', chr(92) + '|')} |" for name, what in DESCRIPTIONS.items()]
    return "\n".join(["| measure | what it is |", "| --- | --- |", *rows])


def error_tree() -> str:
    return "```text\n" + (errors.__doc__ or "").split("```")[1].strip("\n") + "\n```"


PARTS: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "commands": commands,
        "errors": error_tree,
        "limits": limits_table,
        "measures": measures_table,
        "retrievers": retrievers_table,
        "settings": settings_table,
        "strategies": strategies_table,
    }
)


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    stale = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        old = page.read_text(encoding="utf-8")
        new = _PART.sub(lambda match: f"{match[1]}\n{PARTS[match['name']]()}\n\n{match[3]}", old)
        if new != old:
            stale.append(page.relative_to(ROOT).as_posix())
            if not check:
                page.write_text(new, encoding="utf-8")
    if stale:
        print(f"{'stale, run scripts/update_docs.py:' if check else 'updated:'} {', '.join(stale)}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
