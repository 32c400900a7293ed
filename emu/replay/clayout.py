"""The structs of rank.h, which a test compares with C's, and the compiled loop that works on them."""

import ctypes
from ctypes import POINTER, c_int, c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p
from enum import IntEnum
from functools import cache

import numpy as np

from gradwire import COMMAND
from gradwire.emu.clibrary import loaded_library
from gradwire.emu.project import RANK_LIBRARY
from gradwire.traces.framing.gloo import PREAMBLE_NBYTES

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
        *((name, np.int32) for name in ("left", "gate_left", "freed_by")),
        *((name, np.uint8) for name in ("computes", "is_logged", "is_prepared", "is_in_turn")),
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
                "announced_ahead",
                "next_asked",
                "credit",
                "has_rendezvous",
                "is_of_sends",
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

    NONE, INTERRUPTED, STALLED, CLOSED, BROKEN, NOT_GLOO, UNPLANNED, LOCAL, NO_SCHEDSTAT = range(9)


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
        *((name, c_uint32) for name in ("out_room", "out_head", "n_out")),
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
        *((name, c_int64) for name in ("start_ns", "began_ns", "delay_ns", "stall_ns")),
        *((name, c_int64) for name in ("heard_ns", "read_ns", "late_gap_ns")),
        ("is_joining", c_int32),
        *((name, c_int32) for name in ("n_transfers", "n_ops", "n_lanes", "n_peers", "n_unfinished")),
        *((name, c_int32) for name in ("n_uncomputed", "n_done", "n_accesses", "n_under_way", "failed_peer")),
        ("lock_freed_by", c_int32),
        *(
            pair
            for name in ("possible", "gaps", "touched", "asked")
            for pair in ((name, c_void_p), (f"n_{name}", c_int32))
        ),
        ("held", c_void_p),
        *((name, Heap) for name in ("computing", "delayed")),
        *((name, c_int32) for name in ("epoll", "first_touched", "error_number")),
        *(
            (name, c_int64)
            for name in ("done_ns", "ran_before_ns", "waited_before_ns", "cpu_ns", "run_delay_ns")
        ),
        *((name, c_void_p) for name in ("line", "is_there")),
        *((name, c_int32) for name in ("n_here", "n_for_all")),
    )


@cache
def library() -> ctypes.CDLL:
    """Raise OSError if it was not compiled, or from another version of rank.h."""
    loaded = loaded_library(
        RANK_LIBRARY,
        {
            "rank_layout": (c_int64, (c_uint32,)),
            "rank_run": (c_int, (POINTER(Rank),)),
            "rank_begin": (None, (POINTER(Rank),)),
            "rank_finished": (None, (POINTER(Rank), c_int32)),
            "rank_opened": (None, (POINTER(Rank), c_int32)),
            "rank_asked": (None, (POINTER(Rank), c_int32)),
            "add_up": (None, (c_void_p, c_void_p, c_int64, c_int)),
        },
    )
    sizes = [ctypes.sizeof(Rank), ctypes.sizeof(Peer)]
    sizes += [each.itemsize for each in (TRANSFER, OPERATION, LANE, ACCESS, DUE)] + [MESSAGE_NBYTES]
    if [loaded.rank_layout(place) for place in range(len(sizes))] != sizes:
        raise OSError(f"the compiled {RANK_LIBRARY.name} is of another version; run sudo {COMMAND} setup")
    return loaded
