"""The rank of each host, and whether all ranks are visible: from the traffic, or from a file."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from ipaddress import ip_address

import numpy as np
import numpy.typing as npt

from gradwire.traces.components import components
from gradwire.traces.framing.frames import SEND, UNKNOWN_TAG
from gradwire.traces.framing.messages import Messages
from gradwire.traces.units import show_first

MOST_NAMED = 8


class BadTrace(Exception):
    """Captures that hold no whole training job; the text says what is missing and what to do."""


class NoTraining(BadTrace):
    """`why` no training was found in the captures that are called `name`."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.why = why


def by_number(addresses: set[str]) -> tuple[str, ...]:
    """IPv4 before IPv6."""
    return tuple(sorted(addresses, key=lambda text: (ip_address(text).version, int(ip_address(text)))))


def given_order(addresses: Sequence[str], ranks: Mapping[str, int]) -> tuple[str, ...]:
    """The addresses in the order of `ranks`; raise BadTrace unless that numbers all of them from 0."""
    unknown = [address for address in addresses if address not in ranks]
    if unknown:
        raise BadTrace(
            f"the rank map leaves out {show_first(unknown, MOST_NAMED)}, which the captures show: add it"
        )
    order = tuple(sorted(addresses, key=lambda address: ranks[address]))
    numbers = [ranks[address] for address in order]
    if numbers != list(range(len(order))):
        raise BadTrace(
            f"the rank map must number the {len(order)} hosts of the captures from 0 on, got "
            f"{show_first(numbers, MOST_NAMED)}"
        )
    return order


def inferred_order(
    messages: Messages, store: str | None, said: Mapping[str, Collection[int]], *, rings: bool = True
) -> tuple[tuple[str, ...], str]:
    """Addresses by rank, and how that is known; `messages.addresses` must be in numerical order.

    What the ranks `said` (`traces.framing.frames.Found`) is exact.  Else, with `rings`, gloo's tell the order
    up to rotation: rank r sends to r-1 in an allreduce, to r+1 in an allgather; rank 0 is then where the
    rendezvous store listens, or what spreads the first broadcast.
    """
    addresses = messages.addresses
    ring = (_ring(messages, "allreduce", -1) or _ring(messages, "allgather", +1)) if rings else None
    order = _said_order(addresses, said)
    source = "what they said when they connected"
    if order is None and ring is None:
        numbers = sorted({number for some in said.values() if len(some) == 1 for number in some})
        if len(numbers) < len(addresses):
            return addresses, "ranks: order of the addresses (there is nothing to check it with)"
        some = show_first(numbers, MOST_NAMED)
        return addresses, (
            f"ranks: order of the addresses; they say that they are {some} of their job: "
            "others are not in these files, so the numbers here are not the job's"
        )
    if order is None and ring is not None:
        first = ring.index(addresses.index(store) if store in addresses else _first_root(messages))
        order = tuple(addresses[i] for i in ring[first:] + ring[:first])
        source = "gloo's ring"
    assert order is not None
    agreeing = [source]
    if source != "gloo's ring" and ring is not None:
        by_ring = [addresses.index(address) for address in order]
        start = ring.index(by_ring[0])
        agreeing += ["gloo's ring"] * (ring[start:] + ring[:start] == by_ring)
    agreeing += ["the rendezvous store at rank 0"] * (store == order[0])
    same = "the order of the addresses" if order == addresses else "not the order of the addresses"
    return order, f"ranks: {same}, by {', '.join(agreeing)}"


def check_all_seen(messages: Messages, vantages: Sequence[str | None], *, all_connect: bool = True) -> None:
    """Raise BadTrace if hosts whose own captures are missing talked to each other unseen, or may have.

    `vantages` are the hosts whose files are there; None stands for a capture of many, as at a switch.
    What shows it: a collective in which some host never sends or never receives, or, with a parameter server,
    a host of which nothing but the set-up is seen.  Unless `all_connect`, each rank to each other one, a host
    without a capture may have exchanged more with hosts that nothing shows.
    """
    absent = [address for address in messages.addresses if address not in vantages]
    advice = f"add the captures of {show_first(absent, MOST_NAMED)}"
    if None in vantages or not absent:
        advice = "capture at every host, or at a switch that all their traffic passes"
    data = messages.where(messages.is_data)
    tagged = data.where(data.of("allreduce") & (data.tag != UNKNOWN_TAG))
    parts = joined(tagged.src, tagged.dst)
    if len(parts) > 1 and not absent:
        groups = show_first(
            [show_first([messages.addresses[i] for i in part], MOST_NAMED) for part in parts],
            MOST_NAMED,
            " and ",
        )
        raise BadTrace(
            f"the ranks are groups that reduce only among themselves, {groups}: give the captures of "
            f"one group"
        )
    if absent and not all_connect and None not in vantages:
        hosts = show_first(absent, MOST_NAMED)
        raise BadTrace(f"these files do not show with whom else {hosts} exchanged messages: {advice}")
    for name, does, lacking in _lacking(data, absent):
        hosts = show_first([messages.addresses[i] for i in lacking], MOST_NAMED)
        raise BadTrace(f"in these files no {name} shows data {does} {hosts}: {advice}")


def joined(src: npt.NDArray[np.int32], dst: npt.NDArray[np.int32]) -> list[list[int]]:
    """The ranks that are connected by messages from `src` to `dst`."""
    pairs = set(zip(src.tolist(), dst.tolist(), strict=True))
    return components(sorted({rank for pair in pairs for rank in pair}), pairs)


def _lacking(data: Messages, absent: Sequence[str]) -> Iterator[tuple[str, str, list[int]]]:
    """Collectives, and which hosts never take the part in them that all must take."""
    everyone = set(range(len(data.addresses)))
    for name, spared in (("allreduce", 0), ("broadcast", 1)):
        rows = data.of(name)
        if not rows.any() or (name == "broadcast" and data.of("allreduce").any()):
            continue  # where all reduce together, a part of a broadcast is one that was cut off
        no_receiver = sorted(everyone - set(data.dst[rows].tolist()))
        if len(no_receiver) > spared:  # a root receives no broadcast
            yield name, "to", no_receiver
        no_sender = sorted(everyone - set(data.src[rows].tolist()))
        if no_sender and name == "allreduce":
            yield name, "from", no_sender
    sends = data.of(SEND)
    if sends.any() and not data.of("allreduce").any():
        quiet = everyone - set(data.src[sends].tolist()) - set(data.dst[sends].tolist())
        if unseen := sorted(i for i in quiet if data.addresses[i] in absent):
            yield "send", "from or to", unseen


def _said_order(addresses: tuple[str, ...], said: Mapping[str, Collection[int]]) -> tuple[str, ...] | None:
    """The order in which all hosts said one number each, or all but one, which then has the number left."""
    numbers = {address: next(iter(some)) for address, some in said.items() if len(some) == 1}
    silent = [address for address in addresses if not said.get(address)]
    left = set(range(len(addresses))) - set(numbers.values())
    if not left and len(numbers) == len(addresses):
        return tuple(sorted(addresses, key=lambda address: numbers[address]))
    if len(silent) != 1 or len(left) != 1 or len(numbers) != len(addresses) - 1:
        return None
    numbers[silent[0]] = left.pop()
    return tuple(sorted(addresses, key=lambda address: numbers[address]))


def _ring(messages: Messages, collective: str, step: int) -> list[int] | None:
    """Positions in rank order from a collective in which each rank sends to rank + `step` only."""
    rows = messages.is_data & messages.of(collective)
    pairs = np.unique(np.stack([messages.src[rows], messages.dst[rows]], axis=1), axis=0)
    count = len(messages.addresses)
    following = {int(a): int(b) for a, b in pairs}
    if step < 0:
        following = {b: a for a, b in following.items()}
    if count < 3 or len(pairs) != count or len(following) != count:
        return None
    order = [0]
    while len(order) < count and following[order[-1]] != 0:
        order.append(following[order[-1]])
    return order if len(order) == count else None


def _first_root(messages: Messages) -> int:
    """Who spreads the first broadcast; the first address where there is none."""
    rows = np.flatnonzero(messages.is_data & messages.of("broadcast"))
    if not len(rows):
        return 0
    first = messages.where(rows[messages.tag[rows] == messages.tag[rows].min()])
    roots = set(first.src.tolist()) - set(first.dst.tolist())
    return roots.pop() if len(roots) == 1 else 0
