"""Values of options and arguments as they were typed: taken as they are where there is nothing to check.

typer checks every value with pydantic, even one that was not given, and loading it takes longer than most commands.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["taken_as_typed"]


def taken_as_typed(params: Iterable[Any]) -> None:
    """Let parameters that take any text, any path or nothing pass without pydantic. Others are checked as ever.

    A typer that keeps its checks elsewhere is left alone.
    """
    for param in params:
        if getattr(param, "_runtime_param", params) is None and hasattr(param, "type_descriptor"):
            param._runtime_param = _AsTyped(param)


class _AsTyped:
    """Stands where typer keeps the check of a parameter."""

    def __init__(self, param: Any) -> None:  # noqa: ANN401
        self._kind = param.type_descriptor.annotation

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401
        """The value of a parameter, checked by typer's own means where it isn't plain."""
        if value is None and not param.multiple and param.nargs != -1:
            return None
        if type(value) is self._kind:
            return value
        if self._kind == list[str] and isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            return list(value)
        if self._kind is Path and isinstance(value, str):
            return Path(value)
        param._runtime_param = None  # typer makes its own now
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
