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

from traces.framing.gloo import STORE_PORT
from traces.framing.gloo_decode import Decoded, decode
from traces.framing.gloo_hidden import Recovered, recover
from traces.framing.messages import Messages, collect, reranked
from traces.packets.capture import read_capture
from traces.packets.packets import Packets
from traces.packets.streams import Direction, Stream, assemble, own_address
from traces.recognition.ranks import (
    BadTrace,
    by_number,
    check_all_seen,
    greetings,
    inferred_order,
    told_order,
)
from traces.units import show_nbytes

SUFFIXES = (".pcap", ".cap", ".pcapng")
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
    """`messages.addresses` are the hosts by rank; `rendezvous_packets` counts those of the store, each
    once.
    """

    name: str
    files: tuple[CaptureFile, ...]
    messages: Messages
    losses: Losses
    rendezvous_packets: int
    notes: tuple[str, ...]

    @property
    def addresses(self) -> tuple[str, ...]:
        return self.messages.addresses

    @property
    def n_ranks(self) -> int:
        return len(self.messages.addresses)


class Settings(BaseModel):
    """What `trace.yaml` may say."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    ranks: dict[IPv4Address, Annotated[int, Field(ge=0)]] = {}


def open_trace(paths: Sequence[Path], ranks: Path | None = None) -> Trace:
    """Read captures, or folders of them, as one job.

    `ranks` is a file like trace.yaml, which takes precedence over one in a folder.  Raises BadCapture,
    BadTrace, OSError.
    """
    captures = [read_capture(path) for path in capture_paths(paths)]
    folder_settings = [path / SETTINGS for path in paths if (path / SETTINGS).is_file()]
    settings_path = ranks or next(iter(folder_settings), None)
    told = read_settings(settings_path) if settings_path else {}
    return made_trace(paths[0].name or str(paths[0]), captures, told)


def capture_paths(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The files themselves, and what lies in folders; each file once."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES) if path.is_dir() else [path]
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
    streams = assemble(captures)
    store = {d: s for d, s in streams.items() if STORE_PORT in (d.sport, d.dport)}
    others = {direction: stream for direction, stream in streams.items() if direction not in store}
    tried = {direction: decode(stream) for direction, stream in others.items()}
    decoded = {direction: gloo for direction, gloo in tried.items() if gloo is not None}
    if not decoded:
        raise BadTrace(_no_training(name, captures, streams))
    _check_one_job(decoded)
    found = recover(decoded)
    said = greetings(others, decoded.keys())
    messages = collect(found, by_number({*said, *(end for d in decoded for end in (d.src, d.dst))}))
    vantages = tuple(own_address(packets) for packets in captures)
    check_all_seen(messages, vantages)
    if ranks:
        order, note = told_order(messages.addresses, ranks), "ranks: as told"
    else:
        order, note = inferred_order(messages, _store_address(store), said)
    return Trace(
        name=name,
        files=tuple(_summary(p, host) for p, host in zip(captures, vantages, strict=True)),
        messages=reranked(messages, order),
        losses=_losses(found),
        rendezvous_packets=sum(stream.n_packets for stream in store.values()),
        notes=(note, *_file_notes(captures, messages.addresses, vantages)),
    )


def _store_address(store: Mapping[Direction, Stream]) -> str | None:
    listeners = {d.src if d.sport == STORE_PORT else d.dst for d in store}
    return listeners.pop() if len(listeners) == 1 else None


def _check_one_job(decoded: Mapping[Direction, Decoded]) -> None:
    connections: defaultdict[frozenset[str], set[frozenset[int]]] = defaultdict(set)
    for d in decoded:
        connections[frozenset((d.src, d.dst))].add(frozenset((d.sport, d.dport)))
    for pair, ports in connections.items():
        if len(ports) > 1:
            raise BadTrace(
                f"{len(ports)} gloo connections between {' and '.join(sorted(pair))}: two jobs or process "
                "groups in one capture; cut out one of them, for example by time with editcap -A and -B"
            )


def _no_training(name: str, captures: Sequence[Packets], streams: Mapping[Direction, Stream]) -> str:
    n_packets = sum(len(packets) for packets in captures)
    text = f"{name}: no gloo traffic in {n_packets} packets"
    if streams:
        largest = max(streams.values(), key=lambda stream: stream.nbytes)
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


def _losses(found: Sequence[Recovered]) -> Losses:
    unresolved = [gap for stream in found for gap in stream.unresolved]
    return Losses(
        data_packets=sum(f.stream.n_packets for f in found),
        retransmitted=sum(len(f.stream.retransmitted_at) for f in found),
        recovered=sum(frame.recovered for f in found for frame in f.frames),
        unresolved=len(unresolved),
        unresolved_nbytes=sum(gap.end - gap.start for gap in unresolved),
        unseen_nbytes=sum(f.stream.unseen_nbytes for f in found),
    )


def _file_notes(
    captures: Sequence[Packets], addresses: Sequence[str], vantages: Sequence[str | None]
) -> list[str]:
    notes = [f"{p.path}: its end is cut off; all whole packets were used" for p in captures if p.truncated]
    absent = [address for address in addresses if address not in vantages]
    if absent and None not in vantages:
        notes.append(f"no capture made at {', '.join(absent)}: seen from the other ends only")
    return notes
