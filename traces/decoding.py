"""Which of a job's connections carry its training, and their messages with every host's rank."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from traces.framing.frames import Found, Framing, Reading
from traces.framing.framings import Choice, framings
from traces.framing.gloo_framing import Gloo
from traces.framing.messages import collect, no_messages, reranked
from traces.framing.plain import Plain
from traces.framing.store import Store
from traces.packets.directions import own_address
from traces.packets.packets import Packets
from traces.recognition.groups import main_group
from traces.recognition.ranks import BadTrace, by_number, check_all_seen, inferred_order, told_order
from traces.trace import Trace, capture_file, losses
from traces.units import show_nbytes, show_s

ENOUGH_NBYTES = 128  # headers of Ethernet, IP and TCP, and the longest header of a message
CLOCK_SET_NS = 10_000_000  # packets from several processors are written some µs out of order, not 10 ms


def decoded(
    name: str, captures: Sequence[Packets], choices: tuple[Choice, ...], ranks: Mapping[str, int]
) -> Trace:
    """The messages of the framing that the training is in; where there is none, a trace without messages,
    whose first note says so.

    `ranks` by address are what somebody told.  Raises BadTrace.
    """
    framing = _main_framing(choices)
    if framing is None:
        return _without_training(name, captures, choices)
    chosen = [(number, c) for number, c in enumerate(choices) if c.framing is framing]
    aside: list[str] = []
    if isinstance(framing, Gloo):
        training, aside = main_group([choice.connection for _, choice in chosen])
        chosen = [chosen[place] for place in training]
    found = framing.read([choice.connection for _, choice in chosen])
    if not any(reading.frames for reading in found.readings):
        return _without_training(name, captures, choices)
    ends = {end for r in found.readings for end in (r.stream.direction.src, r.stream.direction.dst)}
    messages = collect(_numbered(found, chosen), by_number({*found.said, *ends}))
    vantages = tuple(own_address(packets) for packets in captures)
    try:
        check_all_seen(messages, vantages)
    except BadTrace as error:
        return _without_training(name, captures, choices, str(error))
    if ranks:
        order, note = told_order(messages.addresses, ranks), "ranks: as told"
    else:
        store = _store_address(choices)
        order, note = inferred_order(messages, store, found.said, rings=isinstance(framing, Gloo))
    return Trace(
        name=name,
        framing=framing.name,
        files=tuple(capture_file(p, host) for p, host in zip(captures, vantages, strict=True)),
        captures=tuple(captures),
        choices=choices,
        messages=reranked(messages, order),
        losses=losses(found.readings),
        notes=(
            note,
            *aside,
            *_other_jobs(choices, framing),
            *found.notes,
            *_file_notes(captures, messages.addresses, vantages),
        ),
    )


def _without_training(
    name: str, captures: Sequence[Packets], choices: tuple[Choice, ...], why: str | None = None
) -> Trace:
    vantages = tuple(own_address(packets) for packets in captures)
    return Trace(
        name=name,
        framing="",
        files=tuple(capture_file(p, host) for p, host in zip(captures, vantages, strict=True)),
        captures=tuple(captures),
        choices=choices,
        messages=no_messages(),
        losses=losses([Reading(stream, ()) for choice in choices for stream in choice.connection.streams]),
        notes=(why or _no_training(name, captures, choices), *_file_notes(captures, (), vantages)),
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


def _other_jobs(choices: Sequence[Choice], framing: Framing) -> Iterator[str]:
    """Training in other framings than the job's, which nothing else of the report speaks of."""
    nbytes: defaultdict[str, int] = defaultdict(int)
    for choice in choices:
        other = choice.framing
        if other is not None and other.is_training and other.name not in (framing.name, Plain.name):
            nbytes[other.name] += sum(stream.nbytes for stream in choice.connection.streams)
    for name, carried in nbytes.items():
        yield f"also seen and left out: {show_nbytes(carried)} in the framing {name}, another job's perhaps"


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
    text = f"{name}: no training in {n_packets} packets"
    streams = [stream for choice in choices for stream in choice.connection.streams]
    if streams:
        largest = max(streams, key=lambda stream: stream.nbytes)
        d = largest.direction
        text += f" (most: {d.src}:{d.sport} to {d.dst}:{d.dport}, {show_nbytes(largest.nbytes)})"
    known = ", ".join(framing.name for framing in framings() if framing.is_training)
    return f"{text}; it is looked for in the framings {known}: capture with tcpdump -s 128 or more"


def _file_notes(
    captures: Sequence[Packets], addresses: Sequence[str], vantages: Sequence[str | None]
) -> list[str]:
    notes = [_told_of_end(packets) for packets in captures if packets.truncated]
    for packets in captures:
        notes += _told_of(packets)
    absent = [address for address in addresses if address not in vantages]
    if absent and None not in vantages:
        between = "; what they sent each other is missing" if len(absent) > 1 else ""
        notes.append(f"no capture made at {', '.join(absent)}: seen from the other ends only{between}")
    return notes


def _told_of_end(packets: Packets) -> str:
    """Why a file was not read to its end."""
    if "cut off" in packets.fault:
        return f"{packets.path}: its end is cut off; all whole packets were used"
    return f"{packets.path}: not read to its end, {packets.fault}; all packets before were used"


def _told_of(packets: Packets) -> Iterator[str]:
    """What is amiss with one file."""
    if packets.n_copies:
        yield (
            f"{packets.path}: {packets.n_copies:,} packets are in it twice, as where captures were merged: "
            "each was counted once, when it was first seen"
        )
    if packets.n_cut:
        yield (
            f"{packets.path}: {packets.n_cut:,} packets are cut off within their headers and left out: "
            f"capture {ENOUGH_NBYTES} bytes of each packet, tcpdump -s {ENOUGH_NBYTES}"
        )
    back_ns = -int(np.diff(packets.time_ns).min(initial=0))
    if back_ns > CLOCK_SET_NS:
        yield (
            f"{packets.path}: its clock was set back by {show_s(back_ns / 1e9)} while it was captured: times "
            "across that instant are wrong; cut the files there, with editcap -A and -B"
        )
