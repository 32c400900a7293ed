"""The fluid model of a large schedule that only sends, as compiled loops over columns.

It does what planning.model.progress and planning.model.fluid do without hosts, aggregations, locks and an
order of sends, for which those take some 8 µs a send; tests hold the two against each other.  What becomes
possible at one instant happens in the same order: gates first, then sends by their numbers.
"""

from collections.abc import Sequence
from math import inf

import numpy as np

from gradwire.planning.model import loops
from gradwire.planning.model.fairshare import FairShares
from gradwire.planning.model.loops import NONE, Connections, Gates, Ints, Lists, Model, Sending, Times
from gradwire.planning.plan import Flow
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.schedules.sends import Edges


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
    between = np.array([flow.src * n_ranks + flow.dst for flow in flows], np.int64)
    by_pair = np.argsort(between)
    src, dst, op = (column.astype(np.int64) for column in (sends.src, sends.dst, sends.op))
    ends = np.concatenate([op * n_ranks + src, op * n_ranks + dst])
    own = np.array([gate.op * n_ranks + gate.rank for gate in schedule.gates], np.int64)
    after = [(i, op * n_ranks + gate.rank) for i, gate in enumerate(schedule.gates) for op in gate.after]
    waiting, waited = (
        np.array(column, np.int64) for column in (zip(*after, strict=True) if after else ((), ()))
    )
    parts = np.unique(waited)
    of_ends, of_gates = _places(parts, ends), _places(parts, own)
    left = np.bincount(np.concatenate([of_ends, of_gates]) + 1, minlength=len(parts) + 1)[1:]
    of_waited = _places(parts, waited)
    counts = left[of_waited] > 0
    held_by, held = _held(own, ends, len(sends))
    n_gates = len(own)
    gates = Gates(
        part=of_gates,
        gap_s=np.array([gate.gap_ns / 1e9 for gate in schedule.gates], np.float64),
        waits=np.bincount(waiting[counts], minlength=n_gates),
        holds=_lists(held_by, held, n_gates),
        left=left,
        opens=_lists(of_waited[counts], waiting[counts], len(parts)),
    )
    others, waiters = _edges(sends.needs, sends.ready)
    sending = Sending(
        flow=by_pair[np.searchsorted(between[by_pair], src * n_ranks + dst)],
        nbytes=sends.nbytes.astype(np.float64),
        waits=np.bincount(np.concatenate([waiters, held]), minlength=len(sends)),
        releases=_lists(others, waiters, len(sends)),
        src_part=of_ends[: len(sends)],
        dst_part=of_ends[len(sends) :],
    )
    return sending, gates


def _places(among: Ints, values: Ints) -> Ints:
    """Where each value is among others, ascending ones; NONE where it is not."""
    if not len(among):
        return np.full(len(values), NONE)
    places = np.minimum(np.searchsorted(among, values), len(among) - 1)
    return np.where(among[places] == values, places, NONE)


def _held(own: Ints, ends: Ints, n_sends: int) -> tuple[Ints, Ints]:
    """(gate, send) of every send that a gate holds at one of its ends."""
    order = np.argsort(own, kind="stable")
    first = np.searchsorted(own[order], ends)
    counts = np.searchsorted(own[order], ends, side="right") - first
    held = np.repeat(np.arange(len(ends)) % max(1, n_sends), counts)
    begins = np.repeat(first - (np.cumsum(counts) - counts), counts)
    return order[begins + np.arange(len(held))], held


def _edges(*some: Edges) -> tuple[Ints, Ints]:
    """(what is waited for, what waits) of every edge."""
    others = np.concatenate([edges.ids for edges in some]).astype(np.int64)
    return others, np.concatenate([edges.owners for edges in some]).astype(np.int64)


def _lists(rows: Ints, values: Ints, n_rows: int) -> Lists:
    at = np.zeros(n_rows + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=n_rows), out=at[1:])
    return Lists(at, values[np.argsort(rows, kind="stable")])
