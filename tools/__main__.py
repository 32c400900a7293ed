"""python -m gradwire.tools COMMAND...: the program that ./gradwire starts."""

import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from gradwire.tools.exits import report
from gradwire.traces.memory import left_by_limits_nbytes

# New objects after which Python looks for unreachable ones.  Nearly all of a command's, its modules to begin
# with, live to its end; to walk them after every 700 took 6 % of an inspect, after every 100,000 a twentieth
# of one of 65,000 connections.
COLLECT_AFTER = 1_000_000
# What numpy 2.4 takes of the address space when it is imported, with one thread: 83 MiB, measured.
_NUMPY_NBYTES = 96 << 20


class _NumpyWithinLimits(MetaPathFinder):
    """Called before numpy is loaded, whose OpenBLAS reserves 40 MiB for each thread and ends the process with
    its own message where a limit refuses them.

    Where this process has a limit, OpenBLAS gets one thread (set in the environment, so child processes get
    it too); where there is still too little room, `find_spec` raises MemoryError.
    """

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Raise MemoryError where there is too little room; it finds no module itself."""
        if name == "numpy" and (left := left_by_limits_nbytes()) is not None:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            if left < _NUMPY_NBYTES:
                raise MemoryError
        return None


def main(arguments: Sequence[str]) -> None:
    """Carry out a command.  It is imported here, so that a Ctrl-C meanwhile ends it in one line, too."""
    from gradwire.tools.cli import main as carry_out

    carry_out(arguments)


def run() -> None:
    gc.set_threshold(COLLECT_AFTER)
    sys.meta_path.insert(0, _NumpyWithinLimits())
    if sys.stderr is None:  # closed by whoever started us; the next file would become it
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - open as long as the process is
    faulthandler.enable()  # a crash in compiled code says where, as a bug in ours does
    # A polite kill takes everything down as Ctrl-C does: what was started is stopped on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    try:
        main(sys.argv[1:])
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - outside a command, e.g. importing it
        sys.exit(report(error))


if __name__ == "__main__":
    run()
