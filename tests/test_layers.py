"""The architecture, as a test: who may import whom, and who may touch the world."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BELOW: dict[str, set[str]] = {
    "traces": set(),
    "emu": {"traces"},
    "controller": {"emu", "traces"},
    "tools": {"controller", "emu", "traces"},
}
WORLD = {
    "asyncio",
    "ctypes",
    "mininet",
    "multiprocessing",
    "os",
    "os_ken",
    "random",
    "ryu",
    "scapy",
    "select",
    "selectors",
    "signal",
    "socket",
    "subprocess",
    "threading",
    "time",
    "torch",  # optional: only what is run as a process of its own may need it
}
# A generator with a seed of its own is a value like any other; the module's shared one is not.
HARMLESS = {("random", "Random")}
EDGES: dict[str, set[str]] = {  # the only modules that touch the world, and how
    "traces/files.py": {"os"},
    # The controller's process.
    "controller/__main__.py": {"os", "select", "signal", "time"},
    "controller/app/app.py": {"threading"},  # a lock: handlers, the poll and the main thread share its state
    "controller/app/connection.py": {"socket", "threading", "time"},
    "controller/app/controllog.py": {"time"},
    "controller/app/server.py": {"socket", "time"},
    "controller/app/ryu_api.py": {"os"},
    # The network and what runs on it.
    "emu/network/cables.py": {"socket", "threading", "time"},
    "emu/network/isolate.py": {"os", "subprocess"},
    "emu/aggregation/library.py": {"ctypes"},  # the binding of worker.c
    "emu/aggregation/worker.py": {"os", "socket"},
    "emu/manifest.py": {"os", "subprocess"},
    "emu/network/namespaces.py": {"ctypes", "os", "subprocess"},
    "emu/network/net.py": {"mininet", "socket", "subprocess"},
    "emu/network/nodes.py": {"mininet", "os", "select"},
    "emu/network/rtnetlink.py": {"os", "socket"},
    "emu/network/netem.py": {"subprocess"},
    "emu/run.py": {"select", "subprocess", "time"},
    "emu/network/offload.py": {"socket"},
    "emu/network/queues.py": {"socket"},
    "emu/sampler.py": {"threading", "time"},
    "emu/stalls.py": {"multiprocessing", "os", "time"},
    "emu/watch.py": {"os", "select", "signal", "subprocess", "time"},
    "emu/prompt.py": {"mininet", "select"},
    "emu/replay/agent.py": {"select", "time"},
    "emu/replay/aggregating.py": {"select", "socket", "time"},
    "emu/replay/wiring.py": {"socket"},
    "emu/replay/connection.py": {"socket"},
    "emu/replay/fleet.py": {"multiprocessing", "os", "signal", "time"},
    # Captures of training jobs, and the jobs.
    "emu/capturing/finish.py": {"subprocess"},
    "emu/capturing/hosts.py": {"os", "subprocess"},
    "emu/capturing/job.py": {"os", "signal", "subprocess", "time"},
    "emu/capturing/manifest.py": {"os", "subprocess"},
    "emu/capturing/run.py": {"select", "subprocess", "time"},
    "emu/training/__main__.py": {"os", "torch"},
    "emu/training/ddp.py": {"torch"},
    "emu/training/eventlog.py": {"time"},
    "emu/training/models.py": {"torch"},
    "emu/training/ps.py": {"torch"},
    "emu/training/slowness.py": {"time"},
    # Packets injected as they were recorded.
    "emu/network/tcpdump.py": {"signal", "time"},
    "emu/inject/sender.py": {"ctypes", "os", "socket", "time"},
    "emu/inject/session.py": {"os", "subprocess", "time"},
    # The switch: its process, and the wire format as os-ken spells it.
    "emu/switch/agent.py": {"signal"},
    "emu/switch/plane/bpf.py": {"ctypes", "os"},
    "emu/switch/server/connection.py": {"selectors", "socket"},
    "emu/switch/plane/dataplane.py": {"socket", "subprocess", "time"},
    "emu/switch/plane/links.py": {"socket"},
    "emu/mn.py": {"mininet"},
    "emu/switch/node.py": {"mininet"},
    "emu/switch/stock.py": {"time"},
    "emu/switch/wire/openflow13.py": {"os_ken"},
    "emu/switch/ovs.py": {"os", "subprocess", "time"},
    "emu/switch/plane/qdisc.py": {"socket"},
    "emu/switch/plane/sending.py": {"socket"},
    "emu/switch/server/serving.py": {"selectors", "time"},
    # The command line.
    "tools/__main__.py": {"signal"},
    "tools/capturing.py": {"time"},
    "tools/carry.py": {"time"},
    "tools/commands/controller.py": {"os"},
    "tools/commands/setup.py": {"os"},
    "tools/commands/test.py": {"os", "subprocess"},
    "tools/commands/up.py": {"signal", "subprocess"},
    "tools/dissect/scapy_layer.py": {"scapy"},
    "tools/exits.py": {"os", "select"},
    "tools/machine.py": {"ctypes", "os", "subprocess"},
}
MODULES = [
    path.relative_to(ROOT).as_posix() for package in BELOW for path in sorted((ROOT / package).rglob("*.py"))
]


def imports(source: str) -> Iterator[str]:
    """The top-level packages that a module imports, wherever in it that is written."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = (node.module or "").partition(".")[0]
            if node.level or not all((package, alias.name) in HARMLESS for alias in node.names):
                yield package if not node.level else "."


def forbidden(module: str, source: str) -> set[str]:
    """What `module`, a path in the repository, imports without being allowed to."""
    package = module.partition("/")[0]
    used = set(imports(source))
    upward = used & (set(BELOW) | {"tests", "benchmarks", "."}) - BELOW[package] - {package}
    return upward | (used & WORLD - EDGES.get(module, set()))


@pytest.mark.parametrize("module", MODULES)
def test_module_imports_only_what_its_layer_allows(module: str) -> None:
    assert forbidden(module, (ROOT / module).read_text()) == set()


@pytest.mark.parametrize("module", EDGES)
def test_an_edge_is_listed_only_with_what_it_uses(module: str) -> None:
    assert EDGES[module] <= set(imports((ROOT / module).read_text()))


@pytest.mark.parametrize(
    ("module", "line", "reason"),
    [
        ("traces/packets/streams.py", "from emu.fabrics.fabric import Fabric", "emu"),
        ("emu/plan.py", "import controller.resolve", "controller"),
        ("controller/model/loads.py", "from tools import cli", "tools"),
        ("tools/cli.py", "from tests.conftest import left_out", "tests"),
        ("traces/packets/streams.py", "import time", "time"),
        ("emu/placement.py", "from random import Random, shuffle", "random"),
        ("emu/network/net.py", "import signal", "signal"),
        ("controller/model/loads.py", "def f():\n    import os.path", "os"),
        ("emu/plan.py", "from . import fabric", "."),
        ("emu/plan.py", "from .fabric import Fabric", "."),
    ],
)
def test_a_forbidden_import_is_noticed(module: str, line: str, reason: str) -> None:
    assert forbidden(module, line) == {reason}


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("emu/plan.py", "from traces.schedules.schedule import Send"),
        ("controller/model/loads.py", "import emu.fabrics.fabric, traces.units"),
        ("emu/placement.py", "from random import Random"),
        ("emu/switch/plane/bpf.py", "import ctypes"),
    ],
)
def test_an_allowed_import_passes(module: str, line: str) -> None:
    assert forbidden(module, line) == set()
