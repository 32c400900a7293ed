"""After the job: checks the decoded workload against the job's own log, then cuts off the payload.

The check reads the whole payload, where every message's header is visible, so a difference is a fault of
ours, of the capture (drops), or of the log, never of the snaplen.  What was read of it and is cut off goes
into a message index beside each capture, with how long packets queued in the host's port.  Trimmed captures
and indexes are then read once more and must give the same messages.
"""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradwire.emu.capturing.request import MAX_SNAPLEN, MIRRORED, WHOLE
from gradwire.emu.network.tcpdump import TcpdumpCounts, counts
from gradwire.planning.fabrics.fabric import HOST_PORT, Fabric, interface
from gradwire.traces.files import write_whole
from gradwire.traces.groundtruth import BadLog, TruthCheck, compare, read_logs
from gradwire.traces.indexfiles import SUFFIX as INDEX_SUFFIX
from gradwire.traces.indexfiles import capture_sha256, index_path, write_index
from gradwire.traces.loggedtimes import WHATS, time_errors
from gradwire.traces.packets.directions import Direction
from gradwire.traces.packets.messageindex import MAX_DELAYS, BadIndex
from gradwire.traces.packets.packets import NOT_KNOWN, TCP, BadCapture, Packets
from gradwire.traces.packets.queueing import QueueingDelays, with_delays
from gradwire.traces.packets.reads import index_of
from gradwire.traces.packets.streams import Stream, assemble
from gradwire.traces.reader import SETTINGS, open_captures, open_recorded, read_captures, read_delays
from gradwire.traces.recognition.ranks import BadTrace, NoTraining
from gradwire.traces.recognition.recognise import Job, find_job, workload_of
from gradwire.traces.sameness import differences
from gradwire.traces.trace import Trace

_EDITCAP_S = 600


@dataclass(frozen=True)
class Checked:
    """`agrees` is None if there was nothing to compare with; `differences` and `why` are for people."""

    agrees: bool | None
    n_compared: int = 0
    nbytes: int = 0
    differences: tuple[str, ...] = ()
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class HostCapture:
    """One host's file; `counts` is None where tcpdump did not come to its end.

    `index` is the name of the message index beside it, None where there is none.  Of `undated` packets of
    data that the host sent it is not known how long they queued; None if none were looked at.
    """

    rank: int
    host: str
    address: str
    interface: str
    file: str
    nbytes: int
    sha256: str
    counts: TcpdumpCounts | None
    index: str | None = None
    index_nbytes: int = 0
    index_sha256: str = ""
    undated: int | None = None

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        return value | (value.pop("counts") or {"captured": None, "received": None, "dropped": None})


def write_rank_map(folder: Path, fabric: Fabric, used: Sequence[str]) -> None:
    """`trace.yaml`, as the reader of traces wants it, of ranks on the hosts `used`; JSON is YAML."""
    ranks = {fabric.ip(host): rank for rank, host in enumerate(used)}
    write_whole(folder / SETTINGS, json.dumps({"ranks": ranks}, indent=1) + "\n")


def read_whole(folder: Path) -> Trace | str:
    """The captures with all payload, each read noted; a text says why they cannot be read."""
    try:
        return open_recorded([folder / WHOLE], folder / SETTINGS, folder / MIRRORED)
    except (BadTrace, BadCapture, OSError) as error:
        return str(error)


def checked(whole: Trace | str, folder: Path) -> Checked:
    """What was read of the whole packets against the logs in the folder."""
    try:
        logs = read_logs(folder)
        if not logs:
            return Checked(None, why="the job wrote no log.rN.json")
        if isinstance(whole, str):
            return Checked(agrees=False, why=whole)
        check = compare(workload_of(_job(whole)), logs)
    except (BadLog, BadTrace, OSError) as error:
        return Checked(agrees=False, why=str(error))
    return _checked(check)


@dataclass(frozen=True)
class TimesCheck:
    """How far the decoded times are from the logged ones, in ns; an empty `spreads` has nothing to compare.

    `spreads` are by what was compared: `begun`, `done`, `gap`.  `faults` are the differences that a busy
    machine does not explain.
    """

    agrees: bool | None
    iteration_ns: int
    limit_ns: int
    spreads: dict[str, dict[str, int]]
    differences: tuple[str, ...]
    faults: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def timed(whole: Trace | str, folder: Path) -> TimesCheck | None:
    """The decoded times against the times in the folder's logs; None if either is missing."""
    try:
        logs = read_logs(folder)
        if not logs or isinstance(whole, str):
            return None
        errors = time_errors(_job(whole), logs)
    except (BadLog, BadTrace, OSError):
        return None  # `checked` says why
    spreads = {what: spread for what in WHATS if (spread := errors.spread(what)) is not None}
    figures: dict[str, dict[str, int]] = {
        what: {"n": one.n, "p95_ns": one.p95_ns, "largest_ns": one.largest.error_ns}
        for what, one in spreads.items()
    }
    return TimesCheck(
        errors.agrees, errors.iteration_ns, errors.limit_ns, figures, errors.differences, errors.faults
    )


def _job(whole: Trace) -> Job:
    """Raises NoTraining if it holds no training."""
    if not len(whole.messages):
        raise NoTraining(whole.name, whole.no_training)
    return find_job(whole)


def _checked(check: TruthCheck) -> Checked:
    return Checked(check.agrees, check.n_compared, check.nbytes, check.differences)


def indexed(
    whole: Trace | str, folder: Path, address_of: Mapping[str, str]
) -> tuple[Checked, dict[str, int]]:
    """Write what the trimmed captures lack beside them, then read both: are the messages all the same?  And,
    by host, of how many packets of data that it sent it is not known how long they queued.

    `address_of` has the hosts, whose files in `folder` are trimmed already.
    """
    undated: dict[str, int] = {}
    if isinstance(whole, str):
        return Checked(None, why=whole), undated
    read = {stream.direction: stream for choice in whole.choices for stream in choice.connection.streams}
    try:
        for host, address in address_of.items():
            if (capture := folder / f"{host}.pcap").exists():
                undated[host] = _n_undated(_write_index(capture, folder / MIRRORED, read), address)
        trimmed = open_captures([folder], folder / SETTINGS)
    except (BadIndex, BadTrace, BadCapture, OSError) as error:
        return Checked(agrees=False, why=f"the message index: {error}"), undated
    differing = differences(whole, trimmed)
    nbytes = int(whole.messages.nbytes.sum())
    return Checked(not differing, len(whole.messages), nbytes, differing), undated


def _write_index(capture: Path, mirrored: Path, read: Mapping[Direction, Stream]) -> Packets:
    """The index of a host's capture, with the delays that the one in the folder `mirrored` tells; none for a
    capture that shows every message by itself and has no delays.  Return its packets, with these.
    """
    path = index_path(capture)
    assert path
    [packets] = read_captures([capture])
    delays = read_delays(packets, mirrored)
    if delays is not None and len(delays.frame_at) > MAX_DELAYS:
        delays = QueueingDelays(*(column[:MAX_DELAYS] for column in delays))
    index = index_of(capture_sha256(packets), assemble([packets]), read, delays)
    if index.streams or delays is not None:
        write_index(index, path)
    return with_delays(packets, delays)


def _n_undated(packets: Packets, own: str) -> int:
    """Packets of data that the host with the address `own` sent, of which it is not known how long they
    queued.
    """
    if own not in packets.addresses:
        return 0
    is_sent = (packets.src == packets.addresses.index(own)) & (packets.payload_nbytes > 0)
    is_sent &= packets.protocol == TCP
    if packets.queued_ns is not None:
        is_sent &= packets.queued_ns == NOT_KNOWN
    return int(np.count_nonzero(is_sent))


def host_captures(
    folder: Path, fabric: Fabric, used: Sequence[str], undated: Mapping[str, int]
) -> tuple[HostCapture, ...]:
    """The files of every host of `used`, once the payload is cut off; `undated` is by host."""
    captures = []
    for rank, host in enumerate(used):
        path = folder / f"{host}.pcap"
        log = folder / f"{host}.tcpdump.txt"
        index = path.with_suffix(INDEX_SUFFIX)
        has_index = index.exists()
        captures.append(
            HostCapture(
                rank=rank,
                host=host,
                address=fabric.ip(host),
                interface=interface(host, HOST_PORT),
                file=path.name,
                nbytes=path.stat().st_size if path.exists() else 0,
                sha256=_sha256(path) if path.exists() else "",
                counts=counts(log.read_text(errors="replace")) if log.exists() else None,
                index=index.name if has_index else None,
                index_nbytes=index.stat().st_size if has_index else 0,
                index_sha256=_sha256(index) if has_index else "",
                undated=undated.get(host),
            )
        )
    return tuple(captures)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cut_payload(folder: Path, hosts: Sequence[str], snaplen: int) -> None:
    """`HOST.pcap` from `whole/HOST.pcap`, no packet longer than `snaplen`; and tcpdump's words beside it."""
    whole = folder / WHOLE
    for host in hosts:
        source, target = whole / f"{host}.pcap", folder / f"{host}.pcap"
        if not source.exists():
            continue
        if snaplen >= MAX_SNAPLEN:
            shutil.copyfile(source, target)
        else:
            _editcap(source, target, snaplen)
        log = whole / f"{host}.log"
        if log.exists():
            shutil.copyfile(log, folder / f"{host}.tcpdump.txt")


def _editcap(source: Path, target: Path, snaplen: int) -> None:
    """A capture that was cut off in mid-record is written as far as it goes."""
    command = ["editcap", "-F", "nsecpcap", "-s", str(snaplen), str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_EDITCAP_S, check=False)
    if not target.exists():
        said = done.stderr.strip().splitlines()
        raise OSError(f"{source}: editcap wrote nothing: {said[-1] if said else 'it printed no error'}")


def drop_payload(folder: Path) -> None:
    shutil.rmtree(folder / WHOLE)
