"""`backread strategies`, `plugins` and `new strategy`: what can be chosen by name, and a package for one more."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated, Final

import typer

from backread.cli.options import AsJson
from backread.cli.output import emit, note, shown, table, tell
from backread.errors import InvalidInputError

__all__ = ["new_strategy", "plugins", "strategies"]

_FILES: Final = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    "src/{name}/__init__.py": "strategy.py.txt",
    "src/{name}/py.typed": None,
    "tests/test_{name}.py": "test_strategy.py.txt",
}


def strategies(as_json: AsJson = False) -> None:
    """List the strategies that can be chosen, with what they do.

    One of your own is chosen by module:Class, without an installation.

      backread strategies
      backread ask --user ann --strategy t2mem "Which phone do I have?"
    """
    from backread.strategies.registry import STRATEGIES, strategy_spec

    added = {plugin.name: plugin.package for plugin in STRATEGIES.plugins()}
    specs = {name: strategy_spec(name) for name in STRATEGIES}
    if as_json:
        emit(
            [
                {"name": name, "builds": spec.builds, "summary": spec.summary, "from": added.get(name, "backread")}
                for name, spec in specs.items()
            ]
        )
        return
    made = table("strategy", "builds", "what it does", "from", fold=["what it does"])
    for name, spec in specs.items():
        builds = "yes" if spec.builds else ""
        made.add_row(shown(name), builds, shown(spec.summary), shown(added.get(name, "backread")))
    tell(made)


def plugins(as_json: AsJson = False) -> None:
    """List the parts that installed packages add by entry points.

    A package adds parts in the groups backread.strategies,
    backread.retrievers and backread.importers.

      backread plugins
      backread plugins --json
    """
    from backread.importers import IMPORTERS
    from backread.retrieval.registry import RETRIEVERS
    from backread.strategies.registry import STRATEGIES

    found = [plugin for kind in (STRATEGIES, RETRIEVERS, IMPORTERS) for plugin in kind.plugins()]
    if as_json:
        emit(found)
        return
    if found:
        made = table("kind", "name", "where", "package", fold=["where"])
        for plugin in found:
            made.add_row(plugin.kind, shown(plugin.name), shown(plugin.target), shown(plugin.package))
        tell(made)
    else:
        note("no installed package adds a part", label="")


def new_strategy(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, and that of its package: my_memory.")],
    folder: Annotated[
        Path | None, typer.Option("--in", metavar="FOLDER", help="Where the package goes. Default: here.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a package with a strategy of your own, and tests of its contract.

    backread new strategy my_memory
    pip install -e my_memory pytest && pytest my_memory
    backread ask --user ann --strategy my_memory "Which phone do I have?"
    """
    from backread.strategies.registry import STRATEGIES

    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        raise InvalidInputError(f"{name!r} is no name of a package", hint="small letters, digits and _: my_memory")
    if name in STRATEGIES or name == "backread":
        raise InvalidInputError(f"there is a strategy {name!r}", hint="choose another name")
    root = (folder or Path()) / name
    if root.exists():
        raise InvalidInputError(f"{root} is there already", hint="choose another name, or another folder with --in")
    words = {"name": name, "class": "".join(part.capitalize() for part in name.split("_"))}
    for target, template in _FILES.items():
        text = "" if template is None else files("backread.cli").joinpath(f"templates/strategy/{template}").read_text()
        path = root / target.format(name=name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text).substitute(words), encoding="utf-8")
    tell(
        f"{root / 'src' / name / '__init__.py'} is the strategy; next:",
        f"  pip install -e {root} pytest && pytest {root}",
    )
