"""Loads what installed packages add by entry points, and names the package that an error came from."""

import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints
from traceback import walk_tb
from typing import Any

NOUNS = {  # by the group of entry points
    "gradwire.collective": "algorithm",
    "gradwire.fabric": "fabric family",
    "gradwire.framing": "framing",
    "gradwire.placement": "placement",
    "gradwire.routing": "routing policy",
}

CALL = "__call__"
_WHOSE = "gradwire_whose"  # the attribute by which an error says it in another process


class BadPlugin(Exception):
    """What a package offers and cannot be used; the text says what it is, whose, and why."""


def entry_points(group: str, name: str | None = None) -> EntryPoints:
    """The entry points of installed packages in a group, such as `gradwire.fabric`, or those of one name.

    `importlib.metadata.entry_points`, which reads the files of all packages at each call: here once, as long
    as modules come from the same folders.
    """
    found: EntryPoints = _of_path(tuple(sys.path)).select(group=group)
    return found if name is None else found.select(name=name)


@cache
def _of_path(folders: tuple[str, ...]) -> Any:
    """Those of the packages in `folders`, which are sys.path; Python 3.11 and 3.12 differ in its type."""
    assert list(folders) == sys.path
    return metadata.entry_points()


def loaded(entry: EntryPoint) -> Any:
    """What an entry point names.  Raise BadPlugin for whatever its package raises."""
    try:
        return entry.load()
    except (Exception, SystemExit) as error:
        raise BadPlugin(f"{plugin_name(entry)} cannot be loaded: {type(error).__name__}: {error}") from error


def loaded_with(entry: EntryPoint, *attributes: str) -> Any:
    """What an entry point names, which must have all these attributes.  Raise BadPlugin."""
    offered = loaded(entry)
    if missing := next((name for name in attributes if not hasattr(offered, name)), None):
        has = "cannot be called" if missing == CALL else f"has no {missing}"
        raise BadPlugin(f"{plugin_name(entry)} {has}: {entry.value} is of type {type(offered).__name__}")
    return offered


def plugin_name(entry: EntryPoint) -> str:
    """`routing policy 'drawn' of the package mine 0.1`."""
    noun = NOUNS.get(entry.group, entry.group.removeprefix("gradwire."))
    return f"{noun} {entry.name!r} of the package {_package(entry)}"


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.module.partition(".")[0]


def whose(error: BaseException) -> str | None:
    """The `plugin_name` of what an error came through; None if that was no package that adds something."""
    entry = _plugin_of(error)
    found: str | None = plugin_name(entry) if entry else getattr(error, _WHOSE, None)
    return found


def keep_whose(error: BaseException) -> None:
    """Have an error know whose it is in another process, where it comes to without its traceback."""
    if name := whose(error):
        setattr(error, _WHOSE, name)


def bug_of(name: str) -> str:
    """What is said, below the traceback, of a bug in what `whose` has found."""
    return f"this is a bug in the {name}, not in gradwire: show its authors the lines above"


def _plugin_of(error: BaseException) -> EntryPoint | None:
    modules = [*_modules(error)]
    offered = [entry for group in NOUNS for entry in entry_points(group=group)]
    for module in reversed(modules):
        for entry in offered:
            if entry.module == module:
                return entry
    packages = {module.partition(".")[0] for module in modules}
    return next((entry for entry in offered if entry.module.partition(".")[0] in packages), None)


def _modules(error: BaseException) -> Iterator[str]:
    """Of the functions that were running, the innermost last."""
    for frame, _ in walk_tb(error.__traceback__):
        yield str(frame.f_globals.get("__name__", ""))
