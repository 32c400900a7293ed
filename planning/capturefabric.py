"""The fabric on which a capture was made, its link rates and the hosts of its ranks.

They are read from the manifest that `capture` leaves in its folder.  An edge module: it reads files.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwire.traces.analysis.linerate import FabricRates
from gradwire.traces.trace import CaptureFile, are_from

if TYPE_CHECKING:
    from gradwire.planning.fabrics.fabric import Fabric

MANIFEST = "manifest.json"
SCHEMA = "gradwire.capture/1"  # emu.capturing.manifest writes it; importing that costs inspect 0.2 s
MAX_MANIFEST_NBYTES = 16 << 20
MAX_TIME_NS = (1 << 63) - 1
MAX_CPU_SHARE = 0.05  # of others than the job: capture says from here on that times are too long


def had_company(paths: Sequence[Path]) -> bool:
    """Whether other jobs ran on the fabric at the same time, by the manifest of `capture_fabric`."""
    manifest = _manifest(paths)
    return manifest is not None and bool(manifest[1].get("beside"))


def hosts_by_rank(paths: Sequence[Path]) -> tuple[str, ...] | None:
    """The host of each rank, by the manifest of `capture_fabric`; None where it does not say."""
    manifest = _manifest(paths)
    hosts = manifest[1].get("hosts") if manifest else None
    try:
        return tuple(each["host"] for each in sorted(hosts or (), key=lambda each: each["rank"])) or None
    except (KeyError, TypeError):
        return None


def capture_fabric(paths: Sequence[Path], files: Sequence[CaptureFile] = ()) -> "Fabric | None":
    """The fabric on which `capture` made these captures, by the manifest in their folder.

    None unless all of them come from one folder with such a manifest, or that folder is given; None too if
    the manifest is not of the time of the `files` that were read.  Raise ValueError if the manifest is one
    but cannot be read.
    """
    manifest = _manifest(paths)
    if manifest is None or stale_manifest(paths, files):
        return None
    path, contents = manifest
    from gradwire.planning.fabrics.spec import (
        fabric_from_json,
    )  # only here: most captures have no fabric to read

    try:
        return fabric_from_json(contents.get("fabric"))
    except ValueError as error:
        raise ValueError(f"{path}: its fabric cannot be used: {error}") from None


def stale_manifest(paths: Sequence[Path], files: Sequence[CaptureFile]) -> str:
    """Why the manifest beside captures is not theirs: none of these files has a packet from when it was made.

    Empty if it is, and where nothing says so.
    """
    manifest = _manifest(paths)
    if manifest is None or not files:
        return ""
    path, contents = manifest
    begun_ns = _number(contents.get("started_ns"), most=MAX_TIME_NS)
    seconds = _number(contents.get("seconds"), most=MAX_TIME_NS / 1e9)
    if begun_ns is None or seconds is None or are_from(files, int(begun_ns), seconds):
        return ""
    return f"{path} is of another capture, as no packet is from its time; it was left aside"


def manifest_notes(paths: Sequence[Path], files: Sequence[CaptureFile]) -> tuple[str, ...]:
    """Whether the manifest is of another capture, and else what `capture` itself found wrong with this one:
    sentences without full stops.
    """
    if stale := stale_manifest(paths, files):
        return (stale,)
    manifest = _manifest(paths)
    return tuple(_doubts(manifest[1])) if manifest else ()


def _doubts(contents: dict[str, Any]) -> Iterator[str]:
    if contents.get("cut_short"):
        yield "the job was cut short while it was captured, and not compared with its logs"
    for key, who in (("cpu_stolen", "other guests of the machine's host"), ("cpu_beside", "other programs")):
        share = _number(contents.get(key), most=1.0)
        if share is not None and share > MAX_CPU_SHARE:
            yield f"while it was captured {who} used {share:.0%} of the processors, so its times are too long"
    for key, what in (
        ("check", "what is read from the whole packets is not what the job logged"),
        ("check_trimmed", "these captures are not read as the whole packets were"),
        ("check_times", "the times read from the packets are not those of the job's logs"),
    ):
        check = contents.get(key)
        if isinstance(check, dict) and check.get("agrees") is False:
            yield f"{what}, by capture's own check"


def _number(value: object, most: float) -> float | None:
    """A number of JSON that is no more than `most`, nor below 0; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value <= most else None


def _manifest(paths: Sequence[Path]) -> tuple[Path, dict[str, Any]] | None:
    """The path and the contents of the manifest; None if the paths are not of one folder that has one."""
    folders = {path if path.is_dir() else path.parent for path in paths}
    if len(folders) != 1:
        return None
    path = folders.pop() / MANIFEST
    if not path.is_file():
        return None
    if path.stat().st_size > MAX_MANIFEST_NBYTES:
        raise ValueError(
            f"{path}: it is larger than the {MAX_MANIFEST_NBYTES >> 20} MiB that a manifest may have"
        )
    try:
        contents = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        place = (
            f": line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        )
        raise ValueError(f"{path}: not valid JSON{place}") from None
    return (path, contents) if isinstance(contents, dict) and contents.get("schema") == SCHEMA else None


def rates_of(fabric: "Fabric") -> FabricRates | None:
    """The rates of a fabric's links; None for a fabric without hosts."""
    rates = {link.rate_bps for link in fabric.links}
    hosts = [link.rate_bps for link in fabric.host_links]
    return FabricRates(len(fabric.hosts), max(hosts), tuple(sorted(rates))) if hosts else None
