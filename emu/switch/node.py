"""gradwire's switch for any Mininet: `Mininet(topo, switch=GradwireSwitch, controller=RemoteController)`.

One agent serves all switches of such a network, and waits for controllers as long as it takes.
"""

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from mininet.node import Switch

from gradwire.emu.interpreter import python
from gradwire.emu.project import SWITCH_OBJECT
from gradwire.emu.switch.ofctl import Answer, asked, order, shell_function
from gradwire.emu.watch import ChildProcess, RunFailed, Watch, running

_ATTACH_S = 60.0
_LED_S = 5.0  # in which a switch that starts finds its controller
_POLL_S = 0.05
_RULES_S = 0.5  # in which a controller that has all switches tells them their rules
# Its BPF objects are in a file system of its own, which goes when it does; and it goes when Mininet does.
_ALONE = ["setpriv", "--pdeathsig", "TERM", "unshare", "--mount", "--", "sh", "-c"]
_THERE = 'mount -t bpf bpf /sys/fs/bpf && exec "$@"'
Power = Callable[[str, str], None]
"""Called with `stop` or `start` and the name of a switch.  Raises OSError or ValueError."""


class GradwireSwitch(Switch):
    """A switch whose ports run the tc program of `emu.switch.agent`.

    Mininet starts the switches of a topology in one batch, for which one agent is enough; a switch that
    is started alone has an agent of its own.
    """

    def __init__(self, name: str, dpid: str | None = None, batch: bool = False, **parameters: Any) -> None:
        """`batch`: `batchStartup` will follow `start`; Mininet says so of switches of a topology."""
        super().__init__(name, dpid=dpid, **parameters)
        self.agent: StockAgent | None = None
        self.management: Path | None = None  # the folder in which `emu.switch.ofctl` finds it
        self.power: Power | None = None
        self.controllers: list[str] = []
        self._is_batched = batch

    def start(self, controllers: list[Any]) -> None:
        """Begin, or go on after `stop(deleteIntfs=False)`.

        Raise RunFailed if the data plane cannot be attached, OSError if the agent has gone.
        """
        if self.power:
            self.power("start", self.name)
            return
        self.controllers = [f"{controller.IP()}:{controller.port}" for controller in controllers]
        if not self._is_batched:
            self.serve_by(StockAgent([self.listed()], self.controllers))

    @classmethod
    def batchStartup(cls, switches: Sequence["GradwireSwitch"]) -> Sequence["GradwireSwitch"]:
        """One agent for those of the switches that have none of their own."""
        waiting = [switch for switch in switches if switch.agent is None]
        if waiting:
            agent = StockAgent([switch.listed() for switch in waiting], waiting[0].controllers)
            for switch in waiting:
                switch.serve_by(agent)
        return switches

    @classmethod
    def batchShutdown(cls, switches: Sequence["GradwireSwitch"]) -> Sequence["GradwireSwitch"]:
        for switch in switches:
            switch.stop()
        return switches

    def stop(self, deleteIntfs: bool = True) -> None:
        """Take the power from this switch, as the prompt's `switch NAME stop` does, if its interfaces stay.

        Else end its agent, which may have been that of other switches as well: Mininet stops all of them.
        """
        if self.power and not deleteIntfs:
            self.power("stop", self.name)
            return
        if self.agent:
            self.agent.end()
            self.agent = self.power = self.management = None
        super().stop(deleteIntfs)

    def dpctl(self, *words: str) -> str:
        """What `ovs-ofctl WORDS` says of this switch, errors as well: for Mininet's prompt."""
        return self.ask(words).text

    def ask(self, words: Sequence[str]) -> Answer:
        """The same, and what went wrong."""
        assert self.management, f"{self.name} has not been started"
        return asked(self.management, self.name, words)

    def serve_by(self, agent: "StockAgent") -> None:
        """From now on this agent does its work."""
        self.agent, self.management, self.power = agent, agent.folder, agent.power
        self.cmd(shell_function(agent.folder, self.name))

    def connected(self) -> bool:
        """True once the switches of its agent have a controller, and that has had time for their rules."""
        return self.agent is not None and self.agent.is_connected()

    def listed(self) -> dict[str, object]:
        """The switch as the agent's list of ports names it (`emu.switch.ports`)."""
        return {
            "name": self.name,
            "dpid": int(self.dpid, 16),
            "ports": [
                {"port": port, "interface": intf.name, "rate_bps": int((intf.params.get("bw") or 0) * 1e6)}
                for port, intf in sorted(self.intfs.items())
                if port  # 0 is the loopback
            ],
        }


class StockAgent:
    """The process; `listed` are the switches in the form of `emu.switch.ports`."""

    def __init__(self, listed: Sequence[dict[str, object]], controllers: Sequence[str]) -> None:
        """Returns when the ports forward; a controller is HOST:PORT.  Raise RunFailed."""
        self._stack = ExitStack()
        self._child: ChildProcess | None = None
        self._connected_s: float | None = None
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gradwire-")))
            self.folder = folder
            (folder / "ports.json").write_text(json.dumps({"switches": listed}))
            agent = python("gradwire.emu.switch.agent", str(folder / "ports.json"))
            agent += ["--object", str(SWITCH_OBJECT), "--patience", "0"]
            for address in controllers:
                agent += ["--controller", address]
            agent += ["--management", str(folder)]
            command = [*_ALONE, _THERE, "sh", *agent]
            child = running("the switch agent", command, folder / "agent.log")
            self._child = stack.enter_context(child)
            self._child.await_line("attached", _ATTACH_S, Watch())
            self._stack = stack.pop_all()

    def end(self) -> None:
        self._child = None
        self._stack.close()

    def power(self, verb: str, switch: str) -> None:
        """`stop` or `start` one of its switches; one that starts is given some seconds for its rules.

        Raise OSError or ValueError.
        """
        order(self.folder, verb, switch)
        if verb == "start":
            self._await_controller(switch)
            time.sleep(_RULES_S)

    def _await_controller(self, switch: str) -> None:
        deadline_s = time.monotonic() + _LED_S
        while True:
            try:
                order(self.folder, "led", switch)
                return
            except ValueError:
                if time.monotonic() > deadline_s:
                    raise
            time.sleep(_POLL_S)

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
