"""Finds, checks and writes the message indexes beside captures.  An edge module: it reads and writes files.

An index that cannot be trusted is left aside with a note; the capture is then read without it, as one from
elsewhere is.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from gradwire.traces.files import write_whole_bytes
from gradwire.traces.packets.capture import SUFFIXES
from gradwire.traces.packets.messageindex import MAX_INDEX_NBYTES, BadIndex, MessageIndex, decode, encode
from gradwire.traces.packets.packets import Packets

SUFFIX = ".messages"
MANIFEST = "manifest.json"
MAX_MANIFEST_NBYTES = 1 << 24


class _Host(BaseModel):
    model_config = ConfigDict(frozen=True)
    file: str
    index: str | None = None
    index_sha256: str = ""


class _Manifest(BaseModel):
    """The part of a capture's manifest that is about indexes."""

    model_config = ConfigDict(frozen=True)
    hosts: tuple[_Host, ...]


def index_path(capture: Path) -> Path | None:
    """Where the index of a capture is if it has one: `h0.messages` of `h0.pcap`, also of `h0.pcap.gz`.

    None for a file whose name does not end as a capture's does.
    """
    suffix = max((suffix for suffix in SUFFIXES if capture.name.endswith(suffix)), key=len, default=None)
    stem = capture.name.removesuffix(suffix or "")
    return capture.with_name(stem + SUFFIX) if suffix and stem else None


def read_indexes(captures: Sequence[Packets]) -> tuple[list[MessageIndex | None], list[str]]:
    """The index of each capture, None without one, and a note on each that is missing or was left aside."""
    found: list[MessageIndex | None] = []
    notes = []
    for packets in captures:
        path, index = index_path(packets.path), None
        try:
            if path is not None:
                index = _read(path, packets)
        except (BadIndex, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            notes.append(f"{path}: not used: {why}; what the packets do not show is worked out or left out")
        found.append(index)
    return found, notes


def _read(path: Path, packets: Packets) -> MessageIndex | None:
    """None if there is neither an index nor a manifest that names one."""
    named = _named(path)
    if not path.is_file():
        if named is not None:
            raise BadIndex(f"{MANIFEST} names it, but it is missing")
        return None
    if path.stat().st_size > MAX_INDEX_NBYTES:
        raise BadIndex(f"larger than the {MAX_INDEX_NBYTES:,} bytes that an index may have")
    octets = path.read_bytes()
    if named is not None and hashlib.sha256(octets).hexdigest() != named.index_sha256:
        raise BadIndex(f"its hash is not the one in {MANIFEST}")
    index = decode(octets)
    if capture_sha256(packets) != index.capture_sha256:
        raise BadIndex(f"it was made for another file, or {packets.path.name} has changed since")
    return index


def _named(path: Path) -> _Host | None:
    """What the manifest beside an index says of it; None if there is none that names it."""
    beside = path.with_name(MANIFEST)
    if not beside.is_file() or beside.stat().st_size > MAX_MANIFEST_NBYTES:
        return None
    try:
        manifest = _Manifest.model_validate_json(beside.read_bytes())
    except ValidationError:
        return None  # of something else than a capture
    return next((host for host in manifest.hosts if host.index == path.name), None)


def capture_sha256(packets: Packets) -> str:
    """The hash of a capture file's bytes, unpacked if it is compressed."""
    return hashlib.sha256(packets.data.data).hexdigest()


def write_index(index: MessageIndex, path: Path) -> None:
    """Write it whole or not at all.  Raises BadIndex, OSError."""
    write_whole_bytes(path, encode(index))
