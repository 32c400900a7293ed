"""The machines that are to carry one fabric together, from a YAML file; an error names its line."""

from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gradwire.planning.fabrics.fabric import DEFAULT_MTU_NBYTES, ETHERNET_NBYTES, Fabric
from gradwire.traces.files import read_at_most
from gradwire.traces.plainyaml import compose, line_of, value_of
from gradwire.traces.units import no_key, show_nbytes

MAX_FILE_NBYTES = 1 << 16
MAX_MACHINES = 64
MAX_DEPTH = 3  # the document, machines, one of them
# Before a packet of the fabric: its Ethernet header, VXLAN's 8 bytes, UDP's 8, IPv4's 20 (RFC 7348, 5).
VXLAN_NBYTES = ETHERNET_NBYTES + 8 + 8 + 20


class Machine(BaseModel):
    """`cores` is its weight: of two machines with 4 and 2, the first gets two thirds of the hosts.

    What only building a fabric needs may be missing: `address` is the machine's own on the network between
    the machines, `ssh` is where ssh reaches it as root, and is missing for the one machine on which the
    command runs; `gradwire` is the command there.  The last two become words of a command line, so they have
    no characters that a shell would understand.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*$", max_length=60)]
    cores: Annotated[int, Field(ge=1, le=4096, strict=True)] = 1
    address: IPv4Address | None = None
    ssh: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@:-]*$", max_length=255)] | None = None
    gradwire: Annotated[str, Field(pattern=r"^[A-Za-z0-9_./~][A-Za-z0-9_./~-]*$", max_length=255)] = (
        "gradwire"
    )


class Machines(BaseModel):
    """`mtu` is the longest IP packet, in bytes, on the network between the machines."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    machines: Annotated[list[Machine], Field(min_length=2, max_length=MAX_MACHINES)]
    mtu: Annotated[int, Field(ge=576, le=65535, strict=True)] = DEFAULT_MTU_NBYTES


def read_machines(path: Path) -> Machines:
    """Raise OSError, or ValueError with the file, the line and the reason."""
    octets = read_at_most(path, MAX_FILE_NBYTES)
    try:
        if len(octets) > MAX_FILE_NBYTES:
            raise ValueError(
                f"larger than the {show_nbytes(MAX_FILE_NBYTES)} that a file of machines may have"
            )
        return machines_of_yaml(octets)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def read_to_build(path: Path) -> dict[str, Any]:
    """The machines in a file as JSON, checked to be enough to build on.  Raise OSError or ValueError."""
    machines = read_machines(path)
    try:
        check_buildable(machines)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return machines.model_dump(mode="json")


def machines_of_yaml(text: bytes) -> Machines:
    """Raise ValueError with line and reason."""
    node = compose(text, MAX_DEPTH)
    try:
        given = Machines.model_validate(value_of(node))
    except ValidationError as error:
        first = error.errors()[0]
        place = first["loc"]
        line = line_of(node, place)
        raise ValueError(
            (f"line {line}: " if line else "") + _complaint(first["type"], first["msg"], place)
        ) from error
    names = [machine.name for machine in given.machines]
    for number, name in enumerate(names):
        if name in names[:number]:
            line = line_of(node, ("machines", number))
            raise ValueError(f"line {line}: two machines are called {name}: give each a name of its own")
    return given


def check_buildable(machines: Machines) -> None:
    """Raise ValueError unless each machine has an address of its own and all but one are reached by ssh."""
    for machine in machines.machines:
        if machine.address is None:
            raise ValueError(
                f"machine {machine.name} has no address: write the IPv4 address that it has on the network "
                "between the machines, as address: 192.0.2.1"
            )
        if machine.address.is_loopback or machine.address.is_unspecified or machine.address.is_multicast:
            raise ValueError(
                f"machine {machine.name}: {machine.address} does not lead to it from another machine; write "
                "the address that it has on the network between the machines"
            )
    addresses = [machine.address for machine in machines.machines]
    for machine in machines.machines:
        if addresses.count(machine.address) > 1:
            raise ValueError(f"machine {machine.name}: another machine has address {machine.address}, too")
    here = [machine.name for machine in machines.machines if machine.ssh is None]
    if len(here) != 1:
        which = f"{' and '.join(here)} have no ssh" if here else "every machine has ssh"
        raise ValueError(
            f"{which}: the machine on which you run the command must be in the file without ssh, and every "
            "other one needs ssh: USER@HOST"
        )


def check_mtu(fabric: Fabric, machines: Machines) -> None:
    """Raise ValueError if a packet of the fabric does not fit between the machines inside VXLAN."""
    needed_nbytes = fabric.mtu_nbytes + VXLAN_NBYTES
    if machines.mtu < needed_nbytes:
        raise ValueError(
            f"{fabric.spec}: its packets of {fabric.mtu_nbytes:,} bytes take {needed_nbytes:,} between "
            f"machines (VXLAN adds {VXLAN_NBYTES}), and the network there carries {machines.mtu:,}: "
            f"raise its MTU and write mtu: {needed_nbytes}, or give the fabric an MTU of "
            f"{machines.mtu - VXLAN_NBYTES:,}"
        )


def _complaint(kind: str, text: str, place: tuple[int | str, ...]) -> str:
    where = ".".join(map(str, place))
    match kind:
        case "extra_forbidden":
            return no_key(str(place[-1]), (Machine if len(place) > 1 else Machines).model_fields)
        case "missing":
            return f"{where} is missing"
        case "model_type" if place:
            return f"{where} is not a mapping; write it like {{name: left}}"
        case "model_type":
            return "the file is not a mapping; begin it with machines:"
        case "too_short":
            return "machines must name two machines or more"
        case "string_pattern_mismatch" if place[-1] == "name":
            return f"{where} may have letters, digits, '.' and '-'"
        case "string_pattern_mismatch":
            return f"{where} has a character that a shell would understand, or none at all"
    return f"{where}: {text}"
