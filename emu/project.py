"""Paths of the project's own files."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
SWITCH_OBJECT = PROJECT / "emu" / "switch" / "build" / "switch.o"  # made by emu/switch/compile.sh
RYU_PYTHON = PROJECT / ".venv-ryu" / "bin" / "python"  # made by gradwire setup --ryu
WORKER_LIBRARY = PROJECT / "emu" / "aggregation" / "build" / "libworker.so"  # by emu/aggregation/compile.sh
RANK_LIBRARY = PROJECT / "emu" / "replay" / "build" / "librank.so"  # by emu/replay/compile.sh
SIMGRID_DRIVER = PROJECT / "emu" / "simgrid" / "build" / "driver"  # made by gradwire setup --simgrid
