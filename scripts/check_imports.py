"""Import every module of the installed package; fails on the first that can't be.

Modules of `backread.testing` that hold contract classes are for test suites, and are left out where pytest isn't there.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys

import backread


def main() -> int:
    names = sorted(item.name for item in pkgutil.walk_packages(backread.__path__, "backread."))
    if importlib.util.find_spec("pytest") is None:
        names = [name for name in names if not name.startswith("backread.testing.contracts_")]
    for name in names:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    print(f"{len(names)} modules of backread {backread.__version__} import, from {backread.__path__[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
