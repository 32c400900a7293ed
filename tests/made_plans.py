"""Small plans for the tests of what is computed from plans."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.plan import Plan
from gradwire.planning.resolve import resolve
from gradwire.planning.transport import fabric_transport
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.schedule import Gate, Op, Schedule
from gradwire.traces.schedules.sends import Send

MIB = 1 << 20
PAYLOAD_EFFICIENCY = 1448 / 1514  # of TCP with timestamps, an MTU of 1500 and 14 bytes of Ethernet


def allreduce_plan(
    spec: str,
    algorithm: str = "ring",
    placement: str = "linear",
    routes: str = "ecmp",
    seed: int = 0,
    nbytes: int = 8 * MIB,
    n_ranks: int | None = None,
) -> Plan:
    """One allreduce on all hosts of the fabric, or on `n_ranks` of them."""
    ranks = n_ranks or len(parse_fabric(spec).hosts)
    schedule = expand(made_allreduce(ranks, nbytes), algorithm)
    return schedule_plan(spec, schedule, algorithm, placement, routes, seed)


def schedule_plan(
    spec: str,
    schedule: Schedule,
    algorithm: str = "made",
    placement: str = "linear",
    routes: str = "ecmp",
    seed: int = 0,
) -> Plan:
    fabric = parse_fabric(spec)
    return resolve(
        fabric,
        schedule,
        algorithm=algorithm,
        placement=placement,
        routes=routes,
        seed=seed,
        transport=fabric_transport(fabric),
    )


def unchecked_plan(spec: str, schedule: Schedule, routes: str = "ecmp", seed: int = 0) -> Plan:
    """The plan of a schedule that need not do what its kinds say: for tests of times and loads alone."""
    aggregated = sorted({each.op for each in schedule.aggregations})
    pairs = sorted(schedule.sends.pairs())
    first = len(aggregated)
    stand_in = Schedule.of(
        schedule.n_ranks,
        (
            *(schedule.ops[op] for op in aggregated),
            *(Op("message", 4, tag=i, root=src) for i, (src, _) in enumerate(pairs)),
        ),
        (Send(first + i, src, dst, 0, 4, reduce=False) for i, (src, dst) in enumerate(pairs)),
        (),
        (replace(each, op=aggregated.index(each.op)) for each in schedule.aggregations),
    )
    return replace(schedule_plan(spec, stand_in, routes=routes, seed=seed), schedule=schedule)


def messages(n_ranks: int, sends: Sequence[tuple[int, int, int]], gates: Sequence[Gate] = ()) -> Schedule:
    """A schedule of messages (src, dst, nbytes), each an operation of its own."""
    return Schedule.of(
        n_ranks,
        ops=tuple(Op("message", nbytes, tag=i, root=src) for i, (src, _, nbytes) in enumerate(sends)),
        sends=tuple(Send(i, src, dst, 0, nbytes, reduce=False) for i, (src, dst, nbytes) in enumerate(sends)),
        gates=tuple(gates),
    )


def all_to_all(n_ranks: int, nbytes: int) -> Schedule:
    """Every rank sends to every other, all at once."""
    return messages(n_ranks, [(src, dst, nbytes) for src, dst in permutations(range(n_ranks), 2)])
