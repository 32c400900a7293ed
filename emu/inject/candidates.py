"""Which packets of the captures can be sent, and which file each is taken from.

What is between two captured hosts is in both hosts' files, and in those of switches; it is sent once, as the
file nearest its source has it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address

import numpy as np
import numpy.typing as npt

from gradwire.planning.fabrics.fabric import AGGREGATOR_IP, BROADCAST_IP
from gradwire.traces.framing.aggregation import FIRST_PORT
from gradwire.traces.packets.directions import own_address
from gradwire.traces.packets.packets import TCP, UDP, Packets

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
MAX_ADDRESSES = 1 << 16  # of a file; more are a scan, not hosts that could be put on a fabric
_MORE_FRAGMENTS = 0x20  # in the seventh octet of an IPv4 header
_FLAGS_AT = 6
_HOST, _IPV6, _MANY, _SWITCHES = range(4)  # kinds of addresses

OTHER = "neither TCP nor UDP over IP, or too short to tell"
IPV6 = "IPv6"
MULTICAST = "to or from no single host"
AGGREGATION = "to or from switches that added them up"
FRAGMENT = "IP fragments"
TO_ITSELF = "from a host to itself"
UNMAPPED = "of hosts that are left out"


@dataclass(frozen=True)
class Candidates:
    """What can be sent of a file: rows of it, ascending; `src` and `dst` are positions in `addresses`."""

    packets: Packets
    addresses: tuple[str, ...]
    rows: Ints
    src: Ints
    dst: Ints


@dataclass(frozen=True)
class Chosen:
    """The rows to send of one file, and the numbers of the hosts that they go from and to."""

    packets: Packets
    rows: Ints
    src: Ints
    dst: Ints


def candidates(packets: Packets, left_out: Counter[str]) -> Candidates:
    """What can be sent of a file; the rest is counted in `left_out`, by reason.  Raise ValueError."""
    if len(packets.addresses) > MAX_ADDRESSES:
        raise ValueError(
            f"{packets.path}: {len(packets.addresses):,} addresses are too many to be a job's hosts: "
            f"keep the job's packets only, with `tshark -r {packets.path.name} -Y ip.addr==10.0.0.0/8 "
            f"-w job.pcapng`"
        )
    kinds = np.array([_kind(address) for address in packets.addresses] or [_IPV6], np.int64)
    known = np.isin(packets.protocol, (TCP, UDP))
    left = np.flatnonzero(known)
    left_out[OTHER] += len(packets) - len(left)
    for reason, wrong in _UNWANTED.items():
        bad = wrong(packets, kinds, left)
        left_out[reason] += int(np.count_nonzero(bad))
        left = left[~bad]
    src, dst = packets.src[left].astype(np.int64), packets.dst[left].astype(np.int64)
    return Candidates(packets, packets.addresses, left, src, dst)


def _kind(address: str) -> int:
    if address in (AGGREGATOR_IP, BROADCAST_IP):
        return _SWITCHES
    parsed = ip_address(address)
    if not isinstance(parsed, IPv4Address):
        return _IPV6
    is_many = parsed.is_multicast or parsed.is_unspecified or parsed.is_loopback or parsed.is_reserved
    return _MANY if is_many else _HOST  # 255.255.255.255 is reserved


def _is_ipv6(packets: Packets, kinds: Ints, rows: Ints) -> Flags:
    return _is_kind(packets, kinds, rows, _IPV6)


def _is_to_many(packets: Packets, kinds: Ints, rows: Ints) -> Flags:
    return _is_kind(packets, kinds, rows, _MANY)


def _is_aggregation(packets: Packets, kinds: Ints, rows: Ints) -> Flags:
    """A run of ours with in-network aggregation; whoever else has these addresses has other ports."""
    ports = packets.sport[rows]
    is_ours: Flags = (packets.protocol[rows] == UDP) & (ports == packets.dport[rows]) & (ports >= FIRST_PORT)
    return is_ours & _is_kind(packets, kinds, rows, _SWITCHES)


def _is_kind(packets: Packets, kinds: Ints, rows: Ints, kind: int) -> Flags:
    either: Flags = (kinds[packets.src[rows]] == kind) | (kinds[packets.dst[rows]] == kind)
    return either


def _is_fragment(packets: Packets, kinds: Ints, rows: Ints) -> Flags:
    del kinds
    at = packets.frame_at[rows] + packets.network_offset[rows] + _FLAGS_AT
    more: Flags = packets.data[at] & _MORE_FRAGMENTS != 0
    return more


def _is_to_itself(packets: Packets, kinds: Ints, rows: Ints) -> Flags:
    del kinds
    same: Flags = packets.src[rows] == packets.dst[rows]
    return same


_UNWANTED = {
    IPV6: _is_ipv6,
    MULTICAST: _is_to_many,
    AGGREGATION: _is_aggregation,
    FRAGMENT: _is_fragment,
    TO_ITSELF: _is_to_itself,
}


def hosts_of(files: Sequence[Candidates]) -> set[str]:
    """The addresses that packets to send go from or to."""
    addresses: set[str] = set()
    for file in files:
        for column in (file.src, file.dst):
            addresses.update(file.addresses[code] for code in np.unique(column).tolist())
    return addresses


def choose(files: Sequence[Candidates], number_of: Mapping[str, int], left_out: Counter[str]) -> list[Chosen]:
    """Each packet once; `number_of` has the number of each host that is not left out, by address.

    All packets of a pair of hosts come from one file: the source's own, else the file with most packets of
    the pair.  Among equal ones the destination's own comes last, and the file with the earliest packet first.
    """
    mapped: list[Chosen] = []
    n_hosts = max(number_of.values(), default=0) + 1
    pairs: list[Ints] = []
    for file in files:
        numbers = np.array([number_of.get(address, -1) for address in file.addresses] or [-1], np.int64)
        src, dst = numbers[file.src], numbers[file.dst]
        known = (src >= 0) & (dst >= 0)
        left_out[UNMAPPED] += int(np.count_nonzero(~known))
        mapped.append(Chosen(file.packets, file.rows[known], src[known], dst[known]))
        pairs.append(src[known] * n_hosts + dst[known])
    owners = [number_of.get(own_address(file.packets) or "", -1) for file in files]
    best = _best_files(mapped, pairs, owners, n_hosts)
    kept = []
    for number, (chosen, pair) in enumerate(zip(mapped, pairs, strict=True)):
        mine = np.isin(pair, [key for key, file in best.items() if file == number])
        kept.append(Chosen(chosen.packets, chosen.rows[mine], chosen.src[mine], chosen.dst[mine]))
    return kept


def _best_files(
    files: Sequence[Chosen], pairs: Sequence[Ints], owners: Sequence[int], n_hosts: int
) -> dict[int, int]:
    """The file that each pair's packets are taken from."""
    best: dict[int, tuple[bool, int, bool, int, int]] = {}
    for number, (file, pair, owner) in enumerate(zip(files, pairs, owners, strict=True)):
        keys, first, counts = np.unique(pair, return_index=True, return_counts=True)
        first_ns = file.packets.time_ns[file.rows[first]]
        for key, count, time_ns in zip(keys.tolist(), counts.tolist(), first_ns.tolist(), strict=True):
            src, dst = divmod(key, n_hosts)
            rank = (owner != src, -count, owner == dst, time_ns, number)
            best[key] = min(best.get(key, rank), rank)
    return {key: rank[-1] for key, rank in best.items()}
