"""The compiled library for ranks (compile.sh): the struct layouts of worker.h, and its functions."""

import ctypes
from ctypes import POINTER, c_int, c_int64, c_uint16, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

from gradwire.emu.clibrary import loaded_library
from gradwire.emu.project import WORKER_LIBRARY

NEVER = (1 << 63) - 1
_FINISHED = 96


@dataclass(frozen=True, slots=True)
class WorkerCounts:
    """As `emu.aggregation.figures.RankFigures` has them; `probes` ask whether the tree was built again."""

    sent: int
    retransmitted: int
    received: int
    duplicates: int
    statuses: int
    moves: int
    probes: int


class WorkerFailure(IntEnum):
    """`enum failure`."""

    NONE, NO_ANSWER, INCOMPLETE, NOT_FINITE, NO_CHUNKS, FORGOTTEN, BROKEN = range(7)


class WorkerReport(ctypes.Structure):
    """`struct report`."""

    _fields_ = (
        ("due_ns", c_int64),
        ("pause_ns", c_int64),
        *((name, c_uint64) for name in WorkerCounts.__dataclass_fields__),
        ("seen", c_uint64),
        ("position", c_int64),
        ("element", c_uint64),
        ("finished", c_int64 * _FINISHED),
        *(
            (name, c_uint32)
            for name in ("n_finished", "wants_to_send", "epoch", "has_status", "levels", "error_number")
        ),
    )


@cache
def library() -> ctypes.CDLL:
    """Raise OSError if it was not compiled."""
    pointer = c_void_p
    return loaded_library(
        WORKER_LIBRARY,
        {
            "worker_new": (pointer, (c_int, c_uint16, c_uint16, *[c_uint32] * 4, c_int64, c_int64)),
            "worker_begin": (c_int64, (pointer, pointer, pointer, pointer, c_uint64)),
            "worker_step": (c_int, (pointer, c_int64)),
            "worker_run": (c_int, (pointer, c_int, c_int64)),
            "worker_forget": (c_int64, (pointer,)),
            "worker_report": (POINTER(WorkerReport), (pointer,)),
            "worker_free": (None, (pointer,)),
        },
    )
