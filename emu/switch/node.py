"""gradwire's switch as Mininet sees it: a node whose forwarding is not Mininet's to start."""

from typing import Any

from mininet.node import Switch


class GradwireSwitch(Switch):
    """A switch whose ports run the tc program of `emu.switch.agent`.

    One agent serves all switches of a network, so starting and stopping a single one does nothing;
    the network starts the agent once its links exist.  The dpid must be given: Mininet's default
    takes the digits of the name, and `agg0` and `core0` would be one.
    """

    def __init__(self, name: str, dpid: str, **parameters: Any) -> None:
        super().__init__(name, dpid=dpid, **parameters)

    def start(self, controllers: list[Any]) -> None:
        """Nothing to do: `emu.switch.running` has the agent."""

    def connected(self) -> bool:
        """True: `emu.session` waits for the controller's `ready`, said once all switches have answered."""
        return True
