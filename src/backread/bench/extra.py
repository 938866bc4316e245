"""The extra `bench`: the packages that only experiments need, and the error that names their install command."""

from __future__ import annotations

import importlib.util

from backread.errors import MissingExtraError

__all__ = ["INSTALL", "needs"]

INSTALL = "pip install 'backread[bench]'"


def needs(*modules: str) -> None:
    """Raise MissingExtraError unless all `modules` are installed; none of them is imported for that.

    Args:
        modules: top-level names, such as "scipy".

    Raises:
        MissingExtraError: names every one that is missing.
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"the bench needs what is not installed ({', '.join(missing)}): {INSTALL}", hint=INSTALL
        )
