"""Functions that numba compiles once and caches.  It takes a while to load: only when one is called."""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """numba's njit, compiled once and kept beside the source, or in the user's own cache folder."""
    return cast(Function, _Compiled(function))


class _Compiled:
    """Stands for what numba makes of a function, until it is first called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self._function = function
        self._made: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        return self.made()(*arguments)

    def __getattr__(self, name: str) -> Any:
        """What else numba's functions have, as `py_func`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.made(), name)

    def made(self) -> Callable[..., Any]:
        """What numba makes of it.  Those of its module take the places of what stands for them there, as
        compiled functions call nothing else.
        """
        if self._made is None:
            self._made = _njit(self._function)
            names = self._function.__globals__
            for name, value in [*names.items()]:
                if isinstance(value, _Compiled):
                    names[name] = value.made()
        return self._made


def _njit(function: Callable[..., Any]) -> Callable[..., Any]:
    import numba

    try:
        return cast(Callable[..., Any], numba.njit(cache=True)(function))
    except RuntimeError:  # neither folder can be written to; a shared one could be filled by others
        return cast(Callable[..., Any], numba.njit(function))
