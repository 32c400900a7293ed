"""A rank's loop in C (rank.h), for plans of sends, computing, centres and locks: its columns and its calls.

`loop.Loop` says the same in Python, and does what this leaves to it: aggregations, pairs, and sends of which
the newest leave first.  Python takes five times as much of a processor for a small send, which limits how
many ranks a machine can carry.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwire.emu.replay.board import Finish
from gradwire.emu.replay.centre_values import Access
from gradwire.emu.replay.clayout import (
    ACCESS,
    ADDING,
    DUE,
    LANE,
    MESSAGE_NBYTES,
    OPERATION,
    TRANSFER,
    Failure,
    Heap,
    Peer,
    Rank,
    library,
)
from gradwire.emu.replay.connection import PeerLost
from gradwire.emu.replay.outcome import Stalled
from gradwire.emu.replay.rankrepeat import RankRepeat
from gradwire.emu.replay.slots import slots_of
from gradwire.traces.schedules.outbox import FIFO
from gradwire.traces.schedules.pacing import ALL_AHEAD, ANNOUNCED_AHEAD
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.schedules.sends import Edges, Sends, swaps

Columns = NDArray[Any]


def is_for(schedule: Schedule) -> bool:
    """Whether the loop in C carries out all that the schedule asks of a rank."""
    has_pairs = any(op.contract.has_pairs for op in schedule.ops)
    return not (schedule.aggregations or has_pairs) and schedule.order == FIFO


class CompiledLoop:
    """The rank's loop of one repeat.

    C knows a rank's sends and receives, and its operations, by their places in `transfers` and `ops`;
    `numbers` and `op_numbers` are those that they have in the schedule.
    """

    def __init__(self, own: RankRepeat, finish: Finish | None = None) -> None:
        library()
        self._own = own
        schedule, rank = own.schedule, own.rank
        self._kept: list[Any] = [finish]  # what C has addresses of
        self._peers = sorted(own.connections)
        self.numbers = schedule.sends.numbers_of(rank)
        sends = schedule.sends.chosen(self.numbers, keep_edges=True)
        is_send = sends.src == rank
        computed = [i for i, op in enumerate(schedule.ops) if op.kind == "compute" and op.root == rank]
        self.op_numbers = np.union1d(sends.op, np.array(computed, np.int32)).astype(np.int32)
        self.transfers, self.ops = (
            _zeros(TRANSFER, len(self.numbers)),
            _zeros(OPERATION, len(self.op_numbers)),
        )
        self.lanes, order = self._lanes(sends, is_send)
        self._fill_transfers(sends, is_send)
        self._accesses = _zeros(ACCESS, 3 * len(self.numbers) if self._fill_logged() else 0)
        self.rank = Rank(
            transfers=self._address(self.transfers),
            ops=self._address(self.ops),
            lanes=self._address(self.lanes),
            peers=self._connected(),
            in_order=self._address(order),
            accesses=self._address(self._accesses),
            place=own.place.address if own.place is not None else None,
            delay_ns=schedule.send_delay_ns,
            stall_ns=int(own.stall_s * 1e9),
            is_joining=not own.is_as_captured,
            n_transfers=len(self.numbers),
            n_ops=len(self.ops),
            n_lanes=len(self.lanes),
            n_peers=len(self._peers),
            n_unfinished=len(self.numbers),
            n_uncomputed=len(computed),
            possible=self._room(np.int32, len(self.numbers)),
            gaps=self._room(np.int32, len(self.ops)),
            touched=self._room(np.int32, len(self._peers)),
            asked=self._room(np.int32, len(self.numbers)),
            lock_freed_by=-1,
            held=self._room(np.uint64, len(self.numbers)),
            computing=Heap(self._room(DUE, len(self.ops))),
            delayed=Heap(self._room(DUE, len(self.numbers))),
            epoll=-1,
            line=finish.count_address if finish else None,
            is_there=finish.waits_address if finish else None,
            n_here=finish.n_ranks if finish else 0,
        )
        self._link(sends, is_send, computed)
        if own.place is not None:
            own.place.begin(len(self.ops), len(self.numbers))

    def _fill_transfers(self, sends: Sends, is_send: Columns) -> None:
        """What each send and receive is, but for what it waits for."""
        transfers = self.transfers
        transfers["op"], transfers["nbytes"] = self._op_places(sends.op), sends.nbytes
        transfers["is_send"] = is_send
        transfers["bytes"] = self._addresses(
            sends.op, sends.offset + np.where(is_send, 0, sends.shift), sends.nbytes
        )
        transfers["adding"] = self._adding(sends.op) * (sends.reduce & ~is_send)
        transfers["other_half"] = -1
        for one, other in swaps(self._own.schedule.sends, self.numbers).items():
            transfers["other_half"][np.searchsorted(self.numbers, one)] = np.searchsorted(self.numbers, other)

    def _fill_logged(self) -> bool:
        """Which operations are accesses to a centre of the rank; returns whether any is."""
        schedule, rank = self._own.schedule, self._own.rank
        self.ops["is_logged"] = [
            schedule.ops[i].centre is not None and schedule.centre_of(i).rank == rank for i in self.op_numbers
        ]
        return bool(self.ops["is_logged"].any())

    def _link(self, sends: Sends, is_send: Columns, computed: Sequence[int]) -> None:
        """What waits for what: transfers for others and for their operations' gates, gates for operations."""
        waits = _chosen(sends.needs, sends.ready, is_send)
        self.transfers["left"] = waits.counts + 1 + self._takes_lock(sends.op)
        waiters = _inverted(waits.owners, np.searchsorted(self.numbers, waits.ids), len(self.numbers))
        op = self._op_places(sends.op)
        in_order = np.lexsort((is_send, op))  # of an operation the receives first, as they are posted
        of_op = _inverted(in_order, op[in_order], len(self.ops))
        self.ops["left"] = np.maximum(of_op.counts, 1)
        after = self._gates(computed)
        rank = self.rank
        rank.first_waiter, rank.waiters = self._address(waiters.starts), self._address(waiters.ids)
        rank.first_of_op, rank.of_op = self._address(of_op.starts), self._address(of_op.ids)
        rank.first_after, rank.after = self._address(after.starts), self._address(after.ids)

    def _takes_lock(self, ops: Columns) -> Columns:
        """Fill in which operations take the rank's lock, and what frees it; returns which of `ops` do."""
        self.ops["freed_by"] = -1
        for lock in self._own.schedule.locks:
            if lock.rank == self._own.rank and lock.sections:
                first, last = self._op_places(np.array(lock.sections).T)
                self.ops["freed_by"][first] = last
        takes: Columns = self.ops["freed_by"][self._op_places(ops)] >= 0
        return takes

    def _op_places(self, numbers: Columns) -> Columns:
        return np.searchsorted(self.op_numbers, numbers)

    def run(self, start_ns: int) -> None:
        """Wait for the common start, do the whole schedule, wait for the others of this machine; `keep_times`
        is for later.  Raise PeerLost or Stalled.
        """
        times, rank = self._own.times, self.rank
        times.start_ns = rank.start_ns = start_ns
        while (failure := library().rank_run(rank)) == Failure.INTERRUPTED:
            pass  # Python has handled the signal
        for name in ("began_ns", "done_ns", "late_gap_ns", "cpu_ns", "run_delay_ns"):
            setattr(times, name, getattr(rank, name))
        for place, peer in enumerate(self._peers):
            self._own.connections[peer].framing_nbytes += rank.peers[place].framing_nbytes
        if failure:
            raise self._fault(Failure(failure))
        for op, is_over in self._accesses[: rank.n_accesses].tolist():
            self._own.accesses.append(Access(int(self.op_numbers[op]), bool(is_over)))

    def _fault(self, failure: Failure) -> Exception:
        place = self.rank.failed_peer
        if failure is Failure.LOCAL:
            return OSError(self.rank.error_number, os.strerror(self.rank.error_number))
        if failure is Failure.STALLED:
            left = np.flatnonzero(self.transfers["is_over"] == 0)
            return Stalled(self._own.waiting_for(int(self.numbers[left[0]]), len(left)))
        if failure is Failure.NO_SCHEDSTAT:
            return OSError("/proc/thread-self/schedstat does not say how long a thread ran")
        detail, slot = self.rank.peers[place].detail, self.rank.peers[place].slot
        said = {
            Failure.CLOSED: "closed its connection",
            Failure.NOT_GLOO: "sent bytes that are not a gloo preamble",
            Failure.UNPLANNED: f"sent {detail} bytes in slot {slot:#x}, which the plan does not have",
        }
        words = f" {said[failure]}" if failure in said else f": {os.strerror(detail)}"
        return PeerLost(f"rank {self._peers[place]}{words}")

    def keep_times(self) -> None:
        """Fill in when each send and operation of what was run began and ended."""
        times = self._own.times
        for name in ("queued_ns", "handed_ns", "arrived_ns"):
            getattr(times, name).update(_stamped(self.numbers, self.transfers[name]))
        for name in ("computing_ns", "computed_ns"):
            getattr(times, name).update(_stamped(self.op_numbers, self.ops[name]))

    def _gates(self, computed: Sequence[int]) -> Edges:
        """Fill in what opens operations; returns, of each, those whose gates wait for it."""
        places = {int(op): place for place, op in enumerate(self.op_numbers)}
        before, later = [], []
        for gate in self._own.schedule.gates:
            if gate.rank == self._own.rank and (place := places.get(gate.op)) is not None:
                after = [places[other] for other in gate.after if other in places]
                self.ops["gap_ns"][place], self.ops["is_in_turn"][place] = gate.gap_ns, gate.is_in_turn
                self.ops["gate_left"][place] = len(after)
                before += after
                later += [place] * len(after)
        self.ops["computes"][[places[op] for op in computed]] = 1
        return _inverted(np.array(later, np.int32), np.array(before, np.int32), len(self.ops))

    def _lanes(self, sends: Sends, is_send: Columns) -> tuple[Columns, Columns]:
        """The lanes, and the transfers lane by lane, in their order."""
        schedule = self._own.schedule
        slots = np.array(slots_of(schedule, self._own.repeat), np.uint64)
        keys = np.empty(len(sends), [("peer", np.int64), ("is_send", np.bool_), ("slot", np.uint64)])
        keys["peer"] = np.searchsorted(self._peers, np.where(is_send, sends.dst, sends.src))
        keys["is_send"], keys["slot"] = is_send, slots[sends.op]
        order = np.lexsort((np.arange(len(sends)), keys["slot"], keys["is_send"], keys["peer"]))
        in_order = keys[order]
        begins = np.flatnonzero(np.concatenate(([True], in_order[1:] != in_order[:-1]))[: len(order)])
        lanes = _zeros(LANE, len(begins))
        lanes["slot"], lanes["peer"] = in_order["slot"][begins], in_order["peer"][begins]
        lanes["is_of_sends"] = in_order["is_send"][begins]
        lanes["begin"], lanes["end"] = begins, np.append(begins[1:], len(order))[: len(begins)]
        lanes["next"] = lanes["next_announced"] = lanes["next_asked"] = begins
        rendezvous = np.array([each.rendezvous for each in schedule.ops], np.bool_)
        lanes["has_rendezvous"] = rendezvous[sends.op[order]][begins]
        _, other_way, n_ways = np.unique(lanes[["peer", "slot"]], return_inverse=True, return_counts=True)
        lanes["announced_ahead"] = np.where(n_ways[other_way] == 1, ANNOUNCED_AHEAD, ALL_AHEAD)
        self.transfers["lane"][order] = np.repeat(np.arange(len(begins)), lanes["end"] - begins)
        return lanes, order.astype(np.int32)

    def _connected(self) -> Any:
        """The peers, with room for what is queued for each: two messages of a send, one of a receive."""
        made = (Peer * len(self._peers))()
        with_peer = np.bincount(self.lanes["peer"][self.transfers["lane"]], minlength=len(made))
        side = 2 * self.lanes["peer"] + self.lanes["is_of_sends"]
        begins = np.searchsorted(side, np.arange(2 * len(made) + 1))
        largest = int(np.max(self.transfers["nbytes"], where=self.transfers["adding"] > 0, initial=0))
        for place, number in enumerate(self._peers):
            peer, first_lane = made[place], begins[2 * place : 2 * place + 3]
            peer.fd = self._own.connections[number].sock.fileno()
            peer.first_lane[:] = first_lane[:2].tolist()
            peer.n_lanes[:] = np.diff(first_lane).tolist()
            peer.out_room = 2 * int(with_peer[place]) + 1
            peer.out = self._room(np.uint8, peer.out_room * MESSAGE_NBYTES)
            peer.scratch = self._address(np.full(largest, 0, np.uint8))  # not zeros: pages are made now
            peer.receiving = -1
        self._kept.append(made)
        return made

    def _addresses(self, ops: Columns, offsets: Columns, nbytes: Columns) -> Columns:
        """Where bytes begin; IndexError if they go beyond a buffer, which a plan that was checked has not."""
        buffers = [self._own.buffers.get(int(op)) for op in self.op_numbers]
        base = np.array([0 if each is None else each.ctypes.data for each in buffers], np.uint64)
        room = np.array([0 if each is None else len(each) for each in buffers])
        of_op = self._op_places(ops)
        if np.any((offsets < 0) | (offsets + nbytes > room[of_op])):
            raise IndexError("a send goes beyond its buffer")
        return base[of_op] + offsets.astype(np.uint64)

    def _adding(self, ops: Columns) -> Columns:
        of_op = [ADDING[self._own.schedule.ops[int(op)].dtype] for op in self.op_numbers]
        made: Columns = np.array(of_op, np.uint8)[self._op_places(ops)]
        return made

    def _address(self, column: Columns) -> int:
        self._kept.append(column)
        return column.ctypes.data

    def _room(self, dtype: Any, n: int) -> int:
        return self._address(np.full(n, 0, dtype))


def _zeros(dtype: np.dtype[Any], n: int) -> Columns:
    return np.full(n, np.zeros((), dtype))


def _stamped(numbers: Columns, times_ns: Columns) -> dict[int, int]:
    there = times_ns > 0
    return dict(zip(numbers[there].tolist(), times_ns[there].tolist(), strict=True))


def _inverted(owners: Columns, ids: Columns, n: int) -> Edges:
    """For each of n ids, the owners that name it, in their order."""
    order = np.argsort(ids, kind="stable")
    starts = np.zeros(n + 1, np.int32)
    np.cumsum(np.bincount(ids, minlength=n), out=starts[1:])
    return Edges(starts, np.ascontiguousarray(owners[order], np.int32))


def _chosen(needs: Edges, ready: Edges, is_send: Columns) -> Edges:
    """What sends need, and what receives are ready after."""
    owners = np.concatenate((needs.owners[is_send[needs.owners]], ready.owners[~is_send[ready.owners]]))
    ids = np.concatenate((needs.ids[is_send[needs.owners]], ready.ids[~is_send[ready.owners]]))
    order = np.argsort(owners, kind="stable")
    starts = np.zeros(len(is_send) + 1, np.int32)
    np.cumsum(np.bincount(owners, minlength=len(is_send)), out=starts[1:])
    return Edges(starts, ids[order])
