"""After the job: does the decoded workload equal the job's own log?  Then the payload is cut off.

The check reads the whole payload, where every message's header is visible, so a difference is a fault of
ours, of the capture (drops), or of the log, never of the snaplen.  What the cut hides is found by reading
once more.
"""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from emu.capturing.request import MAX_SNAPLEN, WHOLE
from emu.fabrics.fabric import HOST_PORT, Fabric, interface
from emu.network.tcpdump_counts import Counts, counts
from traces.files import write_whole
from traces.groundtruth import BadLog, Check, compare, read_logs
from traces.opening import open_trace
from traces.packets.packets import BadCapture
from traces.rankmap import SETTINGS
from traces.recognition.ranks import BadTrace
from traces.recognition.recognise import recognise
from traces.workload import Workload

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
    """One host's file; `counts` is None where tcpdump did not come to its end."""

    rank: int
    host: str
    address: str
    interface: str
    file: str
    nbytes: int
    sha256: str
    counts: Counts | None

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        return value | (value.pop("counts") or {"captured": None, "received": None, "dropped": None})


def write_rank_map(folder: Path, fabric: Fabric, n_ranks: int) -> None:
    """`trace.yaml`, as the reader of traces wants it; JSON is YAML."""
    ranks = {fabric.ip(host): rank for rank, host in enumerate(fabric.hosts[:n_ranks])}
    write_whole(folder / SETTINGS, json.dumps({"ranks": ranks}, indent=1) + "\n")


def checked(captures: Path, folder: Path) -> Checked:
    """The captures in one folder against the logs in the other."""
    try:
        logs = read_logs(folder)
        if not logs:
            return Checked(None, why="the job wrote no log.rN.json")
        check = compare(_workload(captures, folder), logs)
    except (BadLog, BadTrace, BadCapture, OSError) as error:
        return Checked(agrees=False, why=str(error))
    return _told(check)


def _told(check: Check) -> Checked:
    return Checked(check.agrees, check.n_compared, check.nbytes, check.differences)


def _workload(captures: Path, folder: Path) -> Workload:
    return recognise(open_trace([captures], folder / SETTINGS))


def host_captures(folder: Path, fabric: Fabric, n_ranks: int) -> tuple[HostCapture, ...]:
    """What there is of every host, once the payload is cut off."""
    made = []
    for rank, host in enumerate(fabric.hosts[:n_ranks]):
        path = folder / f"{host}.pcap"
        log = folder / f"{host}.tcpdump.txt"
        made.append(
            HostCapture(
                rank=rank,
                host=host,
                address=fabric.ip(host),
                interface=interface(host, HOST_PORT),
                file=path.name,
                nbytes=path.stat().st_size if path.exists() else 0,
                sha256=_sha256(path) if path.exists() else "",
                counts=counts(log.read_text(errors="replace")) if log.exists() else None,
            )
        )
    return tuple(made)


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
        raise OSError(f"{source}: editcap wrote nothing: {said[-1] if said else 'without a word'}")


def drop_payload(folder: Path) -> None:
    shutil.rmtree(folder / WHOLE)
