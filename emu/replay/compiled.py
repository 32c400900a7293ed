"""A rank's loop in C (rank.h), for plans of sends, computing and centres: its columns and its calls.

`loop.Loop` says the same in Python, and does what this leaves to it: aggregations, pairs, locks, and sends of
which the newest leave first.  Python takes five times as much of a processor for a small send, which limits
how many ranks a machine can carry.
"""

import ctypes
import os
from collections.abc import Sequence
from ctypes import POINTER, c_int, c_int32, c_int64, c_uint8, c_uint64, c_void_p
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwire import COMMAND
from gradwire.emu.project import RANK_LIBRARY
from gradwire.emu.replay.centre_values import Access
from gradwire.emu.replay.connection import PeerLost
from gradwire.emu.replay.outcome import Stalled
from gradwire.emu.replay.ranked import Ranked
from gradwire.emu.replay.slots import slots_of
from gradwire.traces.framing.gloo import PREAMBLE_NBYTES
from gradwire.traces.schedules.outbox import FIFO
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.schedules.sends import Edges, swaps

Columns = NDArray[Any]

TRANSFER = np.dtype(
    [
        ("bytes", np.uint64),
        *((name, np.int64) for name in ("nbytes", "queued_ns", "handed_ns", "arrived_ns", "added")),
        *((name, np.int32) for name in ("op", "lane", "left", "other_half")),
        *((name, np.uint8) for name in ("is_send", "adding", "is_ready", "is_over")),
    ],
    align=True,
)
OPERATION = np.dtype(
    [
        *((name, np.int64) for name in ("gap_ns", "computing_ns", "computed_ns")),
        *((name, np.int32) for name in ("left", "gate_left")),
        *((name, np.uint8) for name in ("computes", "is_logged")),
    ],
    align=True,
)
LANE = np.dtype(
    [
        ("slot", np.uint64),
        *(
            (name, np.int32)
            for name in (
                "peer",
                "begin",
                "end",
                "next",
                "next_announced",
                "asked",
                "credit",
                "has_rendezvous",
            )
        ),
    ],
    align=True,
)
MESSAGE_NBYTES = PREAMBLE_NBYTES + 32
ACCESS = np.dtype([("op", np.int32), ("is_over", np.int32)])
DUE = np.dtype([("due_ns", np.int64), ("number", np.int32)], align=True)
ADDING = {"float32": 1, "float16": 2, "bfloat16": 3}


class Failure(IntEnum):
    """`enum failure`."""

    NONE, INTERRUPTED, STALLED, CLOSED, BROKEN, NOT_GLOO, UNPLANNED, LOCAL = range(8)


class Peer(ctypes.Structure):
    """`struct peer`."""

    _fields_ = (
        ("fd", c_int32),
        ("n_lanes", c_int32 * 2),
        ("first_lane", c_int32 * 2),
        ("scratch", c_void_p),
        ("framing_nbytes", c_int64),
        ("detail", c_int64),
        ("slot", c_uint64),
        ("out", c_void_p),
        *((name, ctypes.c_uint32) for name in ("out_room", "out_head", "n_out")),
        ("head", c_uint8 * PREAMBLE_NBYTES),
        *((name, c_int32) for name in ("head_got", "receiving")),
        ("body", c_void_p),
        ("body_got", c_int64),
        *((name, c_uint8) for name in ("is_touched", "is_writing")),
    )


class Heap(ctypes.Structure):
    """`struct heap`."""

    _fields_ = (("at", c_void_p), ("n", c_int32))


class Rank(ctypes.Structure):
    """`struct rank`."""

    _fields_ = (
        *((name, c_void_p) for name in ("transfers", "ops", "lanes")),
        ("peers", POINTER(Peer)),
        *(
            (name, c_void_p)
            for name in (
                *("in_order", "first_waiter", "waiters", "first_of_op", "of_op", "first_after", "after"),
                *("accesses", "place"),
            )
        ),
        *((name, c_int64) for name in ("delay_ns", "stall_ns", "heard_ns", "late_gap_ns")),
        *((name, c_int32) for name in ("n_transfers", "n_ops", "n_lanes", "n_peers", "n_unfinished")),
        *((name, c_int32) for name in ("n_uncomputed", "n_done", "n_accesses", "n_under_way", "failed_peer")),
        *(
            pair
            for name in ("possible", "gaps", "touched")
            for pair in ((name, c_void_p), (f"n_{name}", c_int32))
        ),
        ("held", c_void_p),
        *((name, Heap) for name in ("computing", "delayed")),
        *((name, c_int32) for name in ("epoll", "first_touched", "error_number")),
    )


@cache
def library() -> ctypes.CDLL:
    """Raise OSError if it was not compiled."""
    try:
        loaded = ctypes.CDLL(str(RANK_LIBRARY))
    except OSError as error:
        raise OSError(f"the ranks' library does not load: {error}; run sudo {COMMAND} setup") from error
    signatures: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "rank_layout": (c_int64, ()),
        "rank_run": (c_int, (POINTER(Rank),)),
        "rank_begin": (None, (POINTER(Rank),)),
        "rank_finished": (None, (POINTER(Rank), c_int32)),
        "rank_opened": (None, (POINTER(Rank), c_int32)),
        "add_up": (None, (c_void_p, c_void_p, c_int64, c_int)),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    layout = ctypes.sizeof(Rank) * 1_000_000 + ctypes.sizeof(Peer) * 1000 + TRANSFER.itemsize
    if loaded.rank_layout() != layout:
        raise OSError(f"the ranks' library is another version's; run sudo {COMMAND} setup")
    return loaded


def is_for(schedule: Schedule) -> bool:
    """Whether the loop in C carries out all that the schedule asks of a rank."""
    has_pairs = any(op.contract.has_pairs for op in schedule.ops)
    return not (schedule.aggregations or schedule.locks or has_pairs) and schedule.order == FIFO


class CompiledLoop:
    """The rank's loop of one repeat."""

    def __init__(self, ranked: Ranked) -> None:
        library()
        self._ranked = ranked
        schedule, rank = ranked.schedule, ranked.rank
        self.numbers = schedule.sends.numbers_of(rank)
        sends = schedule.sends.chosen(self.numbers, keep_edges=True)
        is_send = sends.src == rank
        computed = [i for i, op in enumerate(schedule.ops) if op.kind == "compute" and op.root == rank]
        self.op_numbers = np.union1d(sends.op, np.array(computed, np.int32)).astype(np.int32)
        self._kept: list[Any] = []  # what C has addresses of
        self.transfers = _zeros(TRANSFER, len(self.numbers))
        self.ops = _zeros(OPERATION, len(self.op_numbers))
        transfers, op = self.transfers, np.searchsorted(self.op_numbers, sends.op)
        transfers["op"], transfers["nbytes"], transfers["is_send"] = op, sends.nbytes, is_send
        transfers["bytes"] = self._addresses(
            sends.op, sends.offset + np.where(is_send, 0, sends.shift), sends.nbytes
        )
        transfers["adding"] = self._adding(sends.op) * (sends.reduce & ~is_send)
        transfers["other_half"] = -1
        for one, other in swaps(schedule.sends, self.numbers).items():
            transfers["other_half"][np.searchsorted(self.numbers, one)] = np.searchsorted(self.numbers, other)
        waits = _chosen(sends.needs, sends.ready, is_send)
        transfers["left"] = waits.counts + 1
        waiters = _inverted(waits.owners, np.searchsorted(self.numbers, waits.ids), len(self.numbers))
        in_order = np.lexsort((is_send, op))  # of an operation the receives first, as they are posted
        of_op = _inverted(in_order, op[in_order], len(self.ops))
        self.ops["left"] = np.maximum(of_op.counts, 1)
        after = self._gates(computed)
        logged = [
            schedule.ops[i].centre is not None and schedule.centre_of(i).rank == rank for i in self.op_numbers
        ]
        self.ops["is_logged"] = logged
        self._peers = sorted(ranked.connections)
        order = self._lanes(np.where(is_send, sends.dst, sends.src), is_send, sends.op)
        self.rank = Rank(
            transfers=self._address(self.transfers),
            ops=self._address(self.ops),
            lanes=self._address(self.lanes),
            in_order=self._address(order.astype(np.int32)),
            first_waiter=self._address(waiters.starts),
            waiters=self._address(waiters.ids),
            first_of_op=self._address(of_op.starts),
            of_op=self._address(of_op.ids),
            first_after=self._address(after.starts),
            after=self._address(after.ids),
            place=ranked.place.address if ranked.place is not None else None,
            delay_ns=schedule.send_delay_ns,
            stall_ns=int(ranked.stall_s * 1e9),
            n_transfers=len(self.numbers),
            n_ops=len(self.ops),
            n_lanes=len(self.lanes),
            n_peers=len(self._peers),
            n_unfinished=len(self.numbers),
            n_uncomputed=len(computed),
            possible=self._room(np.int32, len(self.numbers)),
            gaps=self._room(np.int32, len(self.ops)),
            touched=self._room(np.int32, len(self._peers)),
            held=self._room(np.uint64, len(self.numbers)),
            computing=Heap(self._room(DUE, len(self.ops))),
            delayed=Heap(self._room(DUE, len(self.numbers))),
        )
        if ranked.place is not None:
            ranked.place.begin(len(self.ops), len(self.numbers))
        self._accesses = _zeros(ACCESS, 3 * len(self.numbers) if any(logged) else 0)
        self.rank.accesses = self._address(self._accesses)
        self.rank.peers = self._connected(
            largest=int(np.max(transfers["nbytes"], where=transfers["adding"] > 0, initial=0))
        )

    def run(self, start_ns: int) -> None:
        """Wait for the common start, do the whole schedule.  Raise PeerLost or Stalled."""
        self._ranked.times.wait(start_ns)
        while (failure := library().rank_run(self.rank)) == Failure.INTERRUPTED:
            pass  # Python has handled the signal
        for place, peer in enumerate(self._peers):
            self._ranked.connections[peer].framing_nbytes += self.rank.peers[place].framing_nbytes
        if failure:
            raise self._fault(Failure(failure))
        self._keep_times()

    def _fault(self, failure: Failure) -> Exception:
        place = self.rank.failed_peer
        if failure is Failure.LOCAL:
            return OSError(self.rank.error_number, os.strerror(self.rank.error_number))
        if failure is Failure.STALLED:
            left = np.flatnonzero(self.transfers["is_over"] == 0)
            return Stalled(self._ranked.waiting_for(int(self.numbers[left[0]]), len(left)))
        detail, slot = self.rank.peers[place].detail, self.rank.peers[place].slot
        said = {
            Failure.CLOSED: "closed its connection",
            Failure.NOT_GLOO: "sent bytes that are not a gloo preamble",
            Failure.UNPLANNED: f"sent {detail} bytes in slot {slot:#x}, which the plan does not have",
        }
        words = f" {said[failure]}" if failure in said else f": {os.strerror(detail)}"
        return PeerLost(f"rank {self._peers[place]}{words}")

    def _keep_times(self) -> None:
        times, ranked = self._ranked.times, self._ranked
        times.late_gap_ns = self.rank.late_gap_ns
        for name in ("queued_ns", "handed_ns", "arrived_ns"):
            getattr(times, name).update(_stamped(self.numbers, self.transfers[name]))
        for name in ("computing_ns", "computed_ns"):
            getattr(times, name).update(_stamped(self.op_numbers, self.ops[name]))
        for op, is_over in self._accesses[: self.rank.n_accesses].tolist():
            ranked.accesses.append(Access(int(self.op_numbers[op]), bool(is_over)))

    def _gates(self, computed: Sequence[int]) -> Edges:
        """Fill in what opens operations; returns, of each, those whose gates wait for it."""
        places = {int(op): place for place, op in enumerate(self.op_numbers)}
        before, later = [], []
        for gate in self._ranked.schedule.gates:
            if gate.rank == self._ranked.rank and (place := places.get(gate.op)) is not None:
                after = [places[other] for other in gate.after if other in places]
                self.ops["gap_ns"][place] = gate.gap_ns
                self.ops["gate_left"][place] = len(after)
                before += after
                later += [place] * len(after)
        self.ops["computes"][[places[op] for op in computed]] = 1
        return _inverted(np.array(later, np.int32), np.array(before, np.int32), len(self.ops))

    def _lanes(self, peer: Columns, is_send: Columns, op: Columns) -> Columns:
        """Make the lanes; returns the transfers lane by lane, in their order."""
        schedule = self._ranked.schedule
        slots = np.array(slots_of(schedule, self._ranked.repeat), np.uint64)
        keys = np.empty(len(op), [("peer", np.int64), ("is_send", np.bool_), ("slot", np.uint64)])
        keys["peer"], keys["is_send"], keys["slot"] = np.searchsorted(self._peers, peer), is_send, slots[op]
        order = np.lexsort((np.arange(len(op)), keys["slot"], keys["is_send"], keys["peer"]))
        in_order = keys[order]
        begins = np.flatnonzero(np.concatenate(([True], in_order[1:] != in_order[:-1]))[: len(order)])
        self.lanes = _zeros(LANE, len(begins))
        lanes = self.lanes
        lanes["slot"], lanes["peer"] = in_order["slot"][begins], in_order["peer"][begins]
        lanes["begin"], lanes["end"] = begins, np.append(begins[1:], len(order))[: len(begins)]
        lanes["next"] = lanes["next_announced"] = begins
        rendezvous = np.array([each.rendezvous for each in schedule.ops], np.bool_)
        lanes["has_rendezvous"] = rendezvous[op[order]][begins]
        self._of_peer = np.searchsorted(
            2 * in_order["peer"][begins] + in_order["is_send"][begins], np.arange(2 * len(self._peers) + 1)
        )
        self.transfers["lane"][order] = np.repeat(np.arange(len(begins)), lanes["end"] - begins)
        return order

    def _connected(self, largest: int) -> Any:
        """The peers, with room for what is queued for each: two messages of a send, one of a receive."""
        made = (Peer * len(self._peers))()
        with_peer = np.bincount(self.lanes["peer"][self.transfers["lane"]], minlength=len(made))
        for place, number in enumerate(self._peers):
            peer, lanes = made[place], self._of_peer[2 * place : 2 * place + 3]
            peer.fd = self._ranked.connections[number].sock.fileno()
            peer.first_lane[:] = lanes[:2].tolist()
            peer.n_lanes[:] = np.diff(lanes).tolist()
            peer.out_room = 2 * int(with_peer[place]) + 1
            peer.out = self._room(np.uint8, peer.out_room * MESSAGE_NBYTES)
            peer.scratch = self._address(np.full(largest, 0, np.uint8))  # not zeros: pages are made now
            peer.receiving = -1
        self._kept.append(made)
        return made

    def _addresses(self, ops: Columns, offsets: Columns, nbytes: Columns) -> Columns:
        """Where bytes begin; IndexError if they go beyond a buffer, which a plan that was checked has not."""
        buffers = [self._ranked.buffers.get(int(op)) for op in self.op_numbers]
        base = np.array([0 if each is None else each.ctypes.data for each in buffers], np.uint64)
        room = np.array([0 if each is None else len(each) for each in buffers])
        of_op = np.searchsorted(self.op_numbers, ops)
        if np.any((offsets < 0) | (offsets + nbytes > room[of_op])):
            raise IndexError("a send goes beyond its buffer")
        return base[of_op] + offsets.astype(np.uint64)

    def _adding(self, ops: Columns) -> Columns:
        of_op = [ADDING[self._ranked.schedule.ops[int(op)].dtype] for op in self.op_numbers]
        made: Columns = np.array(of_op, np.uint8)[np.searchsorted(self.op_numbers, ops)]
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
