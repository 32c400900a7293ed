"""The tc-BPF data plane of all switches of a fabric: attaches it to their ports, writes and reads it.

Edge module: loads the program, runs `tc` once, reads the clock, takes interfaces up and down.
"""

import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gradwire.emu.kernel.queues import Transmitted, transmitted
from gradwire.emu.kernel.rtnetlink import carry_out, link_down, link_up, netlink_socket
from gradwire.emu.switch.plane.bpf import BpfError, BpfObject
from gradwire.emu.switch.plane.counters import InterfaceState, Received
from gradwire.emu.switch.plane.links import GONE, LinkWatch
from gradwire.emu.switch.plane.maps import PROGRAM, Maps, PortState
from gradwire.emu.switch.plane.packets import Sender, packet_in
from gradwire.emu.switch.ports import SwitchPort, SwitchPorts
from gradwire.emu.switch.table.planeoperations import EnablePort, Operation, SendPacket
from gradwire.planning.flowhash import switch_salt
from gradwire.planning.openflow.entries import PacketIn, PortChanged
from gradwire.planning.openflow.pool import Event

_ADDS_UP = ".rodata.adds_up"  # a word of switch.c
_TC_S = 30
_MAX_U32 = 2**32 - 1


@dataclass(frozen=True)
class _Switch:
    """What the data plane knows of a switch."""

    index: int
    salt: int
    interfaces: Mapping[int, str]  # by port
    ifindex: Mapping[int, int]


class DataPlane:
    """Where the sessions' operations go, and their instruments."""

    def __init__(self, switches: Iterable[SwitchPorts], loaded: BpfObject, seed: int) -> None:
        """Raise OSError for a port whose interface does not exist here."""
        indices = {name: index for index, name in socket.if_nameindex()}
        self.ring = loaded.ring("packet_ins")
        self.watch = LinkWatch()
        self._maps = Maps(loaded)
        self._sender = Sender(loaded)
        self._netlink = netlink_socket()
        self._ifindex: dict[str, int] = {}
        self._switches: dict[int, _Switch] = {}
        self._dpids: list[int] = []
        # By interface.
        self._ports: dict[int, PortState] = {}
        self._places: dict[int, tuple[int, int]] = {}  # (dpid, port)
        self._links: dict[int, InterfaceState] = {}
        for switch in switches:
            self._add(switch, indices, seed)
        self.link_changes()

    def _add(self, switch: SwitchPorts, indices: Mapping[str, int], seed: int) -> None:
        for port in switch.ports:
            if port.interface not in indices:
                raise OSError(f"switch {switch.name}: this namespace has no interface {port.interface}")
        added = _Switch(
            index=len(self._switches),
            salt=switch_salt(switch.dpid, seed),
            interfaces={port.port: port.interface for port in switch.ports},
            ifindex={port.port: indices[port.interface] for port in switch.ports},
        )
        self._switches[switch.dpid] = added
        self._dpids.append(switch.dpid)
        self._maps.set_switch_ports(added.index, added.ifindex.values())
        for port in switch.ports:
            ifindex = added.ifindex[port.port]
            self._ifindex[port.interface] = ifindex
            self._places[ifindex] = switch.dpid, port.port
            state = PortState(added.index, port.port, added.salt, counter=len(self._ports), is_live=False)
            self._ports[ifindex] = _losing(state, switch, port)
            self._set_port(ifindex, GONE)

    def apply(self, dpid: int, operation: Operation) -> None:
        switch = self._switches[dpid]
        if isinstance(operation, SendPacket):
            words = switch.index, switch.salt
            self._sender.send(operation, switch.interfaces, switch.ifindex, words)
        elif isinstance(operation, EnablePort):
            self._enable(switch.interfaces[operation.port], operation.is_enabled)
        else:
            self._maps.apply(switch.index, switch.ifindex, operation)

    def link_changes(self) -> list[tuple[int, PortChanged]]:
        """(dpid, event) of the ports that have gone up or down; the data plane knows it already."""
        changed = []
        for ifindex, link in self.watch.changes():
            if ifindex in self._places and link != self._links[ifindex]:
                self._set_port(ifindex, link)
                dpid, port = self._places[ifindex]
                changed.append((dpid, PortChanged(port)))
        return changed

    def packet_ins(self, most: int) -> list[tuple[int, PacketIn]]:
        """(dpid, packet) of what has come for controllers, `most` at a time."""
        packets = [packet_in(record) for record in self.ring.records(most)]
        return [(self._dpids[switch_index], packet) for switch_index, packet in packets]

    def flow_counts(self, flow: int) -> tuple[int, int]:
        return self._maps.flow_counts(flow)

    def group_counts(self, counter: int, n_buckets: int) -> list[tuple[int, int]]:
        return self._maps.group_counts(counter, n_buckets)

    def pool_counts(self, pool: int) -> Mapping[Event, int]:
        return self._maps.pool_counts(pool)

    def received(self, interface: str) -> Received:
        return self._maps.received(self._ports[self._ifindex[interface]].counter)

    def transmitted(self, interface: str) -> Transmitted | None:
        return transmitted(self._netlink, self._ifindex[interface])

    def link(self, interface: str) -> InterfaceState:
        return self._links[self._ifindex[interface]]

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def _set_port(self, ifindex: int, link: InterfaceState) -> None:
        self._links[ifindex] = link
        self._maps.set_port(ifindex, self._ports[ifindex]._replace(is_live=link.is_up))

    def _enable(self, interface: str, is_enabled: bool) -> None:
        """As `ip link set up` or `down`; the change comes back through `link_changes`."""
        with suppress(OSError):  # an interface that has gone stays down
            carry_out([(link_up if is_enabled else link_down)(self._ifindex[interface])])


def _losing(state: PortState, switch: SwitchPorts, port: SwitchPort) -> PortState:
    """With the losses of the port, drawn by a seed of its own."""
    return state._replace(
        rx_loss=min(round(port.rx_loss * 2**32), _MAX_U32),
        tx_loss=min(round(port.tx_loss * 2**32), _MAX_U32),
        loss_seed=switch_salt(port.port, switch_salt(switch.dpid, switch.loss_seed)),
        switch_loses=any(each.tx_loss for each in switch.ports),
    )


@contextmanager
def attached(
    switches: tuple[SwitchPorts, ...], object_path: Path, pin: Path, seed: int, adds_up: bool = True
) -> Iterator[DataPlane]:
    """Every port runs the program while this is open, and drops what no rule sends on.

    The program stays attached afterwards, as rules stay in a switch whose controller has gone; it
    goes with the interfaces.  Only the pinned path is taken away.  Without `adds_up` no rule may add
    packets up.  Raise BpfError or OSError.
    """
    constants = {} if adds_up else {_ADDS_UP: bytes(4)}
    with BpfObject(object_path, constants) as loaded:
        plane = DataPlane(switches, loaded, seed)
        loaded.pin_program(PROGRAM, pin)
        try:
            _attach([port.interface for switch in switches for port in switch.ports], pin)
            yield plane
        finally:
            plane.ring.close()
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
