"""Functions that numba compiles: at set-up (tools/looplibrary.py), or else when they are first called.

numba takes most of a second to load, more than what it compiles takes for most captures, so set-up makes a
library of the loops that can be called without it.  Where that library is missing, as after `pip install`,
has other code than the source, or has no such types, numba compiles the function and keeps the result.
"""

from collections.abc import Callable
from functools import cached_property, update_wrapper
from inspect import get_annotations
from threading import RLock
from typing import Any, TypeVar, cast, get_args
from zlib import crc32

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])
_VALUES = (int, float, tuple, np.generic, np.ndarray)  # of constants
# One thread at a time makes them: others would compile while names of the module still stand for functions
# that are not compiled.
_MAKING = RLock()
_SCALARS = {int: (int, np.int64), bool: (bool, np.bool_), float: (float, np.float64), np.uint64: (np.uint64,)}


def compiled(function: Function) -> Function:
    """What stands for a function until it is called, and then calls its compiled form.

    The annotations of its arguments are their types: arrays of a certain dtype and of one dimension, or of as
    many as `np.ndarray[tuple[int, int], …]` has, int, bool, float, np.uint64, and named tuples of these.  It
    may write to arrays that may be written to.
    """
    return cast(Function, Compiled(function))


class Compiled:
    """Stands for what numba makes of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.function = function
        self._made: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        if self.built is not None and all(map(_is_of, arguments, self.types)):
            return self.built(*arguments)
        return self.made()(*arguments)

    def __getattr__(self, name: str) -> Any:
        """What else numba's functions have, as `py_func`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.made(), name)

    @cached_property
    def types(self) -> tuple[Any, ...]:
        """Of its arguments."""
        annotations = get_annotations(self.function)
        annotations.pop("return", None)
        return tuple(annotations.values())

    @cached_property
    def callees(self) -> tuple["Compiled", ...]:
        """The compiled functions of its module that it calls."""
        names = self.function.__globals__
        called = (names.get(name) for name in self.function.__code__.co_names)
        return tuple(one for one in called if isinstance(one, Compiled) and one is not self)

    @cached_property
    def built_name(self) -> str:
        """The name that it has in the library: other code has another."""
        return f"{self.function.__name__}_{crc32(repr(sorted(self._described())).encode()):08x}"

    def _described(self) -> set[str]:
        """What it does, as text: its code, that of what it calls, and the values that they refer to."""
        code, names = self.function.__code__, self.function.__globals__
        values = [(name, names.get(name)) for name in code.co_names]
        known = [(name, repr(value)) for name, value in values if isinstance(value, _VALUES)]
        types = [get_annotations(kind) if isinstance(kind, type) else kind for kind in self.types]
        described = {
            repr((self.function.__module__, code.co_code, code.co_consts, code.co_names, known, types))
        }
        return described.union(*(one._described() for one in self.callees))  # noqa: SLF001 - one of its own

    @cached_property
    def built(self) -> Callable[..., Any] | None:
        """What set-up made of it; None if it made nothing of this code."""
        try:
            from gradwire.traces.build import loops  # type: ignore[attr-defined, import-not-found, unused-ignore]
        except ImportError:
            return None
        built: Callable[..., Any] | None = getattr(loops, self.built_name, None)
        return built

    def made(self) -> Callable[..., Any]:
        """What numba makes of it.  Those of its module take the places of what stands for them there, as
        compiled functions call nothing else.
        """
        with _MAKING:
            if self._made is None:
                self._made = _njit(self.function)
                names = self.function.__globals__
                own = [(name, value) for name, value in names.items() if isinstance(value, Compiled)]
                names.update({name: value.made() for name, value in own})  # all at once, for other threads
            return self._made


def dtype_of(kind: Any) -> Any:
    """The type of the elements of an annotated array; None for other annotations, and of any elements."""
    parameters = get_args(kind)
    if getattr(kind, "__origin__", None) is not np.ndarray:
        return None
    (element,) = get_args(parameters[1])
    return element if isinstance(element, type) else None


def ndim_of(kind: Any) -> int:
    """How many dimensions an annotated array has: one, if the annotation does not say."""
    shape = get_args(get_args(kind)[0])
    return 1 if Ellipsis in shape or not shape else len(shape)


def _is_of(value: Any, kind: Any) -> bool:
    """Whether a value may be given to compiled code that expects an annotated type, and does not ask."""
    if kind in _SCALARS:
        return type(value) in _SCALARS[kind]
    if isinstance(value, tuple):
        return type(value) is kind and all(map(_is_of, value, get_annotations(kind).values()))
    if not isinstance(value, np.ndarray) or value.dtype != dtype_of(kind):
        return False
    return value.ndim == ndim_of(kind) and value.flags.c_contiguous and value.flags.aligned


def _njit(function: Callable[..., Any]) -> Callable[..., Any]:
    import numba

    try:
        return cast(Callable[..., Any], numba.njit(cache=True)(function))
    except RuntimeError:  # neither folder can be written to; a shared one could be filled by others
        return cast(Callable[..., Any], numba.njit(function))
