"""Prepares captures for sending: reads them, maps their hosts to the fabric's, sorts and rewrites packets.

An edge module: it reads captures.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from gradwire.emu.inject.candidates import Candidates, Chosen, candidates, choose, hosts_of
from gradwire.emu.inject.frames import Frames, rewritten
from gradwire.emu.inject.mapping import LEFT_OUT, mapped
from gradwire.emu.inject.options import MAX_PACKETS, STAR_RATE, InjectOptions
from gradwire.emu.inject.packetlist import Pieces, cut, pieces
from gradwire.emu.inject.timetable import Ints, check_duration, deadlines, period_ns
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.traces.packets.capture import read_capture
from gradwire.traces.packets.copies import without_copies
from gradwire.traces.packets.packets import Packets
from gradwire.traces.units import show_count

MAX_READ = 2 * MAX_PACKETS  # in all files together: a packet is in those of both its ends


class NothingToSend(ValueError):
    """No packet of the captures can be sent; the text says why."""


@dataclass(frozen=True)
class Prepared:
    """`hosts` are the fabric's by number, `host_of` says which is which of the capture's.

    `due_ns` are deadlines after the first packet, `period_ns` is from the start of one loop to the next.
    """

    fabric: Fabric
    hosts: tuple[str, ...]
    host_of: Mapping[str, str]
    pieces: Pieces
    frames: Frames
    due_ns: Ints
    period_ns: int
    left_out: Mapping[str, int]
    notes: tuple[str, ...]

    @property
    def largest_nbytes(self) -> int:
        """The largest packet that a queue has to take."""
        return int(self.pieces.wire_nbytes.max())


def prepare(
    paths: Sequence[Path],
    fabric: Fabric | None,
    options: InjectOptions,
    ranks: Mapping[str, int],
    assigned: Mapping[str, str],
) -> Prepared:
    """Prepare the captures' packets for `fabric`, or for a star of the captures' hosts.

    Raise BadCapture, NothingToSend, ValueError, OSError.
    """
    left_out: Counter[str] = Counter()
    files = _files(paths, left_out)
    addresses = hosts_of(files)
    if not addresses:
        raise NothingToSend(
            f"{paths[0]}: nothing to send: {_left_out_words(left_out) or 'the captures are empty'}"
        )
    chosen_fabric = fabric or _star(len(addresses) - list(assigned.values()).count(LEFT_OUT))
    host_of = mapped(addresses, ranks, chosen_fabric.hosts, assigned)
    hosts = tuple(host for host in chosen_fabric.hosts if host in host_of.values())
    chosen = choose(files, {address: hosts.index(host) for address, host in host_of.items()}, left_out)
    _check_count(sum(len(file.rows) for file in chosen) * options.loops, MAX_PACKETS)
    parts, notes = _parts(chosen, chosen_fabric.mtu_nbytes, options.exact_mtu)
    if not len(parts):
        raise NothingToSend(f"{paths[0]}: nothing to send: {_left_out_words(left_out)}")
    _check_count(len(parts) * options.loops, MAX_PACKETS)
    due_ns, period = _times(parts, options)
    captures = [file.packets for file in files]
    notes += [f"{packets.path}: its end is cut off" for packets in captures if packets.truncated]
    return Prepared(
        fabric=chosen_fabric,
        hosts=hosts,
        host_of=host_of,
        pieces=parts,
        frames=_readdressed(parts, captures, chosen_fabric, hosts),
        due_ns=due_ns,
        period_ns=period,
        left_out={reason: count for reason, count in left_out.items() if count},
        notes=tuple(notes),
    )


def _files(paths: Sequence[Path], left_out: Counter[str]) -> list[Candidates]:
    files: list[Candidates] = []
    for path in paths:
        files.append(candidates(without_copies(read_capture(path)), left_out))
        _check_count(sum(len(file.packets) for file in files), MAX_READ)
    return files


def _parts(chosen: Sequence[Chosen], mtu_nbytes: int, exact_mtu: bool) -> tuple[Pieces, list[str]]:
    """The pieces of one loop, and notes about them."""
    whole, notes = pieces(chosen, mtu_nbytes)
    parts = cut(whole, exact_mtu)
    if len(parts) > len(whole) and not exact_mtu:
        more = show_count(len(parts) - len(whole), "packet")
        notes.append(f"{more} more than captured: what is too long was cut")
    return parts, notes


def _times(parts: Pieces, options: InjectOptions) -> tuple[Ints, int]:
    """Deadlines of one loop, and from its start to the next one's."""
    due_ns = deadlines(options.pace, parts.recorded_ns, parts.wire_nbytes)
    period = period_ns(due_ns)
    check_duration(due_ns[-1] + period * (options.loops - 1))
    return due_ns, period


def _readdressed(parts: Pieces, captures: Sequence[Packets], fabric: Fabric, hosts: Sequence[str]) -> Frames:
    ips = [int(IPv4Address(fabric.ip(host))) for host in hosts]
    macs = [bytes.fromhex(fabric.mac(host).replace(":", "")) for host in hosts]
    return rewritten(parts, captures, ips, macs)


def _star(n_hosts: int) -> Fabric:
    return parse_fabric(f"star:hosts={max(2, n_hosts)},rate={STAR_RATE}")


def _check_count(count: int, most: int) -> None:
    if count > most:
        raise ValueError(
            f"{count:,} packets are more than the limit of {most:,}: cut the capture by time "
            "(editcap -A … -B …), or use fewer loops"
        )


def _left_out_words(left_out: Mapping[str, int]) -> str:
    counts = {reason: show_count(n, "packet is", "packets are") for reason, n in left_out.items() if n}
    return "; ".join(f"{count} {reason}" for reason, count in counts.items())
