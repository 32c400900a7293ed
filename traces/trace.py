"""A trace: the captures of one job, read, reassembled and decoded, with the rank of every host."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradwire.traces.framing.frames import Reading
from gradwire.traces.framing.framings import Choice
from gradwire.traces.framing.messages import Messages
from gradwire.traces.packets.clocks import ONE_CLOCK, Clocks
from gradwire.traces.packets.packets import Packets

MAX_UNREAD = 0.01  # of a job's bytes: with more, neither its shares nor a replay of it can be believed


@dataclass(frozen=True)
class CaptureFile:
    """What one file holds; `host` is where it was captured, None for a capture of many hosts.

    `snaplen` is the least of its interfaces' (0: unlimited); `snapped` counts packets that were not kept
    whole; `dropped` those that the capture lost by its own word (None: it does not say).  `truncated`: the
    file's end is missing.  `mistimed` counts packets that were left out because their time cannot be right;
    the other counts are without them.
    """

    path: Path
    host: str | None
    n_packets: int
    nbytes: int
    first_ns: int
    last_ns: int
    truncated: bool
    snaplen: int
    snapped: int
    dropped: int | None
    mistimed: int = 0


def are_from(files: Sequence[CaptureFile], begun_ns: int, seconds: float) -> bool:
    """Whether one of the files has packets from a time; of several hosts' clocks one may be off."""
    ended_ns = begun_ns + round(seconds * 1e9)
    return any(file.last_ns >= begun_ns and file.first_ns <= ended_ns for file in files)


@dataclass(frozen=True)
class Losses:
    """What the network lost (retransmitted) and what the capture did not keep.

    `training_nbytes` are all bytes of the training's streams; `unresolved_nbytes` of them are hidden and
    could not be recovered, and `unseen_nbytes` are in no capture.
    """

    data_packets: int
    retransmitted: int
    recovered: int
    unresolved: int
    unresolved_nbytes: int
    unseen_nbytes: int
    training_nbytes: int = 0

    @property
    def unread(self) -> float:
        """The share of the training's bytes that are in no message, 0 to 1."""
        return min(1.0, (self.unresolved_nbytes + self.unseen_nbytes) / max(1, self.training_nbytes))


@dataclass(frozen=True)
class Trace:
    """`messages` are those of the connections that speak `framing`; their `addresses` are the hosts by rank.

    `choices` are all connections with payload, each with what it was taken for; a message's `connection` is a
    position in it.  `seen_from` are the ranks whose own captures are there, where what others sent each other
    is in none; empty if all of the job was seen.
    `partly` says which hosts' part that is, and why; `no_training` why there are no messages.
    `clocks` are those of the job's hosts; the times of all else are corrected by them.
    `is_emulated` if `gradwire capture` made it, on virtual cables; `queued_segments` and `queued_nbytes` are
    how much of a connection TCP has in its host's port at most, None where nobody says; without
    `cwnd_bounds` no congestion window bounded what hosts sent, until packets were lost.
    """

    name: str
    framing: str
    files: tuple[CaptureFile, ...]
    captures: tuple[Packets, ...]
    choices: tuple[Choice, ...]
    messages: Messages
    losses: Losses
    notes: tuple[str, ...]
    seen_from: tuple[int, ...] = ()
    clocks: Clocks = ONE_CLOCK
    partly: str = ""
    no_training: str = ""
    is_emulated: bool = False
    queued_segments: int | None = None
    queued_nbytes: int | None = None
    cwnd_bounds: bool = True

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


def capture_file(packets: Packets, host: str | None) -> CaptureFile:
    limits = [one.snaplen for one in packets.interfaces if one.snaplen]
    drops = [one.dropped for one in packets.interfaces if one.dropped is not None]
    return CaptureFile(
        path=packets.path,
        host=host,
        n_packets=len(packets),
        nbytes=int(packets.wire_nbytes.sum(dtype="int64")),
        first_ns=int(packets.time_ns.min()),
        last_ns=int(packets.time_ns.max()),
        truncated=packets.truncated,
        snaplen=min(limits, default=0),
        snapped=int(np.count_nonzero(packets.captured_nbytes < packets.wire_nbytes)),
        dropped=sum(drops) if drops else None,
        mistimed=packets.n_mistimed,
    )


def losses(readings: Sequence[Reading]) -> Losses:
    hidden = [gap for reading in readings for gap in reading.hidden]
    return Losses(
        data_packets=sum(r.stream.n_packets for r in readings),
        retransmitted=sum(r.stream.n_retransmitted for r in readings),
        recovered=sum(frame.recovered for r in readings for frame in r.frames),
        unresolved=len(hidden),
        unresolved_nbytes=sum(gap.end - gap.start for gap in hidden),
        unseen_nbytes=sum(r.stream.unseen_nbytes for r in readings),
        training_nbytes=sum(r.stream.nbytes for r in readings),
    )
