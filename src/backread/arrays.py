"""numpy, loaded when it is first used: what only reads the record, such as `backread users`, does without it.

A module that says `from backread.arrays import NDArray, np` uses both as ever, but for what runs when it is imported:
a constant that numpy makes would load it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["ArrayLike", "NDArray", "np"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray
else:

    class _Numpy:
        """Every attribute is numpy's, kept once it was asked for."""

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401
            import numpy

            value = getattr(numpy, name)
            setattr(self, name, value)
            return value

    np = _Numpy()

    ArrayLike = NDArray = object  # in annotations only, which nobody evaluates
