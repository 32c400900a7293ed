"""Which host of the fabric stands in for which host of a capture."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from ipaddress import IPv4Address

LEFT_OUT = "none"


def mapped(
    addresses: Collection[str],
    ranks: Mapping[str, int],
    hosts: Sequence[str],
    told: Mapping[str, str],
) -> dict[str, str]:
    """The fabric's host of each of the capture's `addresses`; what is told to be LEFT_OUT is not there.

    First comes what is `told` (address to host), then ranks in their order, then all others by their numbers,
    each on the next free one of `hosts`.  Raise ValueError.
    """
    _check(addresses, hosts, told)
    found = {address: host for address, host in told.items() if host != LEFT_OUT}
    rest = _in_order((address for address in addresses if address not in told), ranks)
    free = [host for host in hosts if host not in found.values()]
    if len(rest) > len(free):
        raise ValueError(
            f"the capture has {len(rest) + len(found)} hosts but the fabric has {len(hosts)}: "
            f"choose a larger fabric, or leave hosts out: --map {rest[-1]}={LEFT_OUT}"
        )
    return found | dict(zip(rest, free, strict=False))


def _in_order(addresses: Iterable[str], ranks: Mapping[str, int]) -> list[str]:
    def place(address: str) -> tuple[bool, int]:
        return address not in ranks, ranks.get(address, int(IPv4Address(address)))

    return sorted(addresses, key=place)


def _check(addresses: Collection[str], hosts: Sequence[str], told: Mapping[str, str]) -> None:
    seen: dict[str, str] = {}
    for address, host in told.items():
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
    told: dict[str, str] = {}
    for text in texts:
        address, equals, host = text.partition("=")
        try:
            address = str(IPv4Address(address.strip()))
        except ValueError:
            equals = ""
        if not equals or not host.strip():
            raise ValueError(f"--map {text!r}: write it like 10.77.0.1=h3, or 10.77.0.1={LEFT_OUT}")
        if address in told:
            raise ValueError(f"--map: {address} is given twice")
        told[address] = host.strip()
    return told
