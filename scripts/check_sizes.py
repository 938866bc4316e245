"""Sizes: a file over 400 lines or a function over 50 asks for a reason; a file over 700 or a function over 80 fails.

Blank lines, comments and docstrings count: they have to be read as well.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parent.parent
SELF = "scripts/check_sizes.py"
FOLDERS = ("src", "tests", "scripts", "benchmarks")
FILE_ASKS, FILE_FAILS = 400, 700
FUNCTION_ASKS, FUNCTION_FAILS = 50, 80

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "src/backread/memory.py": "the whole public interface: half of it is docstrings",
        "src/backread/store/sqlite.py": "every method of the store protocol, each a few lines over other modules",
        "src/backread/testing/contracts_store.py": "the whole store contract, for whoever writes an engine",
        "src/backread/types.py": "every shape that travels between layers, definitions only",
    }
)
"""Why a file may be longer than `FILE_ASKS`, or a function ("file::name") longer than `FUNCTION_ASKS`."""


def measure(path: Path, name: str) -> Iterator[tuple[str, int, int, int]]:
    """(what, lines, limit that asks, limit that fails) of a file and of each of its functions."""
    text = path.read_text(encoding="utf-8")
    yield name, text.count("\n"), FILE_ASKS, FILE_FAILS
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield f"{name}::{node.name}", lines, FUNCTION_ASKS, FUNCTION_FAILS


def main() -> int:
    failed = False
    unused = set(REASONS)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for what, lines, asks, fails in measure(path, path.relative_to(ROOT).as_posix()):
                if lines <= asks:
                    continue
                unused.discard(what)
                if lines > fails:
                    failed = True
                    print(f"error: {what} has {lines} lines, the limit is {fails}: split it")
                elif what not in REASONS:
                    print(f"warning: {what} has {lines} lines, over {asks}: split it, or give a reason in {SELF}")
    for what in sorted(unused):
        failed = True
        print(f"error: {what} needs no reason any more: take it out of {SELF}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
