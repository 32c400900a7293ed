"""What the fabric families have in common: their keys, their limits and the canonical spec."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gradwire.planning.fabrics.fabric import (
    DEFAULT_MTU_NBYTES,
    ETHERNET_NBYTES,
    MAX_HOSTS,
    MAX_RATE_BPS,
    Fabric,
    Wire,
    cable,
)
from gradwire.planning.fabrics.ownrates import KEY, own_rates, with_own_rates
from gradwire.traces.units import show_ns

DEFAULT_RATE_BPS = 100_000_000
FROM_FILE = "file"  # the family of the fabrics that files describe
MAX_CABLES = 1_000_000  # 1 KB each
MIN_RATE_BPS = 1_000_000  # below, the shaper's burst and one segment weigh more than what is measured
MAX_QUEUE_NBYTES = 1 << 30
MTUS = range(1500, 9000 + 1)  # Ethernet's own, and jumbo frames' as training networks have them
MAX_DELAY_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """The rates, queues and delays of a fabric's cables, and its MTU.

    `rate_bps` is that of the hosts' cables and `uplink_rate_bps` that of the cables between switches (None:
    like the hosts').  In a grid `rate_bps` is that of the cables between switches and `host_rate_bps` that
    of the hosts' (None: the family's multiple of it).  `own_rates_bps` are those of single cables, by what
    `planning.fabrics.ownrates` calls them.  `queue_nbytes` and `delay_ns` are those of every
    cable, `mtu_nbytes` that of the whole fabric.
    """

    rate_bps: int = DEFAULT_RATE_BPS
    uplink_rate_bps: int | None = None
    host_rate_bps: int | None = None
    queue_nbytes: int | None = None
    delay_ns: int = 0
    mtu_nbytes: int = DEFAULT_MTU_NBYTES
    own_rates_bps: Mapping[str, int] = field(default_factory=dict)

    def at_hosts(self, host_times: int = 1) -> Wire:
        rate_bps = host_times * self.rate_bps if self.host_rate_bps is None else self.host_rate_bps
        return Wire(rate_bps, self.queue_nbytes, self.delay_ns)

    @property
    def between_switches(self) -> Wire:
        rate_bps = self.rate_bps if self.uplink_rate_bps is None else self.uplink_rate_bps
        return Wire(rate_bps, self.queue_nbytes, self.delay_ns)


DEFAULT_LINKS = LinkSpec()
LINK_KEYS = ("rate", "uplink_rate", "queue", "delay", "mtu")
GRID_KEYS = ("rate", "host_rate", "queue", "delay", "mtu")


@dataclass(frozen=True, slots=True)
class Family:
    """`build` makes the fabric of some sizes; it raises ValueError for those that it cannot have.

    `sizes` are the whole numbers that a spec takes, by key, and their defaults (None: must be given).
    """

    build: Callable[[Mapping[str, int], LinkSpec], Fabric]
    sizes: Mapping[str, int | None]
    example: str
    link_keys: tuple[str, ...] = LINK_KEYS

    @property
    def is_grid(self) -> bool:
        """Whether `rate` is that of the cables between switches."""
        return "host_rate" in self.link_keys


def check_mtu(mtu_nbytes: int) -> None:
    """Raise ValueError for one that a fabric cannot have."""
    if mtu_nbytes not in MTUS:
        raise ValueError(f"an MTU must be {MTUS[0]} to {MTUS[-1]} bytes, got {mtu_nbytes}")


def check_wire(wire: Wire, mtu_nbytes: int) -> None:
    """Raise ValueError for a cable that cannot be emulated."""
    if not 0 < wire.rate_bps <= MAX_RATE_BPS:
        raise ValueError(f"a link needs a rate above 0 and up to 100G, got {wire.rate_bps} bit/s")
    if wire.rate_bps < MIN_RATE_BPS:
        raise ValueError(
            f"a link's rate must be at least 1M, got {wire.rate_bps} bit/s{_perhaps(wire.rate_bps)}"
        )
    queue, frame_nbytes = wire.queue_nbytes, ETHERNET_NBYTES + mtu_nbytes
    if queue is not None and not frame_nbytes <= queue <= MAX_QUEUE_NBYTES:
        raise ValueError(
            f"a queue must have room for a frame of {frame_nbytes} bytes"
            f" and hold at most {MAX_QUEUE_NBYTES} bytes, got {queue}"
        )
    if not 0 <= wire.delay_ns <= MAX_DELAY_NS:
        raise ValueError(
            f"a link's delay can be at most {show_ns(MAX_DELAY_NS)}, got {show_ns(wire.delay_ns)}"
        )


def _perhaps(rate_bps: int) -> str:
    """What was meant by a number as small as a rate in Mb/s."""
    return f" (did you mean {rate_bps}M?)" if rate_bps <= MAX_RATE_BPS // 1_000_000 else ""


def check_size(n_hosts: int, n_cables: int) -> None:
    """Refuse what is too large before anything of it is built."""
    if n_hosts > MAX_HOSTS:
        raise ValueError(f"the fabric has {n_hosts:,} hosts; gradwire plans at most {MAX_HOSTS:,}")
    if n_cables > MAX_CABLES:
        raise ValueError(f"the fabric has {n_cables:,} cables; gradwire plans at most {MAX_CABLES:,}")


def build(
    family: str,
    shape: Mapping[str, int],
    switches: Sequence[str],
    access: Sequence[str],
    between: Sequence[tuple[str, str]],
    links: LinkSpec,
    host_times: int = 1,
) -> Fabric:
    """A fabric whose host i hangs off switch `access[i]`, and whose switches are cabled as `between`.

    Hosts are cabled first, so every switch has its hosts on its first ports.  Their cables have `host_times`
    the rate of `links` unless it names a rate of theirs.
    """
    at_hosts = links.at_hosts(host_times)
    hosts = [f"h{i}" for i in range(len(access))]
    check_mtu(links.mtu_nbytes)
    check_wire(at_hosts, links.mtu_nbytes)
    check_wire(links.between_switches, links.mtu_nbytes)
    usual = [(host, switch, at_hosts) for host, switch in zip(hosts, access, strict=True)]
    usual += [(a, b, links.between_switches) for a, b in between]
    cables = with_own_rates(set(hosts), usual, links.own_rates_bps)
    own = own_rates(set(hosts), usual, cables)
    for name, rate_bps in own.items():
        try:
            check_wire(Wire(rate_bps), links.mtu_nbytes)
        except ValueError as error:
            raise ValueError(f"{KEY}{name}: {error}") from None
    return Fabric(
        spec=_spec(family, shape, replace(links, own_rates_bps=own), host_times),
        family=family,
        shape=dict(shape),
        hosts=tuple(hosts),
        switches=tuple(switches),
        links=cable(set(hosts), cables),
        mtu_nbytes=links.mtu_nbytes,
    )


def _spec(family: str, shape: Mapping[str, int], links: LinkSpec, host_times: int) -> str:
    """The shortest text that gives this fabric again: what is at its default is left out."""
    keys = [
        f"{key}={value}" for key, value in shape.items() if (family, key, value) != ("fat-tree", "levels", 3)
    ]
    if links.rate_bps != DEFAULT_RATE_BPS:
        keys.append(f"rate={exact(links.rate_bps)}")
    if links.uplink_rate_bps not in (None, links.rate_bps):
        keys.append(f"uplink_rate={exact(links.uplink_rate_bps or 0)}")
    if links.host_rate_bps not in (None, host_times * links.rate_bps):
        keys.append(f"host_rate={exact(links.host_rate_bps or 0)}")
    if links.queue_nbytes is not None:
        keys.append(f"queue={exact(links.queue_nbytes)}B")
    if links.delay_ns:
        keys.append(f"delay={show_ns(links.delay_ns)}")
    if links.mtu_nbytes != DEFAULT_MTU_NBYTES:
        keys.append(f"mtu={links.mtu_nbytes}")
    keys += [f"{KEY}{name}={exact(rate_bps)}" for name, rate_bps in links.own_rates_bps.items()]
    return f"{family}:{','.join(keys)}"


def exact(number: int) -> str:
    """`50M`, `2500k`, `1514`: the largest unit that divides it."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number and number % size == 0:
            return f"{number // size}{unit}"
    return str(number)
