"""How many contributions per second one processor adds up: the switch's action alone, without a network.

    sudo .venv/bin/python -m benchmarks.additions [--elements 64,256,2048] [--children 8] [--json]

The kernel runs the action (BPF_PROG_TEST_RUN with `repeat`) on the packets of all children of all chunks in
turn, so that each is added once and the last child's completes the chunk; its result is addressed, copied and
sent to each child like any, to cables whose far ends are down.  `additions_per_s` is of all that but the
making of the packets, whose time is measured in a series of its own and taken off; `with_making_per_s` leaves
it in.  Completions are counted and the sums in the slots are compared with numpy's; a wrong one is an error.
The best of several series counts: what disturbs only ever slows.
"""

import argparse
import ctypes
import json
import socket
import struct
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from gradwire.emu.kernel.isolate import isolated, stop
from gradwire.emu.project import PROJECT
from gradwire.emu.switch.plane.bpf import BpfObject, ProgramRun
from gradwire.emu.switch.plane.pools import LARGE, SMALL, Pools
from gradwire.planning.fabrics.fabric import AGGREGATOR_IP
from gradwire.planning.openflow.entries import Aggregate
from gradwire.traces.framing.aggregation import FIRST_PORT, Header, PacketKind, encode

Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]

JOB, EPOCH, SLOTS = 1, 0, 64
N_PACKETS = 200_000
SERIES = 5
MTU = 9000
LIMIT_S = 120
_PROGRESS = struct.Struct("=IIIIII")
_PACKET_NBYTES = 66 + 4 * LARGE
_VALUES_AT = 8 + 2 * 32  # in a slot: after the lock and the states of its versions


@dataclass(frozen=True, slots=True)
class Rate:
    """`ns` is of one addition, `making_ns` of one packet's making."""

    elements: int
    children: int
    ns: float
    making_ns: float
    additions_per_s: float
    with_making_per_s: float
    completed: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--elements", default="64,256,2048")
    parser.add_argument("--children", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.elements.split(",")]
    if arguments.inside:
        print(json.dumps([asdict(rate) for rate in measured(sizes, arguments.children)]))
        return
    given = ["--inside", "--elements", arguments.elements, "--children", str(arguments.children)]
    process = isolated("benchmarks.additions", given, stdout=subprocess.PIPE)
    try:
        said, _ = process.communicate(timeout=LIMIT_S)
    finally:
        stop(process)
    if process.returncode:
        sys.exit(process.returncode)
    rows = json.loads(said)
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    print("elements  children   additions/s   ns each   Gbit/s added   with making/s")
    for row in rows:
        gbps = row["additions_per_s"] * row["elements"] * 32 / 1e9
        print(
            f"{row['elements']:8}  {row['children']:8}  {row['additions_per_s']:12,.0f}  {row['ns']:8.0f}"
            f"  {gbps:13.1f}  {row['with_making_per_s']:14,.0f}"
        )


def measured(sizes: list[int], n_children: int) -> list[Rate]:
    ifindex = {port: _sink(port) for port in range(1, n_children + 1)}
    with tempfile.TemporaryDirectory(prefix="gradwire-additions-") as folder:
        path = _compiled(Path(folder))
        return [_rate(path, elements, ifindex) for elements in sizes]


def _sink(port: int) -> int:
    """The index of an interface that swallows what it is sent: a cable's end whose other end is down."""
    pair = f"link add s{port} mtu {MTU} type veth peer name h{port}"
    for command in (pair, f"link set s{port} up"):
        subprocess.run(["ip", *command.split()], check=True)
    return socket.if_nametoindex(f"s{port}")


def _compiled(folder: Path) -> Path:
    """As emu/switch/compile.sh does it."""
    machine = subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()
    path = folder / "additions.o"
    command = ["clang", "-O2", "-g", "-target", "bpf", "-mcpu=v3", f"-I/usr/include/{machine}-linux-gnu"]
    source = PROJECT / "benchmarks" / "additions.c"
    subprocess.run([*command, "-c", str(source), "-o", str(path)], check=True)
    return path


def _rate(path: Path, elements: int, ifindex: dict[int, int]) -> Rate:
    n_children = len(ifindex)
    everybody = (1 << n_children) - 1
    rule = Aggregate(JOB, EPOCH, 0, SLOTS, elements, None, tuple(ifindex), everybody, everybody)
    numbers = np.random.default_rng(elements).integers(-(2**20), 2**20, (n_children, elements))
    with BpfObject(path) as loaded:
        packets = loaded.map("packets")
        for child in range(n_children):
            packets[struct.pack("=I", child)] = _frame(numbers[child]).ljust(_PACKET_NBYTES, b"\0")
        pools = Pools(loaded)
        adding, making = [], []
        for _ in range(SERIES):
            making.append(_series(loaded, n_children, elements, adds=False))
            pools.set(0, rule, ifindex)
            adding.append(_series(loaded, n_children, elements, adds=True))
            counts = pools.counts(0)
            if counts["added"] != N_PACKETS or counts["completed"] != N_PACKETS // n_children:
                sys.exit(f"benchmarks.additions: {counts}")
            _check_sums(loaded, numbers.sum(axis=0))
    ns, making_ns = min(adding), min(making)
    return Rate(
        elements, n_children, ns - making_ns, making_ns, 1e9 / (ns - making_ns), 1e9 / ns, counts["completed"]
    )


def _frame(numbers: Numbers) -> bytes:
    header = Header(PacketKind.CONTRIBUTION, JOB, EPOCH, len(numbers), 0)
    payload = encode(header) + numbers.astype(">i4").tobytes()
    udp = struct.pack("!HHHH", FIRST_PORT, FIRST_PORT, 8 + len(payload), 0)
    ip = struct.pack("!BBHHHBBH4x", 0x45, 0, 28 + len(payload), 0, 0, 64, 17, 0)
    return bytes(12) + b"\x08\x00" + ip + socket.inet_aton(AGGREGATOR_IP) + udp + payload


def _series(loaded: BpfObject, n_children: int, elements: int, adds: bool) -> float:
    """Nanoseconds of one packet, as the kernel counts them."""
    nbytes = 66 + 4 * elements
    loaded.map("progresses")[bytes(4)] = _PROGRESS.pack(n_children, nbytes, 0, 0, adds, 0)
    frame = bytes(12) + b"\x08\x00" + bytes(100)
    run = ProgramRun(sz=ctypes.sizeof(ProgramRun), data_in=frame, data_size_in=len(frame), repeat=N_PACKETS)
    libbpf = ctypes.CDLL("libbpf.so.1", use_errno=True)
    if libbpf.bpf_prog_test_run_opts(loaded.program_fd("add_next"), ctypes.byref(run)):
        sys.exit(f"benchmarks.additions: the kernel does not run it: errno {ctypes.get_errno()}")
    return float(run.duration)


def _check_sums(loaded: BpfObject, expected: Numbers) -> None:
    """Those of the last chunk of each slot."""
    elements = len(expected)
    most = SMALL if elements <= SMALL else LARGE
    slots = loaded.map("small_slots" if most == SMALL else "large_slots")
    value = ctypes.create_string_buffer(_VALUES_AT + 8 * most)
    for slot in range(SLOTS):
        if ctypes.CDLL("libbpf.so.1").bpf_map_lookup_elem(slots.fd, struct.pack("=II", 0, slot), value):
            sys.exit(f"benchmarks.additions: there is no slot {slot}")
        values = np.frombuffer(value.raw, np.int32, 2 * most, _VALUES_AT).reshape(2, most)
        if not (values[:, :elements] == expected).all():
            sys.exit(f"benchmarks.additions: slot {slot} has a wrong sum")


if __name__ == "__main__":
    main()
