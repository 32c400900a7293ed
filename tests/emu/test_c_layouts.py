"""What C's headers and Python both have is the same: C's compiler is asked, with nothing loaded."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from gradwire.emu.aggregation import library
from gradwire.emu.replay import clayout as ranks
from gradwire.emu.replay.sums import SUM_BITS
from gradwire.emu.switch import ports
from gradwire.emu.switch.plane import maps, pools
from gradwire.planning.openflow import entries
from gradwire.planning.openflow.match import Form
from gradwire.planning.openflow.pool import EVENTS
from gradwire.planning.trees.tree import MAX_CHILDREN, MAX_LARGE_SLOTS, MAX_POOLS, MAX_SMALL_SLOTS
from gradwire.traces.framing import aggregation

ROOT = Path(__file__).parents[2]
KINDS = {kind.name: kind.value for kind in aggregation.PacketKind}
SWITCH = {
    "MAX_SWITCHES": ports.MAX_SWITCHES,
    "MAX_PORTS": ports.MAX_PORTS,
    "MAX_SWITCH_PORTS": ports.MAX_SWITCH_PORTS,
    "MAX_FLOWS": entries.MAX_FLOWS,
    "MAX_GROUPS": entries.MAX_GROUPS,
    "MAX_BUCKETS": entries.MAX_BUCKETS,
    "sizeof(struct port)": maps._PORT.size,
    "sizeof(struct rule)": maps._RULE.size,
    **{form.name: form.value for form in Form},
}
AGGREGATION = {
    "MAX_POOLS": MAX_POOLS,
    "MAX_SMALL_SLOTS": MAX_SMALL_SLOTS,
    "MAX_LARGE_SLOTS": MAX_LARGE_SLOTS,
    "MAX_SMALL": pools.SMALL,
    "MAX_LARGE": pools.LARGE,
    "MAX_CHILDREN": MAX_CHILDREN,
    "FROM_PARENT": entries.FROM_PARENT,
    "MESSAGE_VERSION": aggregation.VERSION,
    "NO_PEAK": aggregation.NO_PEAK,
    "sizeof(struct message)": aggregation.HEADER_NBYTES,
    "sizeof(struct pool)": pools._POOL.size,
    "sizeof(struct small_slots)": len(pools._EMPTY[pools.SMALL]),
    "sizeof(struct large_slots)": len(pools._EMPTY[pools.LARGE]),
    **KINDS,
    **{event.upper(): number for number, event in enumerate(EVENTS)},
    "N_EVENTS": len(EVENTS),
}
REPORT = [name for name, *_ in library.WorkerReport._fields_]
WORKER = {
    "VERSION": aggregation.VERSION,
    "NO_PEAK": aggregation.NO_PEAK,
    "SUM_BITS": SUM_BITS,
    "sizeof(struct header)": aggregation.HEADER_NBYTES,
    **KINDS,
    **{failure.name: failure.value for failure in library.WorkerFailure},
    "sizeof(struct report)": ctypes.sizeof(library.WorkerReport),
    **{f"offsetof(struct report, {name})": getattr(library.WorkerReport, name).offset for name in REPORT},
}

ROWS = {
    "transfer": ranks.TRANSFER,
    "operation": ranks.OPERATION,
    "lane": ranks.LANE,
    "access": ranks.ACCESS,
    "due": ranks.DUE,
}
STRUCTS = {"peer": ranks.Peer, "heap": ranks.Heap, "rank": ranks.Rank}
RANKS = {
    "sizeof(struct message)": ranks.MESSAGE_NBYTES,
    **{failure.name: failure.value for failure in ranks.Failure},
    **{f"ADDS_{name.upper()}": number for name, number in ranks.ADDING.items()},
    **{f"sizeof(struct {name})": row.itemsize for name, row in ROWS.items()},
    **{
        f"offsetof(struct {name}, {field})": offset
        for name, row in ROWS.items()
        for field, (_, offset, *_) in (row.fields or {}).items()
    },
    **{f"sizeof(struct {name})": ctypes.sizeof(struct) for name, struct in STRUCTS.items()},
    **{
        f"offsetof(struct {name}, {field})": getattr(struct, field).offset
        for name, struct in STRUCTS.items()
        for field, *_ in struct._fields_
    },
}


def compiled(headers: tuple[str, ...], same: dict[str, int], *flags: str) -> str:
    """What the compiler has to say about C and Python having the same numbers."""
    lines = ["#include <stddef.h>", *(f'#include "{ROOT / header}"' for header in headers)]
    lines += [f'_Static_assert({name} == {value}, "");' for name, value in same.items()]
    machine = subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()
    command = ["clang", "-fsyntax-only", f"-I/usr/include/{machine}-linux-gnu", *flags, "-x", "c", "-"]
    return subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize(
    ("headers", "same", "flags"),
    [
        (("emu/switch/layout.h",), SWITCH, ("-target", "bpf")),
        (("emu/switch/work.h",), AGGREGATION, ("-target", "bpf")),
        (("emu/aggregation/numbers.h", "emu/aggregation/worker.h"), WORKER, ()),
        (("emu/replay/rank.h",), RANKS, ()),
    ],
)
def test_c_and_python_have_the_same_numbers_in_the_same_places(
    headers: tuple[str, ...], same: dict[str, int], flags: tuple[str, ...]
) -> None:
    assert compiled(headers, same, *flags) == ""


def test_a_number_that_differs_is_reported() -> None:
    assert "MAX_POOLS == 4095" in compiled(("emu/switch/pools.h",), {"MAX_POOLS": 4095}, "-target", "bpf")
