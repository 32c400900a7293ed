"""The architecture, as a test: which folder may import which, and which may touch the machine.

`traces`, `planning` and `results` are computing: values in, values out.  They start no process, open no
socket, read no clock, draw nothing that has no seed and ask nothing of the machine, and of their modules only
the DOORS touch files or look at what is there.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BELOW: dict[str, set[str]] = {
    "traces": set(),
    "planning": {"traces"},
    "emu": {"planning", "traces"},
    "controller": {"planning", "traces"},
    "results": {"controller", "emu", "planning", "traces"},
    "tools": {"results", "controller", "emu", "planning", "traces"},
}
PURE = ("traces", "planning", "results")
MACHINE = {
    "asyncio",
    "concurrent",
    "ctypes",
    "datetime",
    "dbm",
    "fcntl",
    "fileinput",
    "getpass",
    "grp",
    "http",
    "importlib",
    "linecache",
    "mininet",
    "mmap",
    "multiprocessing",
    "os",
    "os_ken",
    "pkgutil",
    "platform",
    "psutil",
    "pty",
    "pwd",
    "random",
    "resource",
    "runpy",
    "ryu",
    "scapy",
    "secrets",
    "select",
    "selectors",
    "shelve",
    "shutil",
    "signal",
    "socket",
    "socketserver",
    "sqlite3",
    "ssl",
    "subprocess",
    "tempfile",
    "termios",
    "threading",
    "time",
    "torch",
    "urllib",
    "uuid",
}
FILES = {  # names of functions and methods, called or handed on
    "absolute",
    "chmod",
    "cwd",
    "exists",
    "expanduser",
    "fdopen",
    "fromfile",
    "fstat",
    "glob",
    "hardlink_to",
    "home",
    "is_block_device",
    "is_char_device",
    "is_dir",
    "is_fifo",
    "is_file",
    "is_mount",
    "is_socket",
    "is_symlink",
    "iterdir",
    "lchmod",
    "lstat",
    "memmap",
    "mkdir",
    "open",
    "read_at_most",
    "read_bytes",
    "read_csv",
    "read_parquet",
    "read_table",
    "read_text",
    "readlink",
    "rename",
    "resolve",
    "rglob",
    "rmdir",
    "samefile",
    "scandir",
    "stat",
    "symlink_to",
    "to_csv",
    "to_parquet",
    "tofile",
    "touch",
    "unlink",
    "write_bytes",
    "write_table",
    "write_text",
    "write_whole",
}
# Of emu and controller the results need what describes the files that these leave, and nothing that acts.
FOR_RESULTS = {
    "controller.counters",
    "emu.aggregation.figures",
    "emu.disturbance",
    "emu.options",
    "emu.events",
    "emu.inject.options",
    "emu.records",
}
# A generator with a seed of its own is a value like any other; the module's shared one is not.
HARMLESS = {("random", "Random")}
DOORS: dict[str, set[str]] = {
    "traces/analysis/tables.py": {"mkdir"},
    "traces/files.py": {"absolute", "fdopen", "fstat", "open", "os", "secrets", "stat", "unlink"},
    "traces/dataframes.py": {"mkdir", "to_csv", "write_table", "write_whole"},
    "traces/groundtruth.py": {"glob", "read_bytes", "stat"},
    "traces/indexfiles.py": {"is_file", "read_bytes", "stat"},
    "traces/schedules/keys.py": {"open"},
    "traces/packets/jit.py": {"threading"},  # its lock: threads that read files compile what is not built
    "traces/packets/verify.py": {"asyncio"},  # pyshark talks to tshark by it
    "traces/memory.py": {"read_text", "resource"},  # and a limit of this process
    "traces/plugins.py": {"importlib"},  # what installed packages add
    "traces/packets/openfile.py": {"is_file", "memmap", "open", "select"},
    "traces/reader.py": {
        "exists",
        "is_dir",
        "is_file",
        "iterdir",
        "os",
        "read_at_most",
        "read_bytes",
        "stat",
    },
    "traces/threads.py": {"os", "threading"},
    "traces/workload.py": {"read_bytes", "write_whole"},
    "traces/schedules/names.py": {"importlib"},  # algorithms of installed packages
    "planning/capturefabric.py": {"is_dir", "is_file", "read_bytes", "stat"},
    "planning/fabrics/fabricfile.py": {"read_at_most"},
    "planning/fabrics/spec.py": {"is_file", "importlib"},
    "planning/jobs.py": {"is_dir", "is_file", "open"},
    "planning/plan.py": {"read_at_most", "write_whole"},
    "planning/routing/policies.py": {"importlib", "pkgutil"},  # policies, our own too, by their names
    "planning/machines/machinesfile.py": {"read_at_most"},
    "planning/placement.py": {"importlib"},  # placements of installed packages
    "planning/runfiles.py": {"exists", "is_dir", "open", "read_bytes", "read_table", "stat"},
    "results/audit/runaudit.py": {"exists", "read_table"},
    "results/laboratory.py": {"exists"},
    "results/linktimes.py": {"exists", "read_table"},
    "results/matrixfile.py": {"exists", "is_file", "mkdir", "write_whole"},
    "results/outages.py": {"exists"},
    "results/row.py": {"write_whole"},
    "results/runlist.py": {"exists", "glob", "is_dir", "is_file", "is_symlink", "iterdir", "lstat", "rglob"},
    "results/trustresult.py": {"write_whole"},
    "results/runtables.py": {"exists", "read_table"},
    "results/runview.py": {"exists", "read_table"},
}
MODULES = [
    path.relative_to(ROOT).as_posix() for folder in BELOW for path in sorted((ROOT / folder).rglob("*.py"))
]


def imports(source: str) -> Iterator[str]:
    """The top-level packages that a module imports, wherever in it that is written; ours by their folders."""
    for module, name in _imported(source):
        if (module, name) not in HARMLESS:
            yield _place(module, name)[0]


def modules(source: str) -> Iterator[str]:
    """The modules of ours that a module imports, as `folder.module`."""
    for module, name in _imported(source):
        if module.startswith(("gradwire.", ".")) or module == "gradwire":
            yield ".".join(_place(module, name))


def _imported(source: str) -> Iterator[tuple[str, str]]:
    """(module, name) of each import, with "" for the name of a whole module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." if node.level else node.module or ""
            yield from ((module, alias.name) for alias in node.names)


def _place(module: str, name: str) -> tuple[str, ...]:
    """The parts of a module's name; of ours without the first."""
    ours, _, rest = module.partition(".")
    if ours != "gradwire":
        return tuple(module.split(".")) if module != "." else (".",)
    inside = rest.split(".") if rest else []
    return tuple([*inside, name] if len(inside) < 2 and name else inside) or (ours,)


def names(source: str) -> Iterator[str]:
    """The functions and methods that a module names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id


def forbidden(module: str, source: str) -> set[str]:
    """What `module`, a path in the repository, imports or calls without being allowed to."""
    folder = module.partition("/")[0]
    used = set(imports(source))
    upward = used & (set(BELOW) | {"tests", "benchmarks", "."}) - BELOW[folder] - {folder}
    if folder not in PURE:
        return upward
    touched = used & MACHINE | set(names(source)) & FILES
    beside = {one for one in modules(source) if one.startswith(("emu.", "controller."))}
    edges = beside - FOR_RESULTS if folder == "results" else set()
    return upward | edges | touched - DOORS.get(module, set())


def test_what_asks_the_kernel_needs_nothing_else_of_the_emulator() -> None:
    for path in (ROOT / "emu" / "kernel").glob("*.py"):
        of_emu = {one for one in modules(path.read_text()) if one.startswith("emu.")}
        assert {one for one in of_emu if not one.startswith("emu.kernel.")} <= {"emu.interpreter"}, path.name


def test_modules_import_only_what_their_layers_allow() -> None:
    breaches = {module: forbidden(module, (ROOT / module).read_text()) for module in MODULES}
    assert {module: names for module, names in breaches.items() if names} == {}


@pytest.mark.parametrize("module", DOORS)
def test_a_door_is_listed_only_with_what_it_uses(module: str) -> None:
    source = (ROOT / module).read_text()
    assert DOORS[module] <= {*imports(source), *names(source)}


@pytest.mark.parametrize(
    ("module", "line", "reason"),
    [
        ("traces/packets/streams.py", "from gradwire.planning.fabrics.fabric import Fabric", "planning"),
        ("planning/plan.py", "import gradwire.emu.run", "emu"),
        ("planning/model/audit.py", "from gradwire.results import verdict", "results"),
        ("emu/run.py", "from gradwire.controller import counters", "controller"),
        ("emu/run.py", "from gradwire.results.row import Row", "results"),
        ("controller/app.py", "from gradwire.emu.records import Repeat", "emu"),
        ("results/verdict.py", "from gradwire.tools import cli", "tools"),
        ("results/verdict.py", "from gradwire.emu import run", "emu.run"),
        ("results/verdict.py", "from gradwire.emu.kernel.isolate import isolated", "emu.kernel.isolate"),
        ("planning/resolve.py", "from concurrent.futures import ProcessPoolExecutor", "concurrent"),
        ("planning/resolve.py", "from datetime import datetime", "datetime"),
        ("planning/resolve.py", "import importlib", "importlib"),
        ("results/verdict.py", "def f(paths):\n    return map(Path.read_text, paths)", "read_text"),
        ("results/verdict.py", "def f(path):\n    return path.exists()", "exists"),
        ("tools/cli.py", "from tests.conftest import left_out", "tests"),
        ("traces/packets/streams.py", "import time", "time"),
        ("planning/placement.py", "from random import Random, shuffle", "random"),
        ("planning/model/audit.py", "def f():\n    import os.path", "os"),
        ("planning/plan.py", "from . import fabric", "."),
        ("planning/plan.py", "from .fabric import Fabric", "."),
        ("traces/packets/streams.py", "import fcntl", "fcntl"),
        ("planning/resolve.py", "from mmap import mmap", "mmap"),
        ("results/row.py", "import termios", "termios"),
        ("results/row.py", "import tempfile", "tempfile"),
        ("planning/resolve.py", "import shutil", "shutil"),
        ("planning/resolve.py", "def f(path):\n    return open(path)", "open"),
        ("results/row.py", "def f(path):\n    return path.read_text()", "read_text"),
        ("traces/reader.py", "def f(path):\n    path.write_bytes(b'')", "write_bytes"),
        ("results/row.py", "def f(path):\n    return path.stat().st_size", "stat"),
        (
            "results/row.py",
            "def f(paths):\n    return [path for path in paths if path.is_symlink()]",
            "is_symlink",
        ),
        ("planning/resolve.py", "def f(path):\n    return path.lstat()", "lstat"),
        ("planning/placement.py", "def f(path):\n    return path.resolve()", "resolve"),
        ("planning/resolve.py", "from pathlib import Path\nHERE = Path.cwd()", "cwd"),
        ("results/row.py", "def f(frame, path):\n    frame.to_csv(path)", "to_csv"),
        ("planning/placement.py", "import secrets", "secrets"),
        ("traces/packets/streams.py", "import resource", "resource"),
        ("results/row.py", "from platform import node", "platform"),
        ("results/row.py", "import uuid", "uuid"),
    ],
)
def test_a_breach_is_noticed(module: str, line: str, reason: str) -> None:
    assert forbidden(module, line) == {reason}


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("emu/run.py", "from gradwire.planning.plan import Plan"),
        ("controller/app.py", "import gradwire.planning.plan, gradwire.traces.units, time"),
        (
            "results/verdict.py",
            "from gradwire.controller import counters\nfrom gradwire.emu.records import Repeat",
        ),
        ("planning/placement.py", "from random import Random"),
        ("planning/plan.py", "def f(path):\n    return read_at_most(path, 1)"),
        ("emu/switch/plane/bpf.py", "import ctypes, mmap"),
    ],
)
def test_what_a_layer_allows_passes(module: str, line: str) -> None:
    assert forbidden(module, line) == set()
