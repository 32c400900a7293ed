"""Paths of the project's own files, and what tells two versions of them apart."""

import hashlib
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
SWITCH_OBJECT = PROJECT / "emu" / "switch" / "build" / "switch.o"  # made by emu/switch/compile.sh
RYU_PYTHON = PROJECT / ".venv-ryu" / "bin" / "python"  # made by gradwire setup --ryu
WORKER_LIBRARY = PROJECT / "emu" / "aggregation" / "build" / "libworker.so"  # by emu/aggregation/compile.sh
RANK_LIBRARY = PROJECT / "emu" / "replay" / "build" / "librank.so"  # by emu/replay/compile.sh
SIMGRID_DRIVER = PROJECT / "emu" / "engines" / "build" / "simgrid"  # made by gradwire setup --simgrid
NS3_DRIVER = PROJECT / "emu" / "engines" / "build" / "ns3"  # made by gradwire setup --ns3
_CARRYING = ("traces", "planning", "emu", "controller")
_SOURCES = (".py", ".c", ".h", ".cpp", ".sh")


@cache
def source_digest() -> str:
    """Of all code that takes part in a run."""
    digest = hashlib.sha256()
    for folder in _CARRYING:
        for path in sorted((PROJECT / folder).rglob("*")):
            if path.suffix in _SOURCES:
                digest.update(f"{path.relative_to(PROJECT)}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
