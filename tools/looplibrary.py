"""Compiles the loops that read captures, and check and time schedules, for use without numba: set-up runs it.

numba's own compiler for that (numba.pycc) needs a C compiler and Python's headers.  What it makes, in
traces/build, is for any processor of the machine's kind, so it may be copied with the project.
"""

import os
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from gradwire.emu.project import PROJECT
from gradwire.traces.packets.jit import Compiled, dtype_of, ndim_of

FOLDER = PROJECT / "traces" / "build"
NAME = "loops"
MODULES = (
    "planning.model.bulk",
    "planning.model.predict",
    "traces.packets.cover",
    "traces.packets.decode",
    "traces.packets.inorder",
    "traces.packets.pcap",
    "traces.packets.pcapng_loop",
    "traces.analysis.flowloops",
    "traces.analysis.percentiles",
    "traces.analysis.spacing",
    "traces.schedules.buffers",
    "traces.schedules.pieces",
    "traces.schedules.races",
)


def entries() -> list[Compiled]:
    """The compiled functions of MODULES that no other one of their module calls."""
    found = []
    for name in (f"gradwire.{name}" for name in MODULES):
        functions = [one for one in vars(import_module(name)).values() if isinstance(one, Compiled)]
        own = [one for one in functions if one.function.__module__ == name]
        called = {callee for one in own for callee in one.callees}
        found += [one for one in own if one not in called]
    return found


def build() -> None:
    """Compile all entries, unless that was done; the library takes the place of the one that was there."""
    wanted = entries()
    if all(one.built is not None for one in wanted):
        return
    # numba tries both compilers first; of a machine with nothing but Debian's clang it would take gcc's.
    for name, command in (("CC", "clang"), ("CXX", "clang++"), ("LDSHARED", "clang -shared")):
        os.environ.setdefault(name, command)
    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=FOLDER) as folder:  # the old one may be in use
        # An empty cache: numba's own is by file, and does not notice a new constant that the file imports.
        os.environ["NUMBA_CACHE_DIR"] = folder
        pycc: Any = import_module("numba.pycc")
        library = pycc.CC(NAME)
        library.output_dir = folder
        for one in wanted:
            made: Any = one.made()
            made.compile(tuple(map(numba_type, one.types)))
            (overload,) = made.overloads.values()
            library.export(one.built_name, overload.signature)(one.function)
        library.compile()
        for path in Path(folder).glob(f"{NAME}.*"):
            path.replace(FOLDER / path.name)


def numba_type(annotation: Any) -> Any:
    """numba's type for an argument that is annotated as `traces.packets.jit.compiled` describes it."""
    numba: Any = import_module("numba")
    if hasattr(annotation, "_fields"):
        fields = [numba_type(annotation.__annotations__[name]) for name in annotation._fields]
        if len(set(fields)) == 1:
            return numba.types.NamedUniTuple(fields[0], len(fields), annotation)
        return numba.types.NamedTuple(fields, annotation)
    element = dtype_of(annotation)
    if element is not None:
        return numba.types.Array(numba.from_dtype(np.dtype(element)), ndim_of(annotation), "C")
    return numba.from_dtype(np.dtype(annotation))


if __name__ == "__main__":
    build()
