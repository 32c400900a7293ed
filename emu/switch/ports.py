"""Which interfaces are the ports of which switch: the input of the switch agent.

File form: `{"switches": [{"name", "dpid", "loss_seed", "ports": [{"port", "interface", "rate_bps", "rx_loss",
"tx_loss"}]}]}`, where the seed and the losses may be missing: nothing is lost.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from gradwire.planning.fabrics.fabric import MAX_INTERFACE_NAME

MAX_SWITCHES = 4096
MAX_PORTS = 16384  # of all switches; the size of switch.c's map
MAX_SWITCH_PORTS = 1024  # of one switch
MAX_PORT_NUMBER = 0xFFFFFF00  # OFPP_MAX


Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """`rx_loss` of the packets that come in here, `tx_loss` of those that go out are lost on the way."""

    port: Annotated[int, Field(ge=1, le=MAX_PORT_NUMBER)]
    interface: Annotated[str, Field(min_length=1, max_length=MAX_INTERFACE_NAME, pattern=r"^[^\s/]+$")]
    rate_bps: Annotated[int, Field(ge=0)]
    rx_loss: Ratio = 0.0
    tx_loss: Ratio = 0.0


@dataclass(frozen=True, slots=True)
class SwitchPorts:
    """`loss_seed` decides which packets are lost, at each port by draws of its own."""

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\s/]+$")]  # of a file, too
    dpid: Annotated[int, Field(ge=1, lt=2**64)]
    ports: Annotated[tuple[SwitchPort, ...], Field(max_length=MAX_SWITCH_PORTS)]
    loss_seed: Annotated[int, Field(ge=0, lt=2**32)] = 0


@dataclass(frozen=True, slots=True)
class SwitchList:
    switches: Annotated[tuple[SwitchPorts, ...], Field(min_length=1, max_length=MAX_SWITCHES)]


def load(path: Path) -> tuple[SwitchPorts, ...]:
    """Raise ValueError, in one line, for a file that is not a list of switches."""
    try:
        switches = TypeAdapter(SwitchList).validate_json(path.read_bytes()).switches
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{path}: not a list of switches: {where}: {first['msg']}") from error
    keys: tuple[tuple[str, list[object]], ...] = (
        ("dpid", [switch.dpid for switch in switches]),
        ("interface", [port.interface for switch in switches for port in switch.ports]),
        ("dpid, port", [(switch.dpid, port.port) for switch in switches for port in switch.ports]),
    )
    for what, values in keys:
        if len(set(values)) != len(values):
            twice = next(value for value in values if values.count(value) > 1)
            raise ValueError(f"{path}: not a list of switches: {what} {twice} is listed twice")
        if len(values) > MAX_PORTS:
            raise ValueError(f"{path}: it lists {len(values)} ports; the switch has room for {MAX_PORTS}")
    return switches
