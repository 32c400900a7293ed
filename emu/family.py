"""What the fabric families have in common: their keys, their limits and the canonical spec."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emu.fabric import FRAME_NBYTES, MAX_HOSTS, Fabric, cable

DEFAULT_RATE_BPS = 100_000_000
MAX_CABLES = 20_000  # so no interface name grows past the 15 characters that Linux allows
MAX_QUEUE_NBYTES = 1 << 30

Cables = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """The rates and queues of a fabric's cables.

    `uplink_rate_bps` is that of the cables between switches (None: like the hosts'),
    `queue_nbytes` that of every port (None: `auto`).
    """

    rate_bps: int = DEFAULT_RATE_BPS
    uplink_rate_bps: int | None = None
    queue_nbytes: int | None = None

    def __post_init__(self) -> None:
        queue = self.queue_nbytes
        if queue is not None and not FRAME_NBYTES <= queue <= MAX_QUEUE_NBYTES:
            raise ValueError(
                f"a queue needs room for a frame of {FRAME_NBYTES} bytes"
                f" and at most {MAX_QUEUE_NBYTES}, got {queue}"
            )


DEFAULT_LINKS = LinkSpec()


def check_size(n_hosts: int, n_cables: int) -> None:
    """Refuse what is too large before anything of it is built."""
    if n_hosts > MAX_HOSTS:
        raise ValueError(f"{n_hosts} hosts; gradwire builds at most {MAX_HOSTS}")
    if n_cables > MAX_CABLES:
        raise ValueError(f"{n_cables} cables; gradwire builds at most {MAX_CABLES}")


def build(
    family: str,
    shape: Mapping[str, int],
    switches: Sequence[str],
    access: Sequence[str],
    between: Cables,
    links: LinkSpec,
) -> Fabric:
    """A fabric whose host i hangs off switch `access[i]`, and whose switches are cabled as `between`.

    Hosts are cabled first, so every switch has its hosts on its first ports.
    """
    hosts = [f"h{i}" for i in range(len(access))]
    rate_bps = links.rate_bps
    uplink_rate_bps = rate_bps if links.uplink_rate_bps is None else links.uplink_rate_bps
    cables = [(host, switch, rate_bps) for host, switch in zip(hosts, access, strict=True)]
    cables += [(a, b, uplink_rate_bps) for a, b in between]
    return Fabric(
        spec=_spec(family, shape, links),
        family=family,
        shape=dict(shape),
        hosts=tuple(hosts),
        switches=tuple(switches),
        links=cable(cables),
        queue_nbytes=links.queue_nbytes,
    )


def _spec(family: str, shape: Mapping[str, int], links: LinkSpec) -> str:
    """The shortest text that gives this fabric again: what is at its default is left out."""
    keys = [
        f"{key}={value}" for key, value in shape.items() if (family, key, value) != ("fat-tree", "levels", 3)
    ]
    if links.rate_bps != DEFAULT_RATE_BPS:
        keys.append(f"rate={_exact(links.rate_bps)}")
    if links.uplink_rate_bps not in (None, links.rate_bps):
        keys.append(f"uplink_rate={_exact(links.uplink_rate_bps or 0)}")
    if links.queue_nbytes is not None:
        keys.append(f"queue={_exact(links.queue_nbytes)}B")
    return f"{family}:{','.join(keys)}"


def _exact(number: int) -> str:
    """`50M`, `2500k`, `1514`: the largest unit that divides it."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number and number % size == 0:
            return f"{number // size}{unit}"
    return str(number)
