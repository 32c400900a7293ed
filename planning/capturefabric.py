"""The fabric on which a capture was made, its link rates and the hosts of its ranks.

They are read from the manifest that `capture` leaves in its folder.  An edge module: it reads files.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwire.traces.analysis.linerate import FabricRates

if TYPE_CHECKING:
    from gradwire.planning.fabrics.fabric import Fabric

MANIFEST = "manifest.json"
SCHEMA = "gradwire.capture/1"  # emu.capturing.manifest writes it; importing that costs inspect 0.2 s
MAX_MANIFEST_NBYTES = 16 << 20


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


def capture_fabric(paths: Sequence[Path]) -> "Fabric | None":
    """The fabric on which `capture` made these captures, by the manifest in their folder.

    None unless all of them come from one folder with such a manifest, or that folder is given.
    Raise ValueError if the manifest is one but cannot be read.
    """
    manifest = _manifest(paths)
    if manifest is None:
        return None
    path, contents = manifest
    from gradwire.planning.fabrics.spec import (
        fabric_from_json,
    )  # only here: most captures have no fabric to read

    try:
        return fabric_from_json(contents.get("fabric"))
    except ValueError as error:
        raise ValueError(f"{path}: its fabric cannot be used: {error}") from None


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
