"""Functions that numba compiles once and caches."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """numba's njit, compiled once and kept beside the source, or in the user's own cache folder."""
    try:
        return cast(Function, numba.njit(cache=True)(function))
    except RuntimeError:  # neither folder can be written to; a shared one could be filled by others
        return cast(Function, numba.njit(function))
