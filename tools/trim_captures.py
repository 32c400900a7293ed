"""Cuts a job's captures down to its first iterations: this is how traces/samples was made.

.venv/bin/python -m gradwire.tools.trim_captures FOLDER OUTPUT --iterations 2 [--sent-only]

Each host's packets end where its first message of a later iteration begins, byte for byte in each TCP
stream, so that no collective is cut in two.  Ground truth beside the captures (`log.r*.json`) is cut
likewise.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.directions import own_address
from gradwire.traces.packets.packets import SYN, TCP, Packets
from gradwire.traces.packets.pcap import FILE_HEADER_NBYTES, RECORD_HEADER_NBYTES
from gradwire.traces.reader import capture_paths, open_trace
from gradwire.traces.recognition.recognise import find_job

Key = tuple[str, int, str, int]  # source and its port, destination and its port
Ends = dict[tuple[str, str], int]


def trim_captures(
    folder: Annotated[
        Path, typer.Argument(help="Captures of one job, from the opening of its connections on.")
    ],
    output: Annotated[Path, typer.Argument(help="Folder to write to.")],
    iterations: Annotated[int, typer.Option(help="How many iterations to keep.", min=1)],
    sent_only: Annotated[
        bool, typer.Option(help="Keep of each host's file only what it sent with payload, and the SYNs.")
    ] = False,
) -> None:
    """Keep the set-up and the first iterations of captures."""
    paths = capture_paths([folder])
    captures = [read_capture(path) for path in paths]
    ends = stream_ends(folder, iterations)
    first_seq: dict[Key, int] = {}
    for packets in captures:
        first_seq |= _first_sequence_numbers(packets)
    output.mkdir(parents=True, exist_ok=True)
    for packets in captures:
        _write(packets, _kept(packets, ends, first_seq, sent_only), output / packets.path.name)
    for path in sorted(folder.glob("log.r*.json")):
        (output / path.name).write_text(json.dumps(_trimmed_log(json.loads(path.read_bytes()), iterations)))
    nbytes = sum(path.stat().st_size for path in output.iterdir())
    print(f"{output}: {nbytes} bytes")


def stream_ends(folder: Path, iterations: int) -> Ends:
    """For each pair of addresses, the stream offset at which the first later iteration begins."""
    trace = open_trace([folder])
    job = find_job(trace)
    begins: dict[int, int] = {}
    for operation, iteration in zip(job.operations, job.labels.iterations, strict=True):
        if iteration >= iterations:
            for rank, time_ns in operation.begun.items():
                begins[rank] = min(time_ns, begins.get(rank, time_ns))
    ends: Ends = {}
    messages = trace.messages
    columns = (messages.src, messages.dst, messages.offset, messages.first_ns)
    for src, dst, offset, first_ns in zip(*(column.tolist() for column in columns), strict=True):
        if src in begins and first_ns >= begins[src]:
            pair = trace.addresses[src], trace.addresses[dst]
            ends[pair] = min(offset, ends.get(pair, offset))
    return ends


def _first_sequence_numbers(packets: Packets) -> dict[Key, int]:
    """The sequence number of byte 0 of each stream whose SYN is in the file."""
    rows = np.flatnonzero((packets.protocol == TCP) & (packets.flags & SYN != 0))
    return {_key(packets, row): int(packets.seq[row]) + 1 for row in rows.tolist()}


def _key(packets: Packets, row: int) -> Key:
    src, dst = (packets.addresses[column[row]] for column in (packets.src, packets.dst))
    return src, int(packets.sport[row]), dst, int(packets.dport[row])


def _kept(packets: Packets, ends: Ends, first_seq: dict[Key, int], sent_only: bool) -> npt.NDArray[np.bool_]:
    """Payload up to the streams' ends, and everything else until the last of it."""
    carries: npt.NDArray[np.bool_] = (packets.protocol == TCP) & (packets.payload_nbytes > 0)
    keep: npt.NDArray[np.bool_] = carries.copy()
    for row in np.flatnonzero(carries).tolist():
        key = _key(packets, row)
        end = ends.get((key[0], key[2]))
        if end is not None and key in first_seq:
            keep[row] = (int(packets.seq[row]) - first_seq[key]) % (1 << 32) < end
    last = np.flatnonzero(keep)[-1]
    if not sent_only:
        keep |= ~carries & (np.arange(len(packets)) <= last)
        return keep
    host_address = own_address(packets)
    if host_address is None:
        raise ValueError(f"{packets.path}: --sent-only needs captures made at the hosts")
    has_syn = (packets.protocol == TCP) & (packets.flags & SYN != 0)
    keep |= has_syn
    keep &= packets.src == packets.addresses.index(host_address)
    return keep


def _write(packets: Packets, keep: npt.NDArray[np.bool_], path: Path) -> None:
    if packets.frame_at[0] != FILE_HEADER_NBYTES + RECORD_HEADER_NBYTES:
        raise ValueError(f"{packets.path} is not a classic pcap file: convert it with editcap -F nsecpcap")
    begins = packets.frame_at - RECORD_HEADER_NBYTES
    ends = packets.frame_at + packets.captured_nbytes
    with path.open("wb") as file:
        file.write(packets.data[:FILE_HEADER_NBYTES].tobytes())
        for row in np.flatnonzero(keep).tolist():
            file.write(packets.data[int(begins[row]) : int(ends[row])].tobytes())


def _trimmed_log(log: dict[str, Any], iterations: int) -> dict[str, Any]:
    if "events" in log:
        log["events"] = [event for event in log["events"] if event["it"] < iterations]
    return log


if __name__ == "__main__":
    typer.run(trim_captures)
