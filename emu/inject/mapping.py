"""Which host of the fabric plays which host of a capture."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from ipaddress import IPv4Address

LEFT_OUT = "none"


def mapped(
    addresses: Collection[str],
    ranks: Mapping[str, int],
    hosts: Sequence[str],
    assigned: Mapping[str, str],
) -> dict[str, str]:
    """The fabric's host of each of the capture's `addresses`, without addresses assigned to LEFT_OUT.

    The user's choices (`assigned`, host by address) come first.  Ranks in their order, then all other
    addresses by their numbers, get the next free one of `hosts`.  Raise ValueError.
    """
    _check(addresses, hosts, assigned)
    host_of = {address: host for address, host in assigned.items() if host != LEFT_OUT}
    unassigned = _in_order((address for address in addresses if address not in assigned), ranks)
    free = [host for host in hosts if host not in host_of.values()]
    if len(unassigned) > len(free):
        raise ValueError(
            f"the capture has {len(unassigned) + len(host_of)} hosts but the fabric has {len(hosts)}: "
            f"choose a larger fabric, or leave hosts out: --map {unassigned[-1]}={LEFT_OUT}"
        )
    return host_of | dict(zip(unassigned, free, strict=False))


def _in_order(addresses: Iterable[str], ranks: Mapping[str, int]) -> list[str]:
    def place(address: str) -> tuple[bool, int]:
        return address not in ranks, ranks.get(address, int(IPv4Address(address)))

    return sorted(addresses, key=place)


def _check(addresses: Collection[str], hosts: Sequence[str], assigned: Mapping[str, str]) -> None:
    seen: dict[str, str] = {}
    for address, host in assigned.items():
        if address not in addresses:
            raise ValueError(
                f"--map {address}={host}: the capture has no packets from or to {address} that can be sent"
            )
        if host == LEFT_OUT:
            continue
        if host not in hosts:
            raise ValueError(
                f"--map {address}={host}: the fabric has no host {host}; it has {hosts[0]} to {hosts[-1]}"
            )
        if host in seen:
            raise ValueError(f"--map: {host} cannot be both {seen[host]} and {address}")
        seen[host] = address


def parse_map(texts: Sequence[str]) -> dict[str, str]:
    """`10.77.0.1=h3` or `10.77.0.254=none`, by address.  Raise ValueError."""
    assigned: dict[str, str] = {}
    for text in texts:
        address, equals, host = text.partition("=")
        try:
            address = str(IPv4Address(address.strip()))
        except ValueError:
            equals = ""
        if not equals or not host.strip():
            raise ValueError(f"--map {text!r}: write it like 10.77.0.1=h3, or 10.77.0.1={LEFT_OUT}")
        if address in assigned:
            raise ValueError(f"--map: {address} is given twice")
        assigned[address] = host.strip()
    return assigned
