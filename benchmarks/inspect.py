"""How long a whole report takes: `.venv/bin/python -m benchmarks.inspect [FOLDER]` (default: a sample).

The folder's captures are written again with their segments cut into packets of 1,448 bytes, as without TCP
segmentation offload: about 1.5 million packets of the sample.  Then, in turn, `inspect --json` of all of them
and `tshark -q -z conv,tcp` of one file after the other, each in a process of its own: seconds and peak memory
of both.  The best of --repeat counts for either.

`--connections 65000` reads one file of that many short connections instead (connections.py).
"""

import argparse
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from gradwire.benchmarks.connections import write_connections
from gradwire.emu.interpreter import python
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.packets import TCP, Packets
from gradwire.traces.reader import capture_paths

SAMPLE = Path(__file__).parents[1] / "traces" / "samples" / "ddp_gloo_8_gpt_tso"
PIECE_NBYTES = 1448
HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 128, 1)
SEQ_OFFSET = 4  # in the TCP header


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, default=SAMPLE)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--connections", type=int, metavar="N")
    given = parser.parse_args()
    if shutil.which("tshark") is None:
        sys.exit("benchmarks.inspect: tshark is missing: run: sudo apt-get install tshark")
    with TemporaryDirectory() as folder:
        if given.connections is None:
            files, n_packets = cut_files(given.folder, Path(folder))
        else:
            files = [Path(folder) / "connections.pcap"]
            n_packets = write_connections(files[0], given.connections)
        total = sum(path.stat().st_size for path in files)
        print(f"{n_packets:,} packets in {len(files)} files, {total:,} bytes", flush=True)
        ours = python("gradwire.tools", "inspect", "--json", *map(str, files))
        theirs = [["tshark", "-n", "-q", "-r", str(path), "-z", "conv,tcp"] for path in files]
        best = {"inspect --json": (float("inf"), 0), "tshark -z conv,tcp": (float("inf"), 0)}
        for _ in range(given.repeat):
            best["inspect --json"] = min(best["inspect --json"], timed([ours]))
            best["tshark -z conv,tcp"] = min(best["tshark -z conv,tcp"], timed(theirs))
        for name, (seconds, peak) in best.items():
            print(f"{name:20} {seconds:8.2f} s   peak {peak / 1e6:6,.0f} MB")
        (a, _), (b, _) = best.values()
        print(f"inspect --json is {b / a:.1f} times as fast")


def cut_files(captures: Path, folder: Path) -> tuple[list[Path], int]:
    """The captures' files, written to `folder` again in packets of MTU size, and how many these are."""
    files = []
    n_packets = 0
    for path in capture_paths([captures]):
        packets = read_capture(path)
        files.append(folder / f"{path.name}.pcap")
        with files[-1].open("wb") as file:
            file.write(HEADER)
            for record in cut(packets):
                n_packets += 1
                file.write(record)
    return files, n_packets


def timed(commands: Sequence[Sequence[str]]) -> tuple[float, int]:
    """Seconds of all commands, one after the other, and the largest peak memory in bytes."""
    begin, peak = perf_counter(), 0
    for command in commands:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise RuntimeError(f"{' '.join(command[:4])}…: exit code {child.returncode}")
        peak = max(peak, usage.ru_maxrss * 1024)
    return perf_counter() - begin, peak


def cut(packets: Packets) -> Iterator[bytes]:
    """The records of a pcap file of MTU-size packets: a segment's visible bytes stay with its first piece."""
    for row in range(len(packets)):
        at, captured = int(packets.frame_at[row]), int(packets.captured_nbytes[row])
        frame = packets.data[at : at + captured].tobytes()
        payload = int(packets.payload_nbytes[row]) if packets.protocol[row] == TCP else 0
        time_ns = int(packets.time_ns[row])
        if payload <= PIECE_NBYTES:
            yield record(time_ns, frame, int(packets.wire_nbytes[row]))
            continue
        headers = int(packets.payload_at[row]) - at
        ip = int(packets.network_offset[row])
        transport = ip + (frame[ip] & 15) * 4
        for offset in range(0, payload, PIECE_NBYTES):
            nbytes = min(PIECE_NBYTES, payload - offset)
            piece = bytearray(frame if not offset else frame[:headers])
            struct.pack_into("!H", piece, ip + 2, headers - ip + nbytes)
            seq = (int(packets.seq[row]) + offset) % (1 << 32)
            struct.pack_into("!I", piece, transport + SEQ_OFFSET, seq)
            yield record(time_ns + offset, bytes(piece[: headers + nbytes]), headers + nbytes)


def record(time_ns: int, frame: bytes, wire_nbytes: int) -> bytes:
    return struct.pack("<IIII", *divmod(time_ns, 10**9), len(frame), wire_nbytes) + frame


if __name__ == "__main__":
    main()
