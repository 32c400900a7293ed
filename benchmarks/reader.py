"""How fast captures are read: `.venv/bin/python -m benchmarks.reader CAPTURE…` (default: the samples).

Prints packets per second of the reader alone, warm, and of the whole line from files to a workload;
tshark's rate on the same file (7 fields, no reassembly) stands beside it.  Each figure is the best of
several repeats: what disturbs a measurement only ever slows it.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

from traces.packets.pcap import read_pcap
from traces.recognition.recognise import recognise
from traces.trace import capture_paths, open_trace

SAMPLE = Path(__file__).parents[1] / "traces" / "samples" / "ddp_gloo_8"
REPEATS = 7
FIELDS = ("frame.time_epoch", "ip.src", "ip.dst", "tcp.srcport", "tcp.dstport", "tcp.seq", "tcp.len")
NO_ANALYSIS = ("tcp.analyze_sequence_numbers:false", "tcp.desegment_tcp_streams:false")


def main(arguments: Sequence[str]) -> None:
    given = [Path(argument) for argument in arguments] or [SAMPLE]
    files = capture_paths(given)
    n_packets = sum(len(read_pcap(path)) for path in files)  # also compiles, or loads what was compiled
    print(f"{len(files)} files, {n_packets:,} packets, {sum(p.stat().st_size for p in files):,} bytes")
    _show("read_pcap", n_packets, lambda: [read_pcap(path) for path in files])
    _show("files to workload", n_packets, lambda: recognise(open_trace(given)))
    if shutil.which("tshark"):
        _show("tshark -T fields, first file", len(read_pcap(files[0])), lambda: _tshark(files[0]), repeats=1)


def _show(name: str, n_packets: int, work: Callable[[], object], repeats: int = REPEATS) -> None:
    times = []
    for _ in range(repeats):
        begin = perf_counter()
        work()
        times.append(perf_counter() - begin)
    print(
        f"{name:30} {n_packets / min(times):14,.0f} packets/s  ({min(times) * 1e3:.1f} ms, best of {repeats})"
    )


def _tshark(path: Path) -> None:
    fields = [word for field in FIELDS for word in ("-e", field)]
    options = [word for option in NO_ANALYSIS for word in ("-o", option)]
    command = ["tshark", "-n", "-r", str(path), *options, "-T", "fields", *fields]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main(sys.argv[1:])
