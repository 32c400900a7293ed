"""The switch agent under a Mininet that knows nothing of it; waits for controllers as long as it takes."""

import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from emu.interpreter import python
from emu.project import SWITCH_OBJECT
from emu.watch import Child, RunFailed, Watch, running

_ATTACH_S = 60.0
_RULES_S = 0.5  # in which a controller that has all switches tells them their rules
# Its BPF objects are in a file system of its own, which goes when it does; and it goes when Mininet does.
_ALONE = ["setpriv", "--pdeathsig", "TERM", "unshare", "--mount", "--", "sh", "-c"]
_THERE = 'mount -t bpf bpf /sys/fs/bpf && exec "$@"'


class StockAgent:
    """The process; `listed` are the switches in the form of `emu.switch.ports`."""

    def __init__(self, listed: Sequence[dict[str, object]], controllers: Sequence[str]) -> None:
        """Returns when the ports forward; a controller is HOST:PORT.  Raise RunFailed."""
        self._stack = ExitStack()
        self._child: Child | None = None
        self._connected_s: float | None = None
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gradwire-")))
            (folder / "ports.json").write_text(json.dumps({"switches": listed}))
            agent = python("emu.switch.agent", str(folder / "ports.json"))
            agent += ["--object", str(SWITCH_OBJECT), "--patience", "0"]
            for address in controllers:
                agent += ["--controller", address]
            command = [*_ALONE, _THERE, "sh", *agent]
            child = running("the switch agent", command, folder / "agent.log")
            self._child = stack.enter_context(child)
            self._child.await_line("attached", _ATTACH_S, Watch())
            self._stack = stack.pop_all()

    def end(self) -> None:
        self._child = None
        self._stack.close()

    def is_connected(self) -> bool:
        """Raise RunFailed if the process has ended."""
        if self._connected_s is None and self._child:
            try:
                self._child.await_line("connected", 0.01, Watch())
            except RunFailed:
                if self._child.process.poll() is not None:
                    raise
                return False
            self._connected_s = time.monotonic()
        return self._connected_s is not None and time.monotonic() - self._connected_s > _RULES_S
