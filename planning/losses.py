"""Cables that lose packets, by plan: for tests and studies of packet loss."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gradwire.planning.fabrics.fabric import HOST_PORT, Egress, Fabric

MAX_LOSS = 0.5
_LOSS = re.compile(
    r"(?P<number>\d{1,3}(?:\.\d{1,9})?)(?P<percent>%?)(?:@(?P<where>hosts|(?P<a>[\w.]+)-(?P<b>[\w.]+)))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Loss:
    """Of the packets that leave through `port`, this share does not arrive, each by a seeded draw of its own.

    A large segment that the kernel carries in one piece counts as one packet.
    """

    port: Egress
    ratio: float


def parse_loss(text: str, fabric: Fabric) -> tuple[Loss, ...]:
    """`1%` or `0.01`: all cables, each way; `1%@hosts`: the hosts' own; `1%@leaf0-h1`: those of two nodes.

    Raise ValueError for a text that is none of these, or names no cable of the fabric.
    """
    match = _LOSS.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"loss {text!r}: write it like 1%, 1%@hosts or 1%@leaf0-h1")
    ratio = float(match["number"]) / (100 if match["percent"] else 1)
    ports = [port for port in fabric.peers if _is_meant(fabric, port, match)]
    if not ports:
        raise ValueError(f"loss {text!r}: no cable joins {match['a']} and {match['b']}")
    losses = tuple(Loss(port, ratio) for port in ports) if ratio else ()
    check_losses(fabric, losses)
    return losses


def _is_meant(fabric: Fabric, port: Egress, match: re.Match[str]) -> bool:
    if match["where"] is None:
        return True
    if match["where"] == "hosts":
        return HOST_PORT in (port.port, fabric.peers[port].port)
    return {port.node, fabric.peers[port].node} == {match["a"], match["b"]}


def check_losses(fabric: Fabric, losses: Sequence[Loss]) -> None:
    """Raise ValueError for a loss of a port that is not there, or that makes no sense."""
    for loss in losses:
        if loss.port not in fabric.peers:
            raise ValueError(f"loss: {loss.port.node} has no port {loss.port.port}")
        if not 0 < loss.ratio <= MAX_LOSS:
            raise ValueError(
                f"loss: a share must be above 0 and up to {MAX_LOSS:g} of the packets, got {loss.ratio:g}"
            )
    twice = next((port for port, times in Counter(loss.port for loss in losses).items() if times > 1), None)
    if twice is not None:
        raise ValueError(f"loss: the cable from {twice.node} to {fabric.peers[twice].node} is named twice")


def at_switches(fabric: Fabric, losses: Iterable[Loss]) -> dict[Egress, tuple[float, float]]:
    """(of what comes in, of what goes out) at ports of switches, which do the dropping.

    What goes to a switch is dropped where it comes in, what goes to a host where it goes out.
    """
    switches = set(fabric.switches)
    ratios: dict[Egress, tuple[float, float]] = {}
    for loss in losses:
        peer = fabric.peers[loss.port]
        place = peer if peer.node in switches else loss.port
        comes_in, goes_out = ratios.get(place, (0.0, 0.0))
        ratios[place] = (loss.ratio, goes_out) if place is peer else (comes_in, loss.ratio)
    return ratios
