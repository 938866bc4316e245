"""Import every module of the installed package; fails on the first that can't be.

What needs more than the core is left out where that isn't there: contract classes of `backread.testing` without pytest,
the server without fastapi, each integration without its library.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys

import backread

_NEEDED = (
    ("pytest", "backread.testing.contracts_"),
    ("fastapi", "backread.server."),
    ("mcp", "backread.server.mcp"),
    ("langchain_core", "backread.integrations.langchain"),
    ("langgraph", "backread.integrations.langgraph"),
    ("llama_index", "backread.integrations.llama_index"),
    ("agents", "backread.integrations.openai_agents"),
)
"""A package, and the modules that need it."""


def main() -> int:
    names = sorted(item.name for item in pkgutil.walk_packages(backread.__path__, "backread."))
    for package, prefix in _NEEDED:
        if importlib.util.find_spec(package) is None:
            names = [name for name in names if not name.startswith(prefix)]
    for name in names:
        if not name.endswith("__main__"):
            importlib.import_module(name)
    print(f"{len(names)} modules of backread {backread.__version__} import, from {backread.__path__[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
