"""A trace: captures of one job, read, put together and decoded, with every host's rank.

An edge module: it looks into folders and reads `trace.yaml` (`ranks: {address: rank}`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from traces.framing.frames import Found, Framing, Reading
from traces.framing.framings import Choice, choose
from traces.framing.gloo_framing import Gloo
from traces.framing.messages import Messages, collect, no_messages, reranked
from traces.framing.store import Store
from traces.packets.capture import SUFFIXES, read_capture
from traces.packets.directions import own_address
from traces.packets.packets import Packets
from traces.packets.streams import assemble, connections
from traces.recognition.groups import main_group
from traces.recognition.ranks import (
    BadTrace,
    by_number,
    check_all_seen,
    inferred_order,
    told_order,
)
from traces.units import show_nbytes

SETTINGS = "trace.yaml"
MAX_SETTINGS_NBYTES = 1 << 20


@dataclass(frozen=True)
class CaptureFile:
    """What one file holds; `host` is where it was captured, None for a capture of many hosts."""

    path: Path
    host: str | None
    n_packets: int
    nbytes: int
    first_ns: int
    last_ns: int
    truncated: bool


@dataclass(frozen=True)
class Losses:
    """What the network lost (retransmitted) and what the capture did not keep."""

    data_packets: int
    retransmitted: int
    recovered: int
    unresolved: int
    unresolved_nbytes: int
    unseen_nbytes: int


@dataclass(frozen=True)
class Trace:
    """`messages` are those of the connections that speak `framing`; their `addresses` are the hosts by rank.

    `choices` are all connections with payload, each with what it was taken for; a message's `connection` is a
    position in it.
    """

    name: str
    framing: str
    files: tuple[CaptureFile, ...]
    captures: tuple[Packets, ...]
    choices: tuple[Choice, ...]
    messages: Messages
    losses: Losses
    notes: tuple[str, ...]

    @property
    def addresses(self) -> tuple[str, ...]:
        return self.messages.addresses

    @property
    def n_ranks(self) -> int:
        return len(self.messages.addresses)

    @property
    def rendezvous_packets(self) -> int:
        """Data packets of what only sets the job up, each once."""
        return sum(
            stream.n_packets
            for choice in self.choices
            if choice.framing is not None and not choice.framing.is_training
            for stream in choice.connection.streams
        )


class Settings(BaseModel):
    """What `trace.yaml` may say."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    ranks: dict[IPv4Address, Annotated[int, Field(ge=0)]] = {}


class NoTraining(BadTrace):
    """Captures in which no training is to be found."""


def open_trace(paths: Sequence[Path], ranks: Path | None = None) -> Trace:
    """Read captures, or folders of them, as one job.

    `ranks` is a file like trace.yaml, which takes precedence over one in a folder.  Raises BadCapture,
    BadTrace, OSError.
    """
    trace = open_captures(paths, ranks)
    if not len(trace.messages):
        raise NoTraining(trace.notes[0])
    return trace


def open_captures(paths: Sequence[Path], ranks: Path | None = None) -> Trace:
    """Like `open_trace`, but captures without training are a trace without messages, whose first note says
    so.
    """
    captures = [read_capture(path) for path in capture_paths(paths)]
    folder_settings = [path / SETTINGS for path in paths if (path / SETTINGS).is_file()]
    settings_path = ranks or next(iter(folder_settings), None)
    told = read_settings(settings_path) if settings_path else {}
    name = paths[0].name or str(paths[0])
    choices = tuple(map(choose, connections(assemble(captures))))
    try:
        return _trace(name, captures, choices, told)
    except NoTraining as error:
        return _without_training(name, captures, choices, str(error))


def capture_paths(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The files themselves, and what lies in folders; each file once."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(p for p in path.iterdir() if p.name.endswith(SUFFIXES)) if path.is_dir() else [path]
        if not inside:
            raise BadTrace(f"{path}: no capture in this folder: its files must end in {', '.join(SUFFIXES)}")
        found += inside
    if not found:
        raise BadTrace("no capture given")
    return tuple({path.resolve(): path for path in found}.values())


def read_settings(path: Path) -> dict[str, int]:
    """The ranks that a file like trace.yaml tells, by address."""
    if path.stat().st_size > MAX_SETTINGS_NBYTES:
        raise BadTrace(f"{path}: too large for a rank map")
    try:
        settings = Settings.model_validate(yaml.safe_load(path.read_bytes()) or {})
    except (yaml.YAMLError, ValidationError) as error:
        raise BadTrace(f"{path}: no rank map: write `ranks: {{10.0.0.1: 0, 10.0.0.2: 1}}`") from error
    return {str(address): rank for address, rank in settings.ranks.items()}


def made_trace(name: str, captures: Sequence[Packets], ranks: Mapping[str, int]) -> Trace:
    """Put the packets together, decode them and find out who is which rank."""
    return _trace(name, captures, tuple(map(choose, connections(assemble(captures)))), ranks)


def _trace(
    name: str, captures: Sequence[Packets], choices: tuple[Choice, ...], ranks: Mapping[str, int]
) -> Trace:
    framing = _main_framing(choices)
    if framing is None:
        raise NoTraining(_no_training(name, captures, choices))
    chosen = [(number, c) for number, c in enumerate(choices) if c.framing is framing]
    aside: list[str] = []
    if isinstance(framing, Gloo):
        training, aside = main_group([choice.connection for _, choice in chosen])
        chosen = [chosen[place] for place in training]
    found = framing.read([choice.connection for _, choice in chosen])
    if not any(reading.frames for reading in found.readings):
        raise NoTraining(_no_training(name, captures, choices))
    ends = {end for r in found.readings for end in (r.stream.direction.src, r.stream.direction.dst)}
    messages = collect(_numbered(found, chosen), by_number({*found.said, *ends}))
    vantages = tuple(own_address(packets) for packets in captures)
    check_all_seen(messages, vantages)
    if ranks:
        order, note = told_order(messages.addresses, ranks), "ranks: as told"
    else:
        store = _store_address(choices)
        order, note = inferred_order(messages, store, found.said, rings=isinstance(framing, Gloo))
    return Trace(
        name=name,
        framing=framing.name,
        files=tuple(_summary(p, host) for p, host in zip(captures, vantages, strict=True)),
        captures=tuple(captures),
        choices=choices,
        messages=reranked(messages, order),
        losses=_losses(found.readings),
        notes=(note, *aside, *found.notes, *_file_notes(captures, messages.addresses, vantages)),
    )


def _without_training(name: str, captures: Sequence[Packets], choices: tuple[Choice, ...], why: str) -> Trace:
    vantages = tuple(own_address(packets) for packets in captures)
    return Trace(
        name=name,
        framing="",
        files=tuple(_summary(p, host) for p, host in zip(captures, vantages, strict=True)),
        captures=tuple(captures),
        choices=choices,
        messages=no_messages(),
        losses=_losses([Reading(stream, ()) for choice in choices for stream in choice.connection.streams]),
        notes=(why, *_file_notes(captures, (), vantages)),
    )


def _main_framing(choices: Sequence[Choice]) -> Framing | None:
    """The training framing that most bytes are in, by how sure it is that they are."""
    nbytes: defaultdict[str, float] = defaultdict(float)
    framings: dict[str, Framing] = {}
    for choice in choices:
        if choice.framing is not None and choice.framing.is_training:
            framings[choice.framing.name] = choice.framing
            carried = sum(stream.nbytes for stream in choice.connection.streams)
            nbytes[choice.framing.name] += carried * choice.fit.confidence
    return framings[max(nbytes, key=lambda name: nbytes[name])] if nbytes else None


def _numbered(found: Found, chosen: Sequence[tuple[int, Choice]]) -> list[tuple[int, Reading]]:
    """The readings, each with the number of its connection."""
    number_of = {s.direction: number for number, choice in chosen for s in choice.connection.streams}
    return [(number_of[reading.stream.direction], reading) for reading in found.readings]


def _store_address(choices: Sequence[Choice]) -> str | None:
    store = [choice.connection for choice in choices if isinstance(choice.framing, Store)]
    listeners = {
        end.direction.dst if end.opener else end.direction.src for end in (one.streams[0] for one in store)
    }
    return listeners.pop() if len(listeners) == 1 else None


def _no_training(name: str, captures: Sequence[Packets], choices: Sequence[Choice]) -> str:
    n_packets = sum(len(packets) for packets in captures)
    text = f"{name}: no gloo traffic in {n_packets} packets"
    streams = [stream for choice in choices for stream in choice.connection.streams]
    if streams:
        largest = max(streams, key=lambda stream: stream.nbytes)
        d = largest.direction
        text += f" (most: {d.src}:{d.sport} to {d.dst}:{d.dport}, {show_nbytes(largest.nbytes)})"
    return (
        text
        + "; gradwire reads torch.distributed with the gloo backend, captured with tcpdump -s 128 or more"
    )


def _summary(packets: Packets, host: str | None) -> CaptureFile:
    return CaptureFile(
        path=packets.path,
        host=host,
        n_packets=len(packets),
        nbytes=int(packets.wire_nbytes.sum(dtype="int64")),
        first_ns=int(packets.time_ns.min()),
        last_ns=int(packets.time_ns.max()),
        truncated=packets.truncated,
    )


def _losses(readings: Sequence[Reading]) -> Losses:
    hidden = [gap for reading in readings for gap in reading.hidden]
    return Losses(
        data_packets=sum(r.stream.n_packets for r in readings),
        retransmitted=sum(len(r.stream.retransmitted_at) for r in readings),
        recovered=sum(frame.recovered for r in readings for frame in r.frames),
        unresolved=len(hidden),
        unresolved_nbytes=sum(gap.end - gap.start for gap in hidden),
        unseen_nbytes=sum(r.stream.unseen_nbytes for r in readings),
    )


def _file_notes(
    captures: Sequence[Packets], addresses: Sequence[str], vantages: Sequence[str | None]
) -> list[str]:
    notes = [f"{p.path}: its end is cut off; all whole packets were used" for p in captures if p.truncated]
    absent = [address for address in addresses if address not in vantages]
    if absent and None not in vantages:
        notes.append(f"no capture made at {', '.join(absent)}: seen from the other ends only")
    return notes
