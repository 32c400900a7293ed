"""Finds the connections that carry a job's training, and decodes their messages and the hosts' ranks."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gradwire.traces.framing.frames import ALLREDUCE, UNKNOWN_TAG, Found, Framing, Reading
from gradwire.traces.framing.framings import Choice, framings
from gradwire.traces.framing.gloo_framing import Gloo
from gradwire.traces.framing.grpc_framing import Grpc
from gradwire.traces.framing.messages import Messages, collect, no_messages, reranked
from gradwire.traces.framing.plain import Plain
from gradwire.traces.framing.setups import Store
from gradwire.traces.packets.clocks import ONE_CLOCK, Clocks, HostClock
from gradwire.traces.packets.clocks import name as clock_name
from gradwire.traces.packets.directions import own_address
from gradwire.traces.packets.packets import Packets
from gradwire.traces.recognition.groups import main_group
from gradwire.traces.recognition.ranks import (
    MOST_NAMED,
    BadTrace,
    by_number,
    check_all_seen,
    given_order,
    inferred_order,
)
from gradwire.traces.trace import Trace, capture_file, losses
from gradwire.traces.units import show_count, show_first, show_long, show_nbytes, show_s

ENOUGH_NBYTES = 128  # headers of Ethernet, IP and TCP, and the longest header of a message
WORTH_PPM = 5  # a drift below this is not worth a word: 5 µs in each second
CLOCK_SET_NS = 10_000_000  # packets from several processors are written some µs out of order, not 10 ms


def decoded(
    name: str,
    captures: Sequence[Packets],
    choices: tuple[Choice, ...],
    ranks: Mapping[str, int],
    clocks: Clocks = ONE_CLOCK,
) -> Trace:
    """The messages of the framing that the training is in; where there is none, a trace without messages
    that says why.

    `ranks` by address are those that the user gave.  Raises BadTrace.
    """
    framing = _main_framing(choices)
    if framing is None:
        return _without_training(name, captures, choices, clocks)
    chosen = [(number, c) for number, c in enumerate(choices) if c.framing is framing]
    aside: list[str] = []
    if isinstance(framing, Gloo):
        training, aside = main_group([choice.connection for _, choice in chosen])
        chosen = [chosen[place] for place in training]
    found = framing.read([choice.connection for _, choice in chosen])
    if not any(reading.frames for reading in found.readings):
        return _without_training(name, captures, choices, clocks)
    ends = {end for r in found.readings for end in (r.stream.direction.src, r.stream.direction.dst)}
    messages = collect(_numbered(found, chosen), by_number({*found.said, *ends}))
    vantages = tuple(own_address(packets) for packets in captures)
    seen_hosts: list[str] = []
    partly = ""
    try:
        check_all_seen(messages, vantages, all_connect=not isinstance(framing, Grpc))
    except BadTrace as error:
        seen_hosts = _hosts_seen_whole(messages, vantages)
        if not seen_hosts:
            return _without_training(name, captures, choices, clocks, str(error))
        partly = f"seen from {show_first(seen_hosts, MOST_NAMED)} only: {error}"
    clocks = clocks.of_job(messages.addresses)
    if not clocks.comparable and clocks.apart:
        return _without_training(name, captures, choices, clocks, _no_common_time(clocks))
    if ranks:
        order, note = given_order(messages.addresses, ranks), "ranks: as given"
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
        seen_from=tuple(order.index(address) for address in seen_hosts),
        clocks=clocks,
        partly=partly,
        notes=(
            *([partly] if partly else []),
            note,
            *_clock_notes(clocks),
            *aside,
            *_pair_note(framing, messages.addresses, vantages),
            *_other_jobs(choices, framing),
            *found.notes,
            *_file_notes(captures, messages.addresses, vantages),
        ),
    )


def _hosts_seen_whole(messages: Messages, vantages: Sequence[str | None]) -> list[str]:
    """The hosts whose part of the job their own captures show whole; none if its allreduces have no tags."""
    tags = messages.tag[messages.of(ALLREDUCE)]
    if None in vantages or (len(tags) and (tags == UNKNOWN_TAG).all()):
        return []
    captured = [address for address in messages.addresses if address in vantages]
    return captured if len(captured) < len(messages.addresses) else []


def _without_training(
    name: str,
    captures: Sequence[Packets],
    choices: tuple[Choice, ...],
    clocks: Clocks,
    why: str | None = None,
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
        clocks=clocks,
        no_training=why or _no_training(captures, choices),
        notes=(
            *map(_corrected, (one for one in clocks.hosts if one.corrected)),
            *_file_notes(captures, (), vantages),
        ),
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


def _no_training(captures: Sequence[Packets], choices: Sequence[Choice]) -> str:
    text = f"no training in {show_count(sum(map(len, captures)), 'packet')}"
    streams = [stream for choice in choices for stream in choice.connection.streams]
    if streams:
        largest = max(streams, key=lambda stream: stream.nbytes)
        d = largest.direction
        text += f" (most: {d.src}:{d.sport} to {d.dst}:{d.dport}, {show_nbytes(largest.nbytes)})"
    known = ", ".join(framing.name for framing in framings() if framing.is_training)
    return f"{text}; gradwire looks for the framings {known}: capture with tcpdump -s 128 or more"


def _file_notes(
    captures: Sequence[Packets], addresses: Sequence[str], vantages: Sequence[str | None]
) -> list[str]:
    notes = [_truncation_note(packets) for packets in captures if packets.truncated]
    for packets in captures:
        notes += _file_note(packets)
    absent = [address for address in addresses if address not in vantages]
    if absent and None not in vantages:
        between = "; what they sent each other is missing" if len(absent) > 1 else ""
        notes.append(
            f"no capture made at {show_first(absent, MOST_NAMED)}: seen from the other ends only{between}"
        )
    return notes


def _pair_note(framing: Framing, addresses: Sequence[str], vantages: Sequence[str | None]) -> Iterator[str]:
    """A file of two hosts has both in every packet, made at one of them or left by a filter."""
    if isinstance(framing, Grpc) and len(addresses) == 2 and None in vantages:
        yield "whether others took part is not known: these files hold the messages of two hosts alone"


def _clock_notes(clocks: Clocks) -> Iterator[str]:
    yield from map(_corrected, (one for one in clocks.hosts if one.corrected))
    if not clocks.comparable:
        yield f"clocks: {clocks.why_not}; so nothing is said across hosts: who is late, waits, rates, delays"


def _corrected(clock: HostClock) -> str:
    way = "ahead of" if clock.offset_ns >= 0 else "behind"
    drift = f", drift {clock.drift_ppm:+.3g} ppm" if abs(clock.drift_ppm) >= WORTH_PPM else ""
    return (
        f"clocks: the clock of {clock_name(clock)} was {show_long(abs(clock.offset_ns))} {way} the others "
        f"(± {show_s(clock.uncertainty_ns / 1e9)}{drift}){_set(clock)}, as packets that were seen at both "
        "ends show: its times were corrected by that"
    )


def _set(clock: HostClock) -> str:
    if clock.set_before is None:
        return ""
    way = "forward" if clock.set_ns > 0 else "back"
    return (
        f", and was set {way} by {show_long(abs(clock.set_ns))} (± {show_s(2 * clock.uncertainty_ns / 1e9)}) "
        f"between packets {clock.set_before:,} and {clock.set_before + 1:,} of those that were read"
    )


def _no_common_time(clocks: Clocks) -> str:
    some = ", ".join(map(clock_name, clocks.apart))
    return (
        f"the times of {some} are all before or after the other hosts', and {clocks.why_not}: shift them "
        "with editcap -t, or leave those files out"
    )


def _truncation_note(packets: Packets) -> str:
    """Why a file was not read to its end."""
    if "cut off" in packets.fault:
        return f"{packets.path}: its end is cut off; all whole packets were used"
    return f"{packets.path}: not read to its end, {packets.fault}; all packets before were used"


def _file_note(packets: Packets) -> Iterator[str]:
    """What is amiss with one file."""
    if packets.n_copies:
        copies = show_count(packets.n_copies, "packet is", "packets are")
        yield (
            f"{packets.path}: {copies} in it twice, as where captures were merged: each was counted once, "
            "when it was first seen"
        )
    if packets.n_mistimed:
        yield f"{packets.path}: {_mistimed(packets)}"
    if packets.n_cut:
        cut = show_count(packets.n_cut, "packet is", "packets are")
        yield (
            f"{packets.path}: {cut} cut off within the headers and left out: "
            f"capture {ENOUGH_NBYTES} bytes of each packet, tcpdump -s {ENOUGH_NBYTES}"
        )
    back_ns = -int(np.diff(packets.time_ns).min(initial=0))
    if back_ns > CLOCK_SET_NS:
        yield (
            f"{packets.path}: its clock was set back by {show_s(back_ns / 1e9)} while it was captured: times "
            "across that instant are wrong; cut the files there, with editcap -A and -B"
        )


def _mistimed(packets: Packets) -> str:
    """Which packets were left out, and why."""
    first = packets.mistimed[0]
    apart_ns = first.time_ns - first.beside_ns
    also = ", ".join(f"{one.number:,} (at byte {one.at:,})" for one in packets.mistimed[1:])
    left = packets.n_mistimed - len(packets.mistimed)
    way = "after" if apart_ns > 0 else "before"
    more = f"; also packets {also}" if also else ""
    more += f" and {left:,} more" if left else ""
    return (
        f"packet {first.number:,} (at byte {first.at:,}) has a time that cannot be right, "
        f"{_date(first.time_ns)}: {show_long(abs(apart_ns))} {way} its neighbour; left out{more}"
    )


def _date(time_ns: int) -> str:
    return f"{np.datetime64(time_ns, 'ns').astype('datetime64[ms]')} UTC"
