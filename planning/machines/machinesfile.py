"""The machines that are to carry one fabric together, from a YAML file; an error names its line."""

from pathlib import Path
from typing import Annotated

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
    """`cores` is its weight: of two machines with 4 and 2, the first gets two thirds of the hosts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*$", max_length=60)]
    cores: Annotated[int, Field(ge=1, le=4096, strict=True)] = 1


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
        case "model_type" if not place:
            return "the file is not a mapping; begin it with machines:"
        case "too_short":
            return "machines must name two machines or more"
        case "string_pattern_mismatch":
            return f"{where} may have letters, digits, '.' and '-'"
    return f"{where}: {text}"
