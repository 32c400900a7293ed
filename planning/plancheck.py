"""Checks a plan before anything is built from it, as it may come from a file that somebody wrote by hand.

After this the run trusts it: every number is in range, every path follows cables, and no send waits for a
later one.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.failures import check_failures, check_reachable
from gradwire.planning.lockcheck import check_locks
from gradwire.planning.losses import check_losses
from gradwire.planning.stagecheck import check_stages
from gradwire.planning.trees.treecheck import check_trees
from gradwire.traces.schedules.dtypes import FLOAT32
from gradwire.traces.schedules.kinds import uneven_nbytes
from gradwire.traces.schedules.schedule import MAX_SEND_DELAY_NS, Aggregation, Op, ReduceGroup, Schedule
from gradwire.traces.schedules.sends import Edges, Numbers, Sends, distinct
from gradwire.traces.units import show_first
from gradwire.traces.workload import MAX_GAP_NS, MAX_SLOT, MAX_TAG

if TYPE_CHECKING:  # planning.plan checks what it reads
    from gradwire.planning.plan import Plan
    from gradwire.planning.transport import Transport

MOST_NAMED = 6  # operations that one waits for
MAX_OP_NBYTES = 1 << 50
MAX_FLUID_S = 86_400.0
_PORTS = range(1, 65_536)
_BUFFERS = range(4096, (64 << 20) + 1)
_MAX_SEGMENT_NBYTES = 64 << 10
_NAME_LETTERS = 15  # of a congestion control (TCP_CA_NAME_MAX)


def check(plan: "Plan") -> None:
    """Raise ValueError with what is wrong and where."""
    n_ranks = plan.schedule.n_ranks
    if n_ranks != len(plan.placement) or len(set(plan.placement)) != n_ranks:
        raise ValueError(
            f"placement: each of {n_ranks} ranks needs a host of its own, got "
            f"{len(set(plan.placement))} hosts"
        )
    unknown = set(plan.placement) - set(plan.fabric.hosts)
    if unknown:
        raise ValueError(f"placement: {min(unknown)!r} is not a host of {plan.fabric.spec}")
    if not plan.schedule.sends and not plan.schedule.aggregations:
        raise ValueError("it sends nothing")
    check_schedule(plan.schedule)
    _check_flows(plan)
    check_trees(plan.fabric, plan.placement, plan.schedule.groups, plan.trees, plan.switch_slots)
    _check_transport(plan.fabric, plan.transport)
    check_losses(plan.fabric, plan.losses)
    check_failures(plan.fabric, plan.failures)
    check_reachable(plan.fabric, plan.placement, plan.schedule.jobs, plan.failures)
    if not (0 <= plan.prediction.bound_s <= MAX_FLUID_S and 0 <= plan.prediction.fluid_s <= MAX_FLUID_S):
        raise ValueError(f"it would take {plan.prediction.fluid_s:.0f} s; the limit is {MAX_FLUID_S:.0f} s")


def check_schedule(schedule: Schedule) -> None:
    """Raise ValueError for what is out of range, and for what waits for a later one.

    Sends come in the order of their operations, after sends that they name, gates after operations, and
    aggregations of a group in the order of their operations.  So each send can go when those before it have
    gone, also those in its slot, and nothing waits in a circle.
    """
    ranks = range(schedule.n_ranks)
    if not 0 <= schedule.send_delay_ns <= MAX_SEND_DELAY_NS:
        raise ValueError(
            f"a send_delay_ns of {schedule.send_delay_ns} is out of range: 0 to {MAX_SEND_DELAY_NS}"
        )
    for number, op in enumerate(schedule.ops):
        tags = range((MAX_TAG if op.contract.is_collective else MAX_SLOT) + 1)
        if op.kind == "compute" and op.nbytes:
            raise ValueError(f"operation {number} is a computation, so it must have 0 bytes, got {op.nbytes}")
        _check_parties(number, op, schedule.n_ranks)
        _check_dtype(number, op)
        if not 0 <= op.nbytes <= MAX_OP_NBYTES or op.root not in ranks or op.tag not in tags:
            raise ValueError(
                f"operation {number}, {op.kind}: {op.nbytes} bytes, root {op.root} or tag {op.tag} is "
                f"out of range"
            )
    _check_ends(schedule)
    _check_bytes(schedule)
    _check_waits(schedule.sends, schedule.sends.src, schedule.sends.needs)
    _check_waits(schedule.sends, schedule.sends.dst, schedule.sends.ready)
    _check_gates(schedule)
    if schedule.aggregations:
        _check_aggregations(schedule)
    check_stages(schedule)
    _check_roots(schedule)
    check_locks(schedule)


def _first(wrong: NDArray[np.bool_]) -> int | None:
    """The first position where it is true."""
    places = np.flatnonzero(wrong)
    return int(places[0]) if len(places) else None


def _check_parties(number: int, op: Op, n_ranks: int) -> None:
    """The members that an operation names, and those that give, if it names any."""
    for what, ranks in (("members", op.members), ("givers", op.givers)):
        if list(ranks) != sorted(set(ranks)) or (ranks and not 0 <= ranks[0] <= ranks[-1] < n_ranks):
            raise ValueError(
                f"operation {number}: its {what} must be ranks from 0 to {n_ranks - 1} in ascending order"
            )
    if not set(op.givers) <= set(op.members):
        raise ValueError(f"operation {number}: its givers must be among its members")
    if op.sizes:
        _check_sizes(number, op)
    if not 0 <= op.room_nbytes <= MAX_OP_NBYTES:
        raise ValueError(f"operation {number}: room for {op.room_nbytes} bytes is out of range")
    if not 0 <= op.dense_nbytes <= MAX_OP_NBYTES:
        raise ValueError(f"operation {number}: a dense_nbytes of {op.dense_nbytes} is out of range")


def _check_sizes(number: int, op: Op) -> None:
    n_members = len(op.members)
    if op.kind != "alltoall" or {len(op.sizes), *map(len, op.sizes)} != {n_members}:
        raise ValueError(
            f"operation {number}: only an alltoall has sizes, from each member to each; it is {op.kind} of "
            f"{n_members} members"
        )
    if min(map(min, op.sizes)) < 0 or uneven_nbytes(op.sizes) != op.nbytes:
        raise ValueError(f"operation {number}: with its sizes nbytes must be {uneven_nbytes(op.sizes)}")


def _check_dtype(number: int, op: Op) -> None:
    """What is added up has whole elements of its type; what is copied has none."""
    if not op.contract.adds and op.dtype != FLOAT32:
        raise ValueError(
            f"operation {number}, {op.kind}: it adds nothing up, so its dtype must be {FLOAT32}, "
            f"got {op.dtype}"
        )
    if op.contract.adds and op.nbytes % op.element_nbytes:
        raise ValueError(
            f"operation {number}, {op.kind}: {op.nbytes} bytes are not whole {op.dtype} numbers of "
            f"{op.element_nbytes} bytes"
        )


def _check_roots(schedule: Schedule) -> None:
    """The rank whose data an operation spreads, or who gets its sum, takes part."""
    for number, (op, members) in enumerate(zip(schedule.ops, schedule.members, strict=True)):
        if op.contract.is_rooted and members and op.root not in members:
            raise ValueError(f"operation {number}: its root {op.root} must be among its members")


def _check_ends(schedule: Schedule) -> None:
    """The ranks and the operation of each send."""
    sends, n_ranks, n_ops = schedule.sends, schedule.n_ranks, len(schedule.ops)
    low, high = np.minimum(sends.src, sends.dst), np.maximum(sends.src, sends.dst)
    if (number := _first((low < 0) | (high >= n_ranks) | (low == high))) is not None:
        raise ValueError(
            f"send {number} goes from rank {sends.src[number]} to {sends.dst[number]}; these must be two "
            f"ranks from 0 to {n_ranks - 1}"
        )
    if (number := _first((sends.op < 0) | (sends.op >= n_ops))) is not None:
        raise ValueError(f"send {number} names operation {sends.op[number]}, the plan has {n_ops}")
    if (place := _first(sends.op[1:] < sends.op[:-1])) is not None:
        raise ValueError(
            f"send {place + 1} of operation {sends.op[place + 1]} comes after one of operation "
            f"{sends.op[place]}; sends must be in the order of their operations"
        )
    names_members = np.array([bool(op.members) for op in schedule.ops], np.bool_)[sends.op]
    members = [place * n_ranks + rank for place, op in enumerate(schedule.ops) for rank in op.members]
    first = sends.op.astype(np.int64) * n_ranks
    for rank in (sends.src, sends.dst):
        if (number := _first(names_members & ~np.isin(first + rank, members))) is not None:
            raise ValueError(
                f"send {number} names operation {sends.op[number]}, of which rank {rank[number]} is not a "
                "member"
            )
    computes = np.array([op.kind == "compute" for op in schedule.ops], np.bool_)
    if (number := _first(computes[sends.op])) is not None:
        raise ValueError(
            f"send {number} names operation {sends.op[number]}, a computation, which sends nothing"
        )


def _check_bytes(schedule: Schedule) -> None:
    """What each send reads and writes, of operations that exist."""
    sends = schedule.sends
    held = np.array([op.buffer_nbytes for op in schedule.ops], np.int64)[sends.op]
    adds = np.array([op.contract.adds or op.centre is not None for op in schedule.ops], np.bool_)[sends.op]
    for offset in (sends.offset, sends.offset + sends.shift):
        outside = (offset < 0) | (sends.nbytes < 0) | (sends.nbytes > held) | (offset > held - sends.nbytes)
        if (number := _first(outside)) is not None:
            raise ValueError(
                f"send {number}: {sends.nbytes[number]} bytes at offset {offset[number]} exceed the "
                f"operation's {held[number]}"
            )
    element = np.array([op.element_nbytes for op in schedule.ops], np.int64)[sends.op]
    split = (sends.offset | sends.shift | sends.nbytes) % element != 0
    if (number := _first(sends.reduce & (split | ~adds))) is not None:
        dtype = schedule.ops[sends.op[number]].dtype
        raise ValueError(f"send {number} adds bytes that are not whole {dtype} elements of an allreduce")


def _check_waits(sends: Sends, rank: Numbers, edges: Edges) -> None:
    """What each send's `rank` waits for comes before it, and is the rank's own."""
    waiting, others = edges.owners, edges.ids
    if (place := _first((others < 0) | (others >= waiting))) is not None:
        raise ValueError(
            f"send {waiting[place]} waits for send {others[place]}, which does not come before it"
        )
    here = rank[waiting]
    if (place := _first((sends.src[others] != here) & (sends.dst[others] != here))) is not None:
        raise ValueError(
            f"send {waiting[place]} waits for send {others[place]}, which rank {here[place]} neither sends "
            "nor receives"
        )


def _check_gates(schedule: Schedule) -> None:
    for number, gate in enumerate(schedule.gates):
        if gate.rank not in range(schedule.n_ranks) or gate.op not in range(len(schedule.ops)):
            raise ValueError(f"gate {number}: there is no operation {gate.op} or no rank {gate.rank}")
        if not 0 <= gate.gap_ns <= MAX_GAP_NS or any(not 0 <= other < gate.op for other in gate.after):
            raise ValueError(
                f"gate {number}: operation {gate.op} cannot come {gate.gap_ns} ns after "
                f"{show_first(gate.after, MOST_NAMED) or 'nothing'}"
            )
        if gate.most_ns is not None and not gate.gap_ns <= gate.most_ns <= MAX_GAP_NS:
            raise ValueError(
                f"gate {number}: a gap of {gate.gap_ns} to {gate.most_ns} ns is not a valid range"
            )
    computing = {number: op.root for number, op in enumerate(schedule.ops) if op.kind == "compute"}
    gated = sorted((gate.op, gate.rank) for gate in schedule.gates if gate.op in computing)
    if gated != sorted(computing.items()):
        odd = min(set(gated) ^ set(computing.items()), default=(0, 0))[0]
        raise ValueError(f"operation {odd} needs exactly one gate, at the rank that computes")
    twice = [key for key, times in Counter((g.op, g.rank) for g in schedule.gates).items() if times > 1]
    if twice:
        raise ValueError(f"operation {twice[0][0]} has two gates at rank {twice[0][1]}")


def _check_aggregations(schedule: Schedule) -> None:
    last_op: dict[ReduceGroup, int] = {}
    parts = Counter[tuple[int, int]]()
    for number, aggregation in enumerate(schedule.aggregations):
        op = aggregation.op
        if op not in range(len(schedule.ops)):
            raise ValueError(f"aggregation {number} names operation {op}, the plan has {len(schedule.ops)}")
        _check_ranks(number, aggregation, schedule)
        group = aggregation.givers, aggregation.takers
        if last_op.get(group, -1) >= op:
            raise ValueError(f"aggregation {number} of operation {op} comes after one of a later operation")
        last_op[group] = op
        parts.update((op, rank) for rank in aggregation.members)
    twice = [part for part, times in parts.items() if times > 1]
    if twice:
        raise ValueError(f"operation {twice[0][0]} has rank {twice[0][1]} in two of its aggregations")
    sends = schedule.sends
    sent = set(distinct(sends.op).tolist())
    for op in sorted(sent):
        if schedule.ops[op].kind == "reduce" and any(each.op == op for each in schedule.aggregations):
            first = _first(sends.op == op)
            raise ValueError(f"send {first} names operation {op}, a reduce that switches do")
    for op, times in Counter(each.op for each in schedule.aggregations).items():
        if times > 1 and op not in sent:
            raise ValueError(f"operation {op}: nothing joins the sums of its {times} aggregations")


def _check_ranks(number: int, aggregation: Aggregation, schedule: Schedule) -> None:
    """Those of an allreduce all give and take; a reduce's sum is its root's alone."""
    op = schedule.ops[aggregation.op]
    givers, takers = aggregation.givers, aggregation.takers
    for ranks in (givers, takers):
        if (
            not ranks
            or list(ranks) != sorted(set(ranks))
            or not 0 <= ranks[0] <= ranks[-1] < schedule.n_ranks
        ):
            raise ValueError(f"aggregation {number}: its givers and takers must be ranks in ascending order")
    if op.members and not set(aggregation.members) <= set(op.members):
        raise ValueError(
            f"aggregation {number}: its givers and takers must be members of operation {aggregation.op}"
        )
    due = op.contract.takers(givers, op.root)
    if not op.contract.adds or takers != due or len(aggregation.members) < 2:
        raise ValueError(
            f"aggregation {number}: switches cannot do {op.kind} with givers {givers}, takers {takers}"
        )
    if op.dtype != FLOAT32:
        raise ValueError(f"aggregation {number}: switches add up {FLOAT32}, not {op.dtype}")


def _check_flows(plan: "Plan") -> None:
    address = [plan.fabric.ip(host) for host in plan.placement]
    pairs = Counter((flow.src, flow.dst) for flow in plan.flows)
    for (src, dst), times in pairs.items():
        known = src in range(len(address)) and dst in range(len(address))
        if not known or times > 1 or not pairs[dst, src]:
            raise ValueError(
                f"flows: rank {src} to {dst}: two ranks must have exactly one flow in each direction"
            )
    missing = plan.schedule.sends.pairs() - set(pairs)
    if missing:
        raise ValueError("flows: rank {} sends to {}, but there is no flow for it".format(*min(missing)))
    back = {(flow.src, flow.dst): flow for flow in plan.flows}
    for flow in plan.flows:
        where = f"flow from rank {flow.src} to {flow.dst}"
        if (flow.src_ip, flow.dst_ip) != (address[flow.src], address[flow.dst]):
            raise ValueError(f"{where}: its addresses are not the addresses of its ranks' hosts")
        other = back[flow.dst, flow.src]
        if flow.sport not in _PORTS or (other.sport, other.dport) != (flow.dport, flow.sport):
            raise ValueError(f"{where}: its ports must mirror the other direction's ports, and be in range")
        check_path(plan.fabric, plan.placement[flow.src], plan.placement[flow.dst], flow.path)
    ends = Counter((f.src_ip, f.sport, f.dst_ip, f.dport) for f in plan.flows)
    if max(ends.values(), default=1) > 1:
        raise ValueError("flows: two flows have the same addresses and ports")


def check_path(fabric: Fabric, source: str, destination: str, path: Sequence[Egress]) -> None:
    """Raise ValueError unless `path` follows cables from one host to the other, without a loop."""
    here = source
    for hop, egress in enumerate(path):
        if egress not in fabric.peers or egress.node != here:
            raise ValueError(
                f"path {source} to {destination}: hop {hop} leaves port {egress.port} of {egress.node}, "
                f"not a cabled port of {here}"
            )
        here = fabric.peers[egress].node
    if here != destination or len({egress.node for egress in path}) != len(path):
        raise ValueError(
            f"path {source} to {destination} is broken or has a loop: it ends at {here} after "
            f"{len(path)} hops"
        )


def _check_transport(fabric: Fabric, transport: "Transport") -> None:
    name = transport.congestion_control
    if not name.isascii() or not name.replace("_", "").isalnum() or len(name) > _NAME_LETTERS:
        raise ValueError(f"transport: {name!r} is not the name of a congestion control")
    if transport.rcvbuf_nbytes not in _BUFFERS or transport.sndbuf_nbytes not in _BUFFERS:
        raise ValueError(f"transport: socket buffers must have {_BUFFERS[0]} to {_BUFFERS[-1]} bytes")
    if not fabric.mtu_nbytes <= transport.gso_max_nbytes <= _MAX_SEGMENT_NBYTES:
        allowed = f"{fabric.mtu_nbytes} to {_MAX_SEGMENT_NBYTES}"
        raise ValueError(f"transport: segments must have {allowed} bytes, got {transport.gso_max_nbytes}")
