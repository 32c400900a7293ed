"""How punctually packets leave: `gradwire inject` against tcpreplay, same packets, same port, same minute.

    sudo .venv/bin/python -m benchmarks.inject [CAPTURE...] [--host h0]

The packets of one host go through one port, by turns by either program, both on the same processor with the
same priority to begin with: at recorded times, evenly, and as fast as it goes.  When each left is told by one
tcpdump at that port.  Late is what a packet left after its time, counted from the program's own most punctual
packet; drift is how much later the end is than the beginning.
"""

import argparse
import json
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gradwire.emu.emulation import in_force
from gradwire.emu.inject.figures import drift_ppm
from gradwire.emu.inject.frames import VNET_NBYTES, Frames
from gradwire.emu.inject.options import PPS, RECORDED, TOPSPEED, InjectOptions, Pace
from gradwire.emu.inject.preparation import Prepared, prepare
from gradwire.emu.inject.sender import own_processor
from gradwire.emu.inject.session import silence, transport
from gradwire.emu.inject.timetable import deadlines
from gradwire.emu.interpreter import python
from gradwire.emu.kernel.isolate import isolated, stop
from gradwire.emu.kernel.namespaces import enter
from gradwire.emu.network.net import emulated
from gradwire.emu.network.tcpdump import HEADERS, captures, dropped
from gradwire.emu.options import Software
from gradwire.emu.project import PROJECT
from gradwire.emu.watch import running
from gradwire.planning.fabrics.fabric import HOST_PORT, interface
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.reader import capture_paths

Ints = npt.NDArray[np.int64]

PACES = {
    "as recorded": Pace(RECORDED),
    "5000 a second": Pace(PPS, Fraction(5000)),
    "20000 a second": Pace(PPS, Fraction(20_000)),
    "top speed": Pace(TOPSPEED),
}
TCPREPLAY = "tcpreplay"
OURS = "gradwire inject"
LIMIT_S = 300
_REST_S = 0.2  # between two turns


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = [PROJECT / "traces" / "samples" / "ps_1srv_4wk"]
    parser.add_argument("captures", type=Path, nargs="*", default=default)
    parser.add_argument("--host", type=int, default=0, help="number of the host whose packets are sent")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--timer", default="gtod", help="how tcpreplay waits: select, ioport, gtod or nano")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        inside(arguments.inside)
        return
    prepared = prepare(capture_paths(arguments.captures), None, InjectOptions(exact_mtu=True), {}, {})
    with tempfile.TemporaryDirectory(prefix="gradwire-inject-") as name:
        folder = Path(name)
        write_inputs(of_host(prepared, arguments.host), arguments, folder)
        process = isolated("benchmarks.inject", ["--inside", str(folder)])
        try:
            process.wait(LIMIT_S)
        finally:
            stop(process)
        if process.returncode:
            sys.exit("the measurement failed")
        show(folder)


def of_host(prepared: Prepared, number: int) -> Prepared:
    """Only what this host sends."""
    mine = np.flatnonzero(prepared.pieces.src == number)
    frames = prepared.frames
    return replace(
        prepared,
        pieces=prepared.pieces.taken(mine),
        frames=Frames(
            frames.heads, frames.head_at[mine], frames.head_nbytes[mine], frames.zeros_nbytes[mine]
        ),
    )


def write_inputs(prepared: Prepared, arguments: argparse.Namespace, folder: Path) -> None:
    """For every pace what the sender reads, and the same packets as a pcap file."""
    pieces, frames = prepared.pieces, prepared.frames
    settings = {"fabric": prepared.fabric.spec, "host": prepared.hosts[arguments.host], "n": len(pieces)}
    settings |= {"repeats": arguments.repeat, "timer": arguments.timer}
    (folder / "settings.json").write_text(json.dumps(settings))
    for name, pace in PACES.items():
        due_ns = deadlines(pace, pieces.recorded_ns, pieces.wire_nbytes)
        work = folder / name
        work.mkdir()
        np.savez(
            work / "packets.npz",
            heads=frames.heads,
            head_at=frames.head_at,
            head_nbytes=frames.head_nbytes,
            zeros_nbytes=frames.zeros_nbytes,
            src=np.zeros(len(pieces), np.uint16),
            due_ns=due_ns,
        )
        (work / "packets.pcap").write_bytes(b"".join(pcap(frames, due_ns)))


def pcap(frames: Frames, due_ns: Ints) -> Iterator[bytes]:
    yield struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
    for number, time_ns in enumerate(due_ns.tolist()):
        at = int(frames.head_at[number])
        head = frames.heads[at + VNET_NBYTES : at + int(frames.head_nbytes[number])].tobytes()
        frame = head + bytes(int(frames.zeros_nbytes[number]))
        yield struct.pack("<IIII", *divmod(10**18 + time_ns, 10**9), len(frame), len(frame)) + frame


def inside(folder: Path) -> None:
    """Send by turns, with one capture around all of it."""
    settings = json.loads((folder / "settings.json").read_text())
    fabric, host = parse_fabric(settings["fabric"]), settings["host"]
    mine, _ = own_processor()
    network = emulated(fabric, transport(fabric), ())
    with ExitStack() as stack:
        emulation = stack.enter_context(in_force(network, fabric, Software(), folder))
        pids, watch = emulation.pid_of, emulation.watch
        for name, pid in pids.items():
            silence(name, pid)
        port = interface(host, HOST_PORT)
        sender_settings = {
            "processors": sorted(mine),
            "interfaces": [(pids[host], port)],
            "loops": 1,
            "period_ns": 0,
        }
        where = [*enter(pids[host]), "nice", "-n", "-20", "taskset", "-c", str(min(mine))]
        stack.enter_context(captures([host], pids, folder / "captures", HEADERS))
        for name in PACES:
            (folder / name / "sender.json").write_text(json.dumps(sender_settings))
            for _ in range(settings["repeats"]):
                command = replay_command(folder / name, where, port, name, settings["timer"])
                subprocess.run(command, check=True, capture_output=True)
                command = python("gradwire.emu.inject.sender", str(folder / name))
                with running("the sender", command, folder / name / "sender.log") as sender:
                    sender.await_line("ready", LIMIT_S, watch)
                    sender.tell("go")
                    sender.await_line("sent", LIMIT_S, watch)
    if lost := dropped([host], folder / "captures"):
        sys.exit(f"the capture lost packets: {lost}")


def replay_command(work: Path, where: Sequence[str], port: str, name: str, timer: str) -> list[str]:
    """Its file is in memory before it begins, as ours is; `where` runs it in the host, privileged as ours."""
    pace = PACES[name]
    speed = {TOPSPEED: ["--topspeed"], PPS: [f"--pps={int(pace.value)}"]}.get(pace.kind, [])
    return [
        *where,
        "tcpreplay",
        "-q",
        "--preload-pcap",
        f"--timer={timer}",
        *speed,
        "-i",
        port,
        str(work / "packets.pcap"),
    ]


def show(folder: Path) -> None:
    """One line for each pace and program."""
    settings = json.loads((folder / "settings.json").read_text())
    n, repeats = settings["n"], settings["repeats"]
    packets = read_capture(folder / "captures" / f"{settings['host']}.pcap")
    source = packets.addresses.index(parse_fabric(settings["fabric"]).ip(settings["host"]))
    left = packets.time_ns[(packets.protocol != 0) & (packets.src == source)]
    turns = np.split(left, range(n, len(left), n))
    if len(turns) != 2 * repeats * len(PACES) or len(turns[-1]) != n:
        sys.exit(f"{len(left)} packets left instead of {2 * repeats * len(PACES)} times {n}")
    print(f"{n} packets of {settings['host']}, {repeats} turns each; medians [and range] of the turns")
    print(f"{'':15} {'':16} {'packets/s':>10}  {'late p50 µs':>22} {'late p99 µs':>26} {'drift ppm':>24}")
    for number, name in enumerate(PACES):
        with np.load(folder / name / "packets.npz") as stored:
            due_ns = stored["due_ns"]
        some = turns[2 * repeats * number : 2 * repeats * (number + 1)]
        for program, mine in ((TCPREPLAY, some[::2]), (OURS, some[1::2])):
            print(f"{name:15} {program:16} {line(due_ns, mine)}")


def line(due_ns: Ints, turns: list[Ints]) -> str:
    """Packets per second, and of what has deadlines the lateness."""
    rates = [(len(left) - 1) / ((left[-1] - left[0]) / 1e9) for left in turns]
    text = f"{statistics.median(rates):10,.0f}"
    if not due_ns[-1]:
        return text
    late = [left - due_ns - (left - due_ns).min() for left in turns]
    p50, p99 = ([float(np.quantile(each, q)) / 1e3 for each in late] for q in (0.5, 0.99))
    drift = [drift_ppm(due_ns, each) for each in late]
    return f"{text}  {show_spread(p50)} {show_spread(p99)} {show_spread(drift)}"


def show_spread(values: list[float]) -> str:
    return f"{statistics.median(values):8.1f} [{min(values):.1f} … {max(values):.1f}]"


if __name__ == "__main__":
    main()
