"""Opens the captures of one job as a trace.  An edge module: it lists folders.

The rank of each address, as a person wrote it: `trace.yaml` beside the captures, or a file like it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gradwire.traces.decoding import decoded
from gradwire.traces.files import read_at_most
from gradwire.traces.framing.framings import choose_all
from gradwire.traces.indexfiles import MANIFEST, MAX_MANIFEST_NBYTES, read_indexes
from gradwire.traces.memory import free_nbytes
from gradwire.traces.packets.capture import SUFFIXES, read_capture
from gradwire.traces.packets.clocks import Clocks, compare_clocks
from gradwire.traces.packets.columns import ROW_NBYTES
from gradwire.traces.packets.copies import without_copies
from gradwire.traces.packets.directions import Direction, Rows, by_direction
from gradwire.traces.packets.openfile import is_compressed
from gradwire.traces.packets.packets import BadCapture, Packets
from gradwire.traces.packets.pcap import RECORD_HEADER_NBYTES
from gradwire.traces.packets.queueing import QueueingDelays, queueing_delays, with_delays
from gradwire.traces.packets.reads import recorded, supplemented
from gradwire.traces.packets.streams import Stream, assemble, connections
from gradwire.traces.packets.timestamps import with_plausible_times
from gradwire.traces.recognition.ranks import BadTrace, NoTraining
from gradwire.traces.tcpmemory import SMALL_QUEUE_SEGMENTS
from gradwire.traces.threads import in_threads
from gradwire.traces.trace import CaptureFile, Trace, are_from
from gradwire.traces.units import show_first

MOST_NAMED = 6
LIMIT = re.compile(r"\d{1,7}")  # bytes (ip-sysctl.rst, tcp_limit_output_bytes)
LARGEST_NBYTES = 64 * 1024  # of a segment
WMEM = re.compile(r"\d{1,12} \d{1,12} (\d{1,12})")  # least, at first, most (tcp(7), tcp_wmem)
SETTINGS = "trace.yaml"
MAX_SETTINGS_NBYTES = 1 << 20
MAX_SETTINGS_DEPTH = 2  # the document, ranks


def open_trace(paths: Sequence[Path], ranks: Path | None = None) -> Trace:
    """Read captures, or folders of them, as one job.

    `ranks` is a file like trace.yaml, which takes precedence over one in a folder.  Raises BadCapture,
    BadTrace, OSError.
    """
    trace = open_captures(paths, ranks)
    if not len(trace.messages):
        raise NoTraining(trace.name, trace.no_training)
    return trace


def open_captures(paths: Sequence[Path], ranks: Path | None = None) -> Trace:
    """Like `open_trace`, but captures without training are a trace without messages that says why."""
    captures, rows_of, clocks = _by_one_clock(read_captures(paths))
    indexes, notes = read_indexes(captures)
    captures = [
        packets if index is None else with_delays(packets, index.delays)
        for packets, index in zip(captures, indexes, strict=True)
    ]
    streams = assemble(captures, rows_of)
    if found := [index for index in indexes if index is not None]:
        streams = supplemented(streams, found)
    trace = _decoded(paths, captures, streams, clocks, ranks)
    return replace(trace, notes=(*trace.notes, *notes)) if notes else trace


def open_recorded(paths: Sequence[Path], ranks: Path, mirrored: Path) -> Trace:
    """Like `open_captures`, but every stream notes what is read of it, and how long packets queued is from
    the captures in `mirrored` (`read_delays`), not from indexes.
    """
    captures, rows_of, clocks = _by_one_clock(read_captures(paths))
    captures = [with_delays(packets, read_delays(packets, mirrored)) for packets in captures]
    return _decoded(paths, captures, recorded(assemble(captures, rows_of)), clocks, ranks)


def read_captures(paths: Sequence[Path]) -> list[Packets]:
    """The packets of captures, or of folders of them, each packet of a file once, at times that can be."""
    files = capture_paths(paths)
    if is_sure_to_fit(files):
        return in_threads(_read, files)
    return [_read(path) for path in files]


def read_delays(packets: Packets, mirrored: Path) -> QueueingDelays | None:
    """How long packets queued by the capture of the same name in the folder `mirrored`, which is from before
    the port's queue; None if there is none, or none that can be read.
    """
    try:
        (entered,) = read_captures([mirrored / packets.path.name])
    except (BadCapture, OSError):
        return None
    return queueing_delays(packets, entered)


def is_sure_to_fit(paths: Sequence[Path]) -> bool:
    """Whether all of these files together take less memory than one alone may, half of what is free, whatever
    is in them.
    """
    if not all(path.is_file() for path in paths):
        return False
    nbytes = sum(path.stat().st_size for path in paths)
    if nbytes // RECORD_HEADER_NBYTES * ROW_NBYTES > free_nbytes() // 2:
        return False
    return not any(map(is_compressed, paths))


def _read(path: Path) -> Packets:
    return without_copies(with_plausible_times(read_capture(path)))


def _by_one_clock(read: Sequence[Packets]) -> tuple[Sequence[Packets], list[Rows], Clocks]:
    """The captures with the hosts' clocks corrected where that is possible, and their rows by direction."""
    rows_of = by_direction(read)
    captures, clocks = compare_clocks(read, rows_of)
    if any(one.corrected for one in clocks.hosts):
        rows_of = by_direction(captures)
    return captures, rows_of, clocks


def _decoded(
    paths: Sequence[Path],
    captures: Sequence[Packets],
    streams: Mapping[Direction, Stream],
    clocks: Clocks,
    ranks: Path | None,
) -> Trace:
    folder_settings = [path / SETTINGS for path in paths if (path / SETTINGS).is_file()]
    settings_path = ranks or next(iter(folder_settings), None)
    rank_of = read_settings(settings_path) if settings_path else {}
    name = paths[0].name or str(paths[0])
    choices = choose_all(connections(streams))
    trace = decoded(name, captures, choices, rank_of, clocks)
    manifest = _manifest(captures)
    if not manifest.is_of(trace.files):
        manifest = _Manifest()
    messages = replace(trace.messages, socket_nbytes=manifest.socket_nbytes)
    return replace(
        trace,
        messages=messages,
        is_emulated=manifest.is_captures,
        queued_segments=None if manifest.queued_nbytes is None else SMALL_QUEUE_SEGMENTS,
        queued_nbytes=manifest.queued_nbytes,
        cwnd_bounds=not manifest.begins_with_all_window,
    )


class _Route(BaseModel):
    """The window with which connections begin, in packets: more than buffers hold; None as Linux has it."""

    initcwnd: Annotated[int, Field(ge=1)] | None = None


class _Manifest(BaseModel):
    """The part of a capture's manifest that is about how hosts send."""

    kind: Annotated[str, Field(alias="schema")] = ""
    started_ns: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None
    seconds: Annotated[float, Field(ge=0, lt=1 << 32)] | None = None
    host_sysctls: Mapping[str, str] = {}
    host_route: _Route | None = None

    @property
    def is_captures(self) -> bool:
        return self.kind.startswith("gradwire.capture/")

    def is_of(self, files: Sequence[CaptureFile]) -> bool:
        """Whether it was made with these files, as far as it says when it was."""
        if self.started_ns is None or self.seconds is None:
            return True
        return are_from(files, self.started_ns, self.seconds)

    @property
    def begins_with_all_window(self) -> bool:
        """Whether connections began with a congestion window that bounds nothing."""
        return self.is_captures and self.host_route is not None and self.host_route.initcwnd is not None

    @property
    def socket_nbytes(self) -> int | None:
        """How large sockets' send buffers were; None if it does not say."""
        sizes = WMEM.fullmatch(self.host_sysctls.get("net/ipv4/tcp_wmem", ""))
        return int(sizes[1]) if sizes else None

    @property
    def queued_nbytes(self) -> int | None:
        """How much of a connection may be in its host's port: a segment beyond the kernel's limit."""
        limit = LIMIT.fullmatch(self.host_sysctls.get("net/ipv4/tcp_limit_output_bytes", ""))
        return int(limit[0]) + LARGEST_NBYTES if limit else None


def _manifest(captures: Sequence[Packets]) -> _Manifest:
    """The one beside the captures; one that says nothing if there is none."""
    beside = captures[0].path.with_name(MANIFEST)
    if not beside.is_file() or beside.stat().st_size > MAX_MANIFEST_NBYTES:
        return _Manifest()
    try:
        return _Manifest.model_validate_json(beside.read_bytes())
    except ValidationError:
        return _Manifest()  # of something else than a capture


def capture_paths(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The files themselves, and what lies in folders; each file once."""
    found: list[Path] = []
    for path in paths:
        inside = _captures_in(path) if path.is_dir() else [path]
        if not inside:
            raise BadTrace(_no_captures(path))
        found += inside
    if not found:
        raise BadTrace("no captures were given: name at least one file or folder")
    # Unlike `resolve` it takes links that go in a circle.
    return tuple({os.path.realpath(path): path for path in found}.values())


def _captures_in(folder: Path) -> list[Path]:
    """Regular files: a pipe would be waited for.  Links that lead nowhere too: opening them says so."""
    named = (path for path in folder.iterdir() if path.name.endswith(SUFFIXES))
    return sorted(path for path in named if path.is_file() or not path.exists())


def _no_captures(folder: Path) -> str:
    """What a folder has in place of captures."""
    text = f"{folder}: no capture in this folder"
    if some := [str(each) for each in sorted(folder.iterdir()) if each.is_dir() and _captures_in(each)]:
        return (
            f"{text}, but in {show_first(some, MOST_NAMED)}: name one of them, or several if they are one job"
        )
    return f"{text}: captures must end in {', '.join(SUFFIXES)}"


class Settings(BaseModel):
    """What `trace.yaml` may say."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    ranks: dict[IPv4Address | IPv6Address, Annotated[int, Field(ge=0)]] = {}


def read_settings(path: Path) -> dict[str, int]:
    """The ranks that a file like trace.yaml gives, by address.  Raise BadTrace, OSError."""
    # YAML is slow to import, and few captures have such a file.
    from gradwire.traces.plainyaml import compose, value_of

    octets = read_at_most(path, MAX_SETTINGS_NBYTES)
    if len(octets) > MAX_SETTINGS_NBYTES:
        raise BadTrace(
            f"{path}: it is larger than the {MAX_SETTINGS_NBYTES >> 20} MiB that a rank map may have"
        )
    try:
        settings = Settings.model_validate(value_of(compose(octets, MAX_SETTINGS_DEPTH)) or {})
    except ValueError as error:
        why = "" if isinstance(error, ValidationError) else f" ({error})"
        raise BadTrace(f"{path}: not a rank map{why}: write `ranks: {{10.0.0.1: 0, 10.0.0.2: 1}}`") from error
    return {str(address): rank for address, rank in settings.ranks.items()}
