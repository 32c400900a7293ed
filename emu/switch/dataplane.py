"""The tc-BPF data plane of all switches of a fabric: attached to their ports, written and read.

Edge module: loads the program, runs `tc` once, reads interfaces.
"""

import fcntl
import socket
import struct
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from emu.flowhash import switch_salt
from emu.switch.bpf import BpfError, BpfObject
from emu.switch.counters import Received, Transmitted
from emu.switch.entries import Operation
from emu.switch.maps import PROGRAM, Maps
from emu.switch.ports import SwitchPorts
from emu.switch.qdisc import netlink_socket, transmitted

_SIOCGIFHWADDR, _SIOCGIFFLAGS = 0x8927, 0x8913
_IFF_RUNNING = 0x40
_TC_S = 30


class DataPlane:
    """Where the sessions' operations go, and their instruments."""

    def __init__(self, switches: Iterable[SwitchPorts], loaded: BpfObject, seed: int) -> None:
        """Raise OSError for a port whose interface does not exist here."""
        indices = {name: index for index, name in socket.if_nameindex()}
        self._maps = Maps(loaded)
        self._netlink = netlink_socket()
        self._ifindex: dict[str, int] = {}
        self._counter: dict[str, int] = {}
        self._ports: dict[int, tuple[int, dict[int, int]]] = {}
        for switch_index, switch in enumerate(switches):
            salt = switch_salt(switch.dpid, seed)
            for port in switch.ports:
                if port.interface not in indices:
                    raise OSError(f"switch {switch.name}: there is no interface {port.interface} here")
                ifindex = indices[port.interface]
                self._counter[port.interface] = counter = len(self._counter)
                self._ifindex[port.interface] = ifindex
                self._maps.add_port(ifindex, switch_index, salt, counter)
            numbered = {port.port: indices[port.interface] for port in switch.ports}
            self._ports[switch.dpid] = switch_index, numbered

    def apply(self, dpid: int, operation: Operation) -> None:
        self._maps.apply(*self._ports[dpid], operation)

    def flow_counts(self, flow: int) -> tuple[int, int]:
        return self._maps.flow_counts(flow)

    def received(self, interface: str) -> Received:
        return self._maps.received(self._counter[interface])

    def transmitted(self, interface: str) -> Transmitted | None:
        return transmitted(self._netlink, self._ifindex[interface])

    def link(self, interface: str) -> tuple[bytes, bool]:
        """MAC address and whether the cable is up; all zero and down for an interface that has gone."""
        request = struct.pack("16s24x", interface.encode())
        try:
            mac = fcntl.ioctl(self._netlink, _SIOCGIFHWADDR, request)[18:24]
            (flags,) = struct.unpack_from("=H", fcntl.ioctl(self._netlink, _SIOCGIFFLAGS, request), 16)
        except OSError:
            return bytes(6), False
        return mac, bool(flags & _IFF_RUNNING)

    def now_ns(self) -> int:
        return time.monotonic_ns()


@contextmanager
def attached(
    switches: tuple[SwitchPorts, ...], object_path: Path, pin: Path, seed: int
) -> Iterator[DataPlane]:
    """Every port runs the program while this is open, and drops what no rule sends on.

    The program stays attached afterwards, as rules stay in a switch whose controller has gone; it
    goes with the interfaces.  Only the pinned path is taken away.  Raise BpfError or OSError.
    """
    with BpfObject(object_path) as loaded:
        plane = DataPlane(switches, loaded, seed)
        loaded.pin_program(PROGRAM, pin)
        try:
            _attach([port.interface for switch in switches for port in switch.ports], pin)
            yield plane
        finally:
            pin.unlink()


def _attach(interfaces: list[str], pin: Path) -> None:
    """One `tc` for all: a process per port would take seconds on a large fabric."""
    commands = [
        f"qdisc add dev {name} clsact\nfilter add dev {name} ingress bpf da object-pinned {pin}\n"
        for name in interfaces
    ]
    done = subprocess.run(
        ["tc", "-batch", "-"],
        input="".join(commands),
        capture_output=True,
        text=True,
        timeout=_TC_S,
        check=False,
    )
    if done.returncode:
        raise BpfError(f"tc cannot attach the switch program: {' / '.join(done.stderr.split(chr(10))[:2])}")
