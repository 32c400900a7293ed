"""gradwire's switch for any Mininet: `Mininet(topo, switch=GradwireSwitch, controller=RemoteController)`."""

from collections.abc import Sequence
from typing import Any

from mininet.node import Switch

from emu.switch.stock import StockAgent


class GradwireSwitch(Switch):
    """A switch whose ports run the tc program of `emu.switch.agent`.

    Mininet starts the switches of a topology in one batch, for which one agent is enough; a switch that
    is started alone has an agent of its own.
    """

    def __init__(self, name: str, dpid: str | None = None, batch: bool = False, **parameters: Any) -> None:
        """`batch`: `batchStartup` will follow `start`; Mininet says so of switches of a topology."""
        super().__init__(name, dpid=dpid, **parameters)
        self.agent: StockAgent | None = None
        self.controllers: list[str] = []
        self._is_batched = batch

    def start(self, controllers: list[Any]) -> None:
        """Raise RunFailed if the data plane cannot be attached."""
        self.controllers = [f"{controller.IP()}:{controller.port}" for controller in controllers]
        if not self._is_batched:
            self.agent = StockAgent([self.listed()], self.controllers)

    @classmethod
    def batchStartup(cls, switches: Sequence["GradwireSwitch"]) -> Sequence["GradwireSwitch"]:
        """One agent for those of the switches that have none of their own."""
        waiting = [switch for switch in switches if switch.agent is None]
        if waiting:
            agent = StockAgent([switch.listed() for switch in waiting], waiting[0].controllers)
            for switch in waiting:
                switch.agent = agent
        return switches

    @classmethod
    def batchShutdown(cls, switches: Sequence["GradwireSwitch"]) -> Sequence["GradwireSwitch"]:
        for switch in switches:
            switch.stop()
        return switches

    def stop(self, deleteIntfs: bool = True) -> None:
        """Ends its agent, which may have been that of other switches as well: Mininet stops all of them."""
        if self.agent:
            self.agent.end()
            self.agent = None
        super().stop(deleteIntfs)

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
