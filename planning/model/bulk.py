"""The fluid model of a large schedule that only sends, as compiled loops over columns.

It does what planning.model.progress and planning.model.fluid do without hosts, aggregations, locks and an
order of sends, for which those take some 8 µs a send; tests hold the two against each other.  What becomes
possible at one instant happens in the same order: gates first, then sends by their numbers.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from gradwire.planning.model import loops
from gradwire.planning.model.fairshare import FairShares
from gradwire.planning.model.loops import NONE, Connections, Gates, Ints, Lists, Model, Sending, Times
from gradwire.planning.plan import Flow
from gradwire.traces.packets.jit import compiled
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.schedules.sends import Numbers, Sends


def run(
    schedule: Schedule,
    flows: Sequence[Flow],
    paths: Sequence[Sequence[int]],
    capacity: Sequence[float],
    latency_s: float,
) -> Times:
    """When sends became ready and ended, and gates opened."""
    sending, gates = columns(schedule, flows)
    n_sends, n_gates, n_flows = len(sending.flow), len(gates.part), len(flows)
    shares = FairShares(paths, capacity, is_large=True)
    times = Times(*(np.full(n, float(NONE)) for n in (n_sends, n_sends, n_gates)))
    head, tail = (np.full(n_flows, NONE) for _ in range(2))
    queued, passed, since_s, rate = (np.zeros(n_flows) for _ in range(4))
    is_touched, touched = (np.zeros(n_flows, np.int64) for _ in range(2))
    connections = Connections(
        head, tail, queued, passed, since_s, rate, np.full(n_flows, inf), is_touched, touched,
        np.zeros(n_sends), np.full(n_sends, NONE), np.zeros(3, np.int64),
    )  # fmt: skip
    loops.run(Model(sending, gates, connections, shares.cabling, shares.state, times, latency_s))
    return times


def columns(schedule: Schedule, flows: Sequence[Flow]) -> tuple[Sending, Gates]:
    """What each send and gate waits for, and what waits for it."""
    sends, n_ranks = schedule.sends, schedule.n_ranks
    own = np.array([gate.op * n_ranks + gate.rank for gate in schedule.gates], np.int64)
    after = [(i, op * n_ranks + gate.rank) for i, gate in enumerate(schedule.gates) for op in gate.after]
    waiting, waited = np.ascontiguousarray(np.array(after, np.int64).reshape(-1, 2).T)
    parts = np.unique(waited)
    src_part, dst_part = _at_ends(sends, parts, n_ranks)
    of_gates, of_waited = _places(parts, own), _places(parts, waited)
    left = np.zeros(len(parts), np.int64)
    for some in (src_part, dst_part, of_gates):
        left += np.bincount(some[some != NONE], minlength=len(parts))
    counts = left[of_waited] > 0
    by_part = np.argsort(own)  # a rank has one gate of an operation
    gate_at = np.append(by_part, NONE).astype(np.int32)  # a place of NONE is the last one
    src_gate, dst_gate = (gate_at[places] for places in _at_ends(sends, own[by_part], n_ranks))
    held_at, held = _held(src_gate, dst_gate, len(own))
    gates = Gates(
        part=of_gates,
        gap_s=np.array([gate.gap_ns / 1e9 for gate in schedule.gates], np.float64),
        waits=np.bincount(waiting[counts], minlength=len(own)),
        holds=Lists(held_at, held),
        left=left,
        opens=_lists(of_waited[counts], waiting[counts], len(parts)),
    )
    n_gates = (src_gate != NONE).astype(np.int32) + (dst_gate != NONE)
    sending = Sending(
        flow=_flow_of(sends, flows, n_ranks),
        nbytes=sends.nbytes,
        waits=sends.needs.counts + sends.ready.counts + n_gates,
        releases=Lists(*_released(*sends.needs, *sends.ready)),
        src_part=src_part,
        dst_part=dst_part,
    )
    return sending, gates


def _places(among: Ints, values: Ints) -> Ints:
    """Where each value is among others, ascending ones; NONE where it is not."""
    if not len(among):
        return np.full(len(values), NONE)
    places = np.minimum(np.searchsorted(among, values), len(among) - 1)
    return np.where(among[places] == values, places, NONE)


def _at_ends(sends: Sends, parts: Ints, n_ranks: int) -> tuple[Numbers, Numbers]:
    """The place among parts (operation * n_ranks + rank, ascending) of each send's at its source, and at its
    destination; NONE for what is not among them.
    """
    found: tuple[Numbers, Numbers] = _looked_up(
        sends.op, sends.src, sends.dst, parts // n_ranks, parts % n_ranks, n_ranks
    )
    return found


@compiled
def _looked_up(op: Numbers, src: Numbers, dst: Numbers, part_op: Ints, part_rank: Ints, n_ranks: int) -> Any:
    """As `_at_ends`, by a table of the parts of one operation, made again where another one begins."""
    at_src, at_dst = np.empty(len(op), np.int32), np.empty(len(op), np.int32)
    place_of = np.full(n_ranks, NONE, np.int32)
    first = end = 0
    for send in range(len(op)):
        if send == 0 or op[send] != op[send - 1]:
            for place in range(first, end):
                place_of[part_rank[place]] = NONE
            first = end = np.searchsorted(part_op, op[send])
            while end < len(part_op) and part_op[end] == op[send]:
                place_of[part_rank[end]] = end
                end += 1
        at_src[send], at_dst[send] = place_of[src[send]], place_of[dst[send]]
    return at_src, at_dst


def _flow_of(sends: Sends, flows: Sequence[Flow], n_ranks: int) -> Numbers:
    """The number of each send's flow."""
    src = np.array([flow.src for flow in flows], np.int64)
    dst = np.array([flow.dst for flow in flows], np.int64)
    by_pair = np.lexsort((dst, src))
    first = np.searchsorted(src[by_pair], np.arange(n_ranks + 1))
    found: Numbers = _found_flows(sends.src, sends.dst, first, dst[by_pair], by_pair)
    return found


@compiled
def _found_flows(src: Numbers, dst: Numbers, first: Ints, to: Ints, number: Ints) -> Any:
    """Those from rank r go `to[first[r] : first[r + 1]]`, ascending, and have the numbers at these places."""
    found = np.empty(len(src), np.int32)
    for send in range(len(src)):
        some = to[first[src[send]] : first[src[send] + 1]]
        found[send] = number[first[src[send]] + np.searchsorted(some, dst[send])]
    return found


@compiled
def _held(src_gate: Numbers, dst_gate: Numbers, n_gates: int) -> Any:
    """Of each gate the sends that it holds, at their source or destination: where they begin, and them."""
    at = np.zeros(n_gates + 1, np.int64)
    for some in (src_gate, dst_gate):
        for gate in some:
            if gate != NONE:
                at[gate + 1] += 1
    for gate in range(n_gates):
        at[gate + 1] += at[gate]
    room, values = at.copy(), np.empty(at[-1], np.int32)
    for some in (src_gate, dst_gate):
        for send in range(len(some)):
            if some[send] != NONE:
                values[room[some[send]]] = send
                room[some[send]] += 1
    return at, values


@compiled
def _released(need_starts: Numbers, need_ids: Numbers, ready_starts: Numbers, ready_ids: Numbers) -> Any:
    """Of each send those that need it, or are announced after it: where they begin, and them."""
    n_sends = len(need_starts) - 1
    at = np.zeros(n_sends + 1, np.int64)
    for ids in (need_ids, ready_ids):
        for other in ids:
            at[other + 1] += 1
    for send in range(n_sends):
        at[send + 1] += at[send]
    room, values = at.copy(), np.empty(at[-1], np.int32)
    for starts, ids in ((need_starts, need_ids), (ready_starts, ready_ids)):
        for send in range(n_sends):
            for place in range(starts[send], starts[send + 1]):
                values[room[ids[place]]] = send
                room[ids[place]] += 1
    return at, values


def _lists(rows: Ints, values: Ints, n_rows: int) -> Lists:
    at = np.zeros(n_rows + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=n_rows), out=at[1:])
    return Lists(at, values[np.argsort(rows, kind="stable")])
