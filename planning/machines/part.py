"""What one of several machines builds of a fabric: its nodes, and its ends of the tunnels to the others.

A cable that joins nodes of two machines is a VXLAN tunnel (RFC 7348) of two ends, one on each; each end is
the interface that the port would have anyway.  One more tunnel leads from the machine that runs the command
to each other one: through it the switches there reach the controller.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.planning.fabrics.fabric import Egress, Fabric, interface
from gradwire.planning.machines.machinesfile import MAX_MACHINES, Machine, Machines
from gradwire.planning.machines.partition import Partition

MAX_VNI = (1 << 24) - 1  # a VXLAN network identifier has 24 bits (RFC 7348, section 5)
_CONTROL = "169.254.71.{}"  # link-local addresses (RFC 3927), of the machines in their order from 1


@dataclass(frozen=True, slots=True)
class Tunnel:
    """The end here: the interface's name, the tunnel's number, the other machine's address."""

    interface: str
    vni: int
    far: str


@dataclass(frozen=True, slots=True)
class Control:
    """A tunnel that carries OpenFlow, with the address of either end inside it."""

    tunnel: Tunnel
    near_ip: str
    far_ip: str


@dataclass(frozen=True)
class Part:
    """`address` is the machine's own on the network between the machines; the controller listens at
    `controller_ip`.  A machine that does not run the command has one of `controls`.
    """

    machine: str
    address: str
    nodes: frozenset[str]
    tunnels: tuple[Tunnel, ...]
    controls: tuple[Control, ...]
    controller_ip: str

    @property
    def runs_controller(self) -> bool:
        return any(control.near_ip == self.controller_ip for control in self.controls)

    def hosts(self, fabric: Fabric) -> tuple[str, ...]:
        """Those that live here, in the fabric's order."""
        return tuple(host for host in fabric.hosts if host in self.nodes)

    def switches(self, fabric: Fabric) -> tuple[str, ...]:
        """Likewise."""
        return tuple(switch for switch in fabric.switches if switch in self.nodes)


def last_first_vni(made: Partition) -> int:
    """The largest number that the first tunnel may have, so that all have one."""
    return MAX_VNI - len(made.crossing) - MAX_MACHINES


def part_of(machines: Machines, made: Partition, name: str, first_vni: int) -> Part:
    """Of the machine called `name`; `made` is a fabric's partition over `machines`, which can be built
    (`machinesfile.check_buildable`).
    """
    by_name = {machine.name: machine for machine in machines.machines}
    here = next(machine for machine in machines.machines if machine.ssh is None)
    tunnels = []
    for number, link in enumerate(made.crossing):
        for near, far in ((Egress(link.a, link.a_port), link.b), (Egress(link.b, link.b_port), link.a)):
            if made.machine_of[near.node] == name:
                other = by_name[made.machine_of[far]]
                tunnels.append(Tunnel(interface(*near), first_vni + number, str(other.address)))
    return Part(
        machine=name,
        address=str(by_name[name].address),
        nodes=frozenset(node for node, machine in made.machine_of.items() if machine == name),
        tunnels=tuple(tunnels),
        controls=tuple(_controls(machines.machines, here.name, name, first_vni + len(made.crossing))),
        controller_ip=_control_ip(machines.machines, here.name),
    )


def _controls(machines: Sequence[Machine], here: str, name: str, first_vni: int) -> list[Control]:
    """The machine `here` has one for each other machine, and each of these has one."""
    controls = []
    for number, machine in enumerate(machines):
        if machine.name == here or name not in (here, machine.name):
            continue
        near, far = (here, machine.name) if name == here else (machine.name, here)
        address = next(each.address for each in machines if each.name == far)
        tunnel = Tunnel(f"control{number}", first_vni + number, str(address))
        controls.append(Control(tunnel, _control_ip(machines, near), _control_ip(machines, far)))
    return controls


def _control_ip(machines: Sequence[Machine], name: str) -> str:
    return _CONTROL.format(1 + [machine.name for machine in machines].index(name))
