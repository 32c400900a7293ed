"""How the project starts its own Python processes: in Python's isolated mode (-I).

Without it Python looks for modules in the user's current folder, and in PYTHONPATH, where an empty or
relative entry is that folder again; so whoever owns the folder would have their `json.py` run as root.

As a script, `python -I emu/interpreter.py MODULE ARGUMENTS...` does what `python -m MODULE ARGUMENTS...`
does, but finds MODULE in the project alone.  In a checkout it makes the project known to Python; where
gradwire is installed, it is known.
"""

import gc
import runpy
import sys
from contextlib import suppress
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

PROGRAMS = Path(sys.executable).parent  # of our environment: python, scapy
_COLLECT_AFTER = 50_000  # new objects; Python looks for unreachable ones after 700
_SCRIPT = Path(__file__).resolve()
_INTERRUPTED = 130  # as a shell says of a program that SIGINT ended


def python(module: str, *arguments: str, by: Path | str = sys.executable) -> list[str]:
    """The command that runs a module of the project, unbuffered, whatever the current folder holds.

    `by` is the Python that does.
    """
    return [str(by), "-I", "-u", str(_SCRIPT), module, *arguments]


def bare_python(script: Path, *arguments: str) -> list[str]:
    """The command that runs a script which needs nothing but Python's own modules, and so begins at once."""
    return [sys.executable, "-I", "-S", str(script), *arguments]


def _hasten_imports() -> None:
    """Leave out what takes a fifth of the time of most programs' imports."""
    gc.set_threshold(_COLLECT_AFTER)  # what is imported stays: there is no garbage to look for
    if PathFinder.find_spec("distutils"):
        # Mininet wants one function of it, for which setuptools would import all of its own.
        with suppress(ImportError):
            import_module("_distutils_hack").remove_shim()


def _main() -> None:
    _hasten_imports()
    project = _SCRIPT.parents[1]
    if (project / "gradwire.py").is_file():
        if str(project) not in sys.path:
            sys.path.insert(0, str(project))
    elif find_spec("gradwire") is None:  # installed where isolated Python does not look
        sys.path.append(str(project.parent))
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    try:
        _main()
    except KeyboardInterrupt:  # while modules are imported: later a program says it itself
        print("gradwire: interrupted", file=sys.stderr)
        sys.exit(_INTERRUPTED)
