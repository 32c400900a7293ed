"""What `plan --machines` says: which machine has which nodes, and what goes from one to another."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console

from gradwire.planning.fabrics.fabric import Egress
from gradwire.planning.fabrics.nodenames import ranges
from gradwire.planning.machines.machinesfile import Machines, check_mtu
from gradwire.planning.machines.partition import partition
from gradwire.planning.model.loads import PlanLoad
from gradwire.planning.plan import Plan
from gradwire.tools.table import columns, rich_table, table_of
from gradwire.traces.units import show_bps, show_count, show_nbytes


@dataclass(frozen=True, slots=True)
class MachinePart:
    """What one machine carries; `crossing` are directions of cables that
    leave it, `out_bps` their rates together, `sent_nbytes` the payload that the plan sends through them.
    """

    machine: str
    cores: int
    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    crossing: tuple[str, ...]
    out_bps: int
    sent_nbytes: int


def machine_parts(plan: Plan, load: PlanLoad, machines: Machines) -> list[MachinePart]:
    """One for each machine, in the file's order; `load` is the plan's.  Raise ValueError."""
    check_mtu(plan.fabric, machines)
    made, fabric = partition(plan.fabric, machines.machines), plan.fabric
    parts = []
    for machine in machines.machines:
        ends = [
            end
            for link in made.crossing
            for end in (Egress(link.a, link.a_port), Egress(link.b, link.b_port))
            if made.machine_of[end.node] == machine.name
        ]
        part = MachinePart(
            machine=machine.name,
            cores=machine.cores,
            hosts=tuple(host for host in fabric.hosts if made.machine_of[host] == machine.name),
            switches=tuple(each for each in fabric.switches if made.machine_of[each] == machine.name),
            crossing=tuple(f"{end.node}→{fabric.peers[end].node}" for end in ends),
            out_bps=sum(fabric.rates[end] for end in ends),
            sent_nbytes=sum(load.loads[end].nbytes for end in ends if end in load.loads),
        )
        parts.append(part)
    return parts


def parts_json(parts: Sequence[MachinePart]) -> list[dict[str, object]]:
    """As docs/schemas.md, "plan --json: machines", says."""
    return [asdict(part) for part in parts]


def print_parts(console: Console, parts: Sequence[MachinePart]) -> None:
    """For a person: what crosses, then a row for each machine."""
    n_crossing = sum(len(part.crossing) for part in parts) // 2
    console.print(
        f"over {len(parts)} machines: {show_count(n_crossing, 'cable')} would cross between them",
        soft_wrap=True,
    )
    heads = columns("machine", "hosts", "switches", "#cables out", "#rate out", "#bytes out")
    rows = [
        (
            part.machine,
            " ".join(ranges(part.hosts)),
            " ".join(ranges(part.switches)),
            str(len(part.crossing)),
            show_bps(part.out_bps),
            show_nbytes(part.sent_nbytes),
        )
        for part in parts
    ]
    console.print(rich_table(table_of(heads, rows, tuple)))
