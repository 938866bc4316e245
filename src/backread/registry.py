"""Parts that users choose by name: backread's own, those that installed packages add, and any other as "module:Class".

A table of each kind says where its own parts are, as "module:attribute", so that a name costs the import of what it
names and no other. A package adds a name by an entry point:

    [project.entry-points."backread.strategies"]
    latest = "latest_memory:Latest"

A name is looked up among backread's own, then among entry points, then read as "module:Class". An entry point can't
replace a part of backread's own, and of two packages that add the same name neither is taken.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any, Final

from backread.errors import BackreadError, InvalidInputError, NotFoundError

__all__ = ["Kind", "Plugin", "load_target"]

_TARGET: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


@dataclass(frozen=True, slots=True)
class Plugin:
    """A name that an installed package adds.

    Attributes:
        kind: of part ("strategy").
        name: what users write.
        target: where it is, "module:attribute".
        package: the distribution and its version, "" when it can't be told.
    """

    kind: str
    name: str
    target: str
    package: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of part.

    Attributes:
        name: for messages ("strategy").
        plural: for messages, and the end of the entry-point group ("strategies").
        own: backread's own parts, name -> "module:attribute".
        unknown: the error for a name that nothing has.
    """

    name: str
    plural: str
    own: Mapping[str, str]
    unknown: type[BackreadError] = NotFoundError

    @property
    def group(self) -> str:
        """The entry-point group that adds to it."""
        return f"backread.{self.plural}"

    def __iter__(self) -> Iterator[str]:
        """Every name: own ones in their order, then added ones, sorted. Nothing is imported.

        A name that two packages add is left out.
        """
        targets: dict[str, set[str]] = {}
        for point in entry_points(group=self.group):
            targets.setdefault(point.name, set()).add(point.value)
        added = sorted(name for name, found in targets.items() if len(found) == 1 and name not in self.own)
        return iter((*self.own, *added))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        """Whether something has this name. False for "module:Class", which only `find` reads."""
        return name in self.own or any(name == known for known in self)

    def plugins(self) -> list[Plugin]:
        """What installed packages add, by name and package."""
        found = [
            Plugin(self.name, point.name, point.value, f"{point.dist.name} {point.dist.version}" if point.dist else "")
            for point in entry_points(group=self.group)
        ]
        return sorted(found, key=lambda plugin: (plugin.name, plugin.package))

    def find(self, name: str) -> object:
        """What `name` stands for, imported.

        Raises:
            NotFoundError: nothing has this name (the hint lists the names); `unknown` where the kind has its own error.
            InvalidInputError: two packages add it, or what it names can't be imported.
        """
        if name in self.own:
            return load_target(self.own[name])
        targets = sorted({point.value for point in entry_points(group=self.group, name=name)})
        if len(targets) > 1:
            raise InvalidInputError(
                f"several packages add a {self.name} {name!r}: {', '.join(targets)}",
                hint="uninstall one of them, or write the one that is meant as module:Class",
            )
        if targets:
            return load_target(targets[0])
        if _TARGET.fullmatch(name) and find_spec(re.split("[.:]", name)[0]) is not None:
            return load_target(name)
        raise self.unknown(
            f"there is no {self.name} {name!r}",
            hint=f"{self.plural}: {', '.join(self)}; one of your own is written module:Class",
        )

    def said(self, name: str, found: object, fields: Sequence[str]) -> dict[str, Any]:
        """What a class or function says of itself, by its attributes among `fields`; it must be callable.

        Raises:
            InvalidInputError: it isn't.
        """
        if not callable(found):
            raise InvalidInputError(
                f"{name!r} is no {self.name} but {type(found).__name__}", hint="name a class that makes one"
            )
        return {field: getattr(found, field) for field in fields if hasattr(found, field)}


def load_target(target: str) -> object:
    """The object at "module:attribute"; the module is imported.

    Raises:
        NotFoundError: there is no such module, or nothing of that name in it.
        InvalidInputError: it can't be imported, with what its import says.
    """
    module_name, _, path = target.partition(":")
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise InvalidInputError(f"{target} needs a module that is missing: {error}") from error
        raise NotFoundError(
            f"there is no module {module_name!r} for {target!r}", hint="install its package where backread runs"
        ) from error
    except Exception as error:
        raise InvalidInputError(f"{target} can't be imported: {type(error).__name__}: {error}") from error
    for attribute in path.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError as error:
            raise NotFoundError(f"{module_name} has no {path!r}", hint="write module:Class") from error
    return found
