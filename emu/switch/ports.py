"""Which interfaces are the ports of which switch: the input of the switch agent.

File form: `{"switches": [{"name", "dpid", "loss_seed", "ports": [{"port", "interface", "rate_bps", "rx_loss",
"tx_loss"}]}]}`, where the seed and the losses may be missing: nothing is lost.  It is checked by hand:
pydantic would take half of the time in which the agent starts.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from gradwire.planning.fabrics.fabric import MAX_INTERFACE_NAME

MAX_SWITCHES = 4096
MAX_PORTS = 16384  # of all switches; the size of switch.c's map
MAX_SWITCH_PORTS = 1024  # of one switch
MAX_PORT_NUMBER = 0xFFFFFF00  # OFPP_MAX
_MAX_NAME = 64
T = TypeVar("T")
_NAME = re.compile(r"[^\s/]+")  # of a file, too


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """`rx_loss` of the packets that come in here, `tx_loss` of those that go out are lost on the way."""

    port: int
    interface: str
    rate_bps: int
    rx_loss: float = 0.0
    tx_loss: float = 0.0


@dataclass(frozen=True, slots=True)
class SwitchPorts:
    """`loss_seed` decides which packets are lost, at each port by draws of its own."""

    name: str
    dpid: int
    ports: tuple[SwitchPort, ...]
    loss_seed: int = 0


def load(path: Path) -> tuple[SwitchPorts, ...]:
    """Raise ValueError, in one line, for a file that is not a list of switches."""
    try:
        file = json.loads(path.read_bytes())
        switches = _each(_fields(file, {"switches": None}, "the file")["switches"], _switch, "switches")
        if not 1 <= len(switches) <= MAX_SWITCHES:
            raise ValueError(f"switches: there must be at least 1, and at most {MAX_SWITCHES}")
    except (ValueError, RecursionError) as error:  # also of bytes that are not UTF-8, or not JSON
        raise ValueError(f"{path}: not a list of switches: {error}") from error
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


def _switch(value: Any, where: str) -> SwitchPorts:
    given = _fields(value, {"name": None, "dpid": None, "ports": None, "loss_seed": 0}, where)
    ports = _each(given["ports"], _port, f"{where}.ports")
    if len(ports) > MAX_SWITCH_PORTS:
        raise ValueError(f"{where}.ports: a switch has at most {MAX_SWITCH_PORTS} ports")
    return SwitchPorts(
        _name(given["name"], _MAX_NAME, f"{where}.name"),
        _whole(given["dpid"], 1, 2**64 - 1, f"{where}.dpid"),
        ports,
        _whole(given["loss_seed"], 0, 2**32 - 1, f"{where}.loss_seed"),
    )


def _port(value: Any, where: str) -> SwitchPort:
    required = {"port": None, "interface": None, "rate_bps": None}
    given = _fields(value, {**required, "rx_loss": 0.0, "tx_loss": 0.0}, where)
    return SwitchPort(
        _whole(given["port"], 1, MAX_PORT_NUMBER, f"{where}.port"),
        _name(given["interface"], MAX_INTERFACE_NAME, f"{where}.interface"),
        _whole(given["rate_bps"], 0, None, f"{where}.rate_bps"),
        _ratio(given["rx_loss"], f"{where}.rx_loss"),
        _ratio(given["tx_loss"], f"{where}.tx_loss"),
    )


def _fields(value: Any, defaults: dict[str, Any], where: str) -> dict[str, Any]:
    """An object's fields, with defaults for what may be missing; None marks what may not."""
    if not isinstance(value, dict):
        raise ValueError(f"{where}: must be an object")
    given = {**defaults, **value}
    for name, each in given.items():
        if name not in defaults:
            raise ValueError(f"{where}: there is no field {name!r}")
        if each is None:
            raise ValueError(f"{where}: {name} is missing")
    return given


def _each(value: Any, read: Callable[[Any, str], T], where: str) -> tuple[T, ...]:
    if not isinstance(value, list):
        raise ValueError(f"{where}: must be a list")
    return tuple(read(each, f"{where}.{number}") for number, each in enumerate(value))


def _whole(value: Any, least: int, most: int | None, where: str) -> int:
    if type(value) is not int or value < least or (most is not None and value > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{where}: must be a whole number {bounds}")
    return value


def _ratio(value: Any, where: str) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1:  # NaN is not
        raise ValueError(f"{where}: must be a number from 0 to 1")
    return float(value)


def _name(value: Any, most: int, where: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= most or not _NAME.fullmatch(value):
        raise ValueError(f"{where}: must be 1 to {most} characters, no spaces and no slashes")
    return value
