"""How fast captures are read: `.venv/bin/python -m benchmarks.reader [CAPTURE] [--stream GB]`.

The packets of a capture (default: a sample's) are repeated to 1.5 million, in one pcap file, and read by
gradwire, by dpkt and by tshark.  dpkt's and tshark's rates are those of the first packets of that file
(`--others`), as all of it would take minutes.  Then a file of --stream GB, plain and as zstd, is read block
by block in a process of its own, whose peak memory the system tells.  Needs tshark; dpkt comes with
`.venv/bin/pip install dpkt`.  The best of several repeats counts: what disturbs only ever slows.
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import pyarrow as pa

from gradwire.emu.interpreter import python
from gradwire.traces.packets.capture import packet_blocks, read_capture
from gradwire.traces.packets.pcap import FILE_HEADER_NBYTES
from gradwire.traces.reader import capture_paths, open_trace
from gradwire.traces.recognition.recognise import recognise

SAMPLE = Path(__file__).parents[1] / "traces" / "samples" / "ddp_gloo_8" / "h0.pcap"
N_PACKETS = 1_500_000
REPEATS = 5
FIELDS = ("frame.time_epoch", "ip.src", "ip.dst", "tcp.srcport", "tcp.dstport", "tcp.seq", "tcp.len")
NO_ANALYSIS = ("tcp.analyze_sequence_numbers:false", "tcp.desegment_tcp_streams:false")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("capture", nargs="?", type=Path, default=SAMPLE, help="a plain pcap file")
    parser.add_argument("--others", type=int, default=200_000, help="packets for dpkt and tshark")
    parser.add_argument("--stream", type=float, default=0, metavar="GB", help="also stream a file so large")
    parser.add_argument("--folder", type=Path, help="where the large files are made")
    given = parser.parse_args()
    if lacking := _lacking():
        sys.exit(f"benchmarks.reader: {lacking}")
    with TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "large.pcap"
        n_packets = len(read_capture(given.capture))  # also compiles, or loads what was compiled
        repeats = -(-N_PACKETS // n_packets)
        _write(path, repeated(given.capture, repeats))
        _rates(path, n_packets * repeats, min(given.others, n_packets * repeats))
        if given.stream:
            repeats = int(given.stream * 1e9 / given.capture.stat().st_size) + 1
            _write(path, repeated(given.capture, repeats))
            _stream(path)
            path.unlink()
            path = path.with_suffix(".pcap.zst")
            with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), "zstd") as packed:
                for part in repeated(given.capture, repeats):
                    packed.write(part)
            _stream(path)
    n_packets = sum(len(read_capture(path)) for path in capture_paths([SAMPLE.parent]))
    _show("files to workload, sample of 8 ranks", _seconds(_workload, REPEATS), n_packets)


def _lacking() -> str:
    """What is missing to compare with, and how to get it; nothing if all is there."""
    if find_spec("dpkt") is None:
        return "the Python package dpkt is missing: run: .venv/bin/pip install dpkt"
    if shutil.which("tshark") is None:
        return "tshark is missing: run: sudo apt-get install tshark"
    return ""


def repeated(capture: Path, repeats: int) -> Iterator[bytes]:
    """A pcap file's header, then its packets again and again."""
    raw = capture.read_bytes()
    yield raw[:FILE_HEADER_NBYTES]
    for _ in range(repeats):
        yield raw[FILE_HEADER_NBYTES:]


def _write(path: Path, parts: Iterator[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(parts)


def _rates(path: Path, n_packets: int, n_others: int) -> None:
    print(f"{n_packets:,} packets, {path.stat().st_size:,} bytes; the others read the first {n_others:,}")
    ours = _show("read_capture", _seconds(lambda: read_capture(path), REPEATS), n_packets)
    _show("packet_blocks", _seconds(lambda: sum(map(len, packet_blocks(path))), REPEATS), n_packets)
    for name, work in (
        ("dpkt, its packet objects", _dpkt_objects),
        ("dpkt, its reader and struct", _dpkt_struct),
        ("tshark -T fields, 7 fields", _tshark),
    ):
        rate = _show(name, _seconds(lambda work=work: work(path, n_others), 1), n_others)  # type: ignore[misc]
        print(f"{'':40} read_capture is {ours / rate:,.0f} times as fast")


def _seconds(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begin = perf_counter()
        work()
        times.append(perf_counter() - begin)
    return min(times)


def _show(name: str, seconds: float, n_packets: int) -> float:
    print(f"{name:40} {n_packets / seconds:14,.0f} packets/s  ({seconds:.2f} s)", flush=True)
    return n_packets / seconds


def _workload() -> object:
    return recognise(open_trace([SAMPLE.parent]))


def _tshark(path: Path, count: int) -> None:
    fields = [word for field in FIELDS for word in ("-e", field)]
    options = [word for option in NO_ANALYSIS for word in ("-o", option)]
    command = ["tshark", "-n", "-r", str(path), "-c", str(count), *options, "-T", "fields", *fields]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _dpkt_objects(path: Path, count: int) -> list[tuple[object, ...]]:
    import dpkt

    rows: list[tuple[object, ...]] = []
    with path.open("rb") as file:
        for time_s, frame in islice(dpkt.pcap.Reader(file), count):
            ip = dpkt.ethernet.Ethernet(frame).data
            if isinstance(ip, dpkt.ip.IP) and isinstance(ip.data, dpkt.tcp.TCP):
                tcp = ip.data
                size = ip.len - ip.hl * 4 - tcp.off * 4
                rows.append((time_s, ip.src, ip.dst, tcp.sport, tcp.dport, tcp.seq, size))
    return rows


def _dpkt_struct(path: Path, count: int) -> list[tuple[object, ...]]:
    """Less than the others: Ethernet, IPv4 and TCP at fixed places only."""
    import struct

    import dpkt

    layout = struct.Struct("!16xH6xB2x4s4sHHI4xB")
    rows: list[tuple[object, ...]] = []
    with path.open("rb") as file:
        for time_s, frame in islice(dpkt.pcap.Reader(file), count):
            if len(frame) >= layout.size and frame[12:14] == b"\x08\x00":
                total, protocol, src, dst, sport, dport, seq, offset = layout.unpack_from(frame)
                if protocol == 6:
                    rows.append((time_s, src, dst, sport, dport, seq, total - 20 - (offset >> 4) * 4))
    return rows


def _stream(path: Path) -> None:
    command = python("benchmarks.streaming", str(path))
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    name = f"packet_blocks, {path.stat().st_size / 1e9:.2f} GB{path.suffix}"
    _show(name, float(said[1]), int(said[0]))
    print(f"{'':40} peak memory {int(said[2]) * 1024 / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
