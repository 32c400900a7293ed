"""Parameter servers as allreduces: who serves, who has which part of the buffer, and how long it takes.

Layouts: PHub (Luo et al., SoCC 2018), whose PBox is a server with a faster cable.  Names: servernames.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwire.traces.schedules.algorithm import NotServedError, Servers, check_ranks
from gradwire.traces.schedules.algorithms.serving import Group, one_by_one, piece_sends, servers_first, tiled
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.kinds import ELEMENT_NBYTES, chunk_starts
from gradwire.traces.schedules.sends import MAX_SENDS, Nbytes, Sends, totals
from gradwire.traces.units import show_count

Kind = Literal["servers", "colocated", "hierarchical"]
Owners = NDArray[np.intp]
CHUNK_NBYTES = 32 << 10  # PHub's


@dataclass(frozen=True, slots=True)
class Layout:
    """`n_servers` of them on hosts of their own, or among the workers (None: all of these).

    `hierarchical`: a server under each first switch adds up its workers, and servers exchange their sums.
    Each has an equal part of the buffer, or with `keys` tensors that are not divided: the largest first, each
    to the server with the least so far, or in turn.  No piece is larger than `chunk_nbytes` (None: each part,
    or key, is one).  A server sends a piece as soon as it is summed with `overlap`, else when all are.
    """

    kind: Kind
    n_servers: int | None = None
    keys: bool = False
    assign: Literal["largest-first", "round-robin"] = "largest-first"
    chunk_nbytes: int | None = CHUNK_NBYTES
    overlap: bool = True

    @property
    def further(self) -> Servers:
        """The servers on hosts of their own."""
        if self.kind == "hierarchical":
            return "leaf"
        return (self.n_servers or 0) if self.kind == "servers" else 0

    def groups(self, n_ranks: int, hints: Hints) -> list[Group]:
        """The servers and who pushes to them; raise NotServedError for ranks that have none."""
        check_ranks("a parameter server", n_ranks)
        if self.kind == "hierarchical":
            return _boxes(n_ranks, hints)
        workers = range(n_ranks)
        servers = range(n_ranks, n_ranks + (self.n_servers or 0))
        if self.kind == "colocated":
            servers = workers[: self.n_servers]
            if self.n_servers is not None and self.n_servers > n_ranks:
                raise NotServedError(
                    f"{self.n_servers} of {n_ranks} workers cannot serve: choose servers={n_ranks} or fewer"
                )
        return [Group(server, tuple(rank for rank in workers if rank != server)) for server in servers]


def _boxes(n_ranks: int, hints: Hints) -> list[Group]:
    """Of each first switch its last rank is the server."""
    if not hints.leaves:
        raise NotServedError("ps:hierarchical is made for one fabric: name it with --fabric")
    groups = []
    for leaf in hints.leaves:
        servers = [rank for rank in leaf if rank >= n_ranks]
        if len(servers) != 1 or len(leaf) == 1:
            raise NotServedError(
                "ps:hierarchical needs a host for a server and one for a worker under each first switch; "
                f"one has {show_count(len(servers), 'server')} and "
                f"{show_count(len(leaf) - len(servers), 'worker')}: choose another number of ranks, or "
                "another placement"
            )
        groups.append(Group(servers[0], tuple(rank for rank in leaf if rank < n_ranks)))
    return groups


def server_sends(layout: Layout, n_ranks: int, nbytes: int, hints: Hints) -> Sends:
    """Pushes that add and pulls that replace; a server needs room for the buffer once.

    Raise NotServedError for ranks, keys or pieces that it cannot serve.
    """
    groups = layout.groups(n_ranks, hints)
    owners, cuts = _pieces(layout, len(groups), nbytes, hints)
    is_flat = layout.kind != "hierarchical"
    of_owner = {
        number: piece_sends([group] if is_flat else groups, group.server)
        for number, group in enumerate(groups)
    }
    sends = tiled(of_owner, owners, cuts)
    if not layout.overlap:
        return one_by_one(sends)
    return servers_first(sends, len(groups), n_ranks) if layout.kind == "colocated" else sends


def _pieces(layout: Layout, n_servers: int, nbytes: int, hints: Hints) -> tuple[Owners, Nbytes]:
    """The server of each piece, and where pieces are cut."""
    most_nbytes = layout.chunk_nbytes or max(nbytes, 1)
    if layout.keys:
        sizes = _key_nbytes(nbytes, n_servers, hints)
        counts = -(-sizes // most_nbytes)
    else:  # as many for each server
        sizes = np.array([nbytes])
        counts = -(-sizes // (most_nbytes * n_servers)) * n_servers
    if counts.sum() > MAX_SENDS:
        raise NotServedError(f"the buffer has {counts.sum():,} pieces: choose a larger chunk=")
    if layout.keys:
        owners = np.repeat(assigned(layout, sizes, n_servers), counts)
    else:
        owners = np.arange(counts[0]) % n_servers
    cuts = [0]
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        if count:
            start = cuts[-1]
            cuts += (start + cut for cut in chunk_starts(size, count)[1:])
    return owners, np.array(cuts)


def _key_nbytes(nbytes: int, n_servers: int, hints: Hints) -> Nbytes:
    """Raise NotServedError for keys that are not this buffer's, or too few."""
    if not hints.keys:
        raise NotServedError("the sizes of the keys are not known: name them with --keys resnet50 or a file")
    sizes = np.array(hints.keys, np.int64) * ELEMENT_NBYTES
    if sizes.sum() != nbytes:
        raise NotServedError(
            f"the keys have {sizes.sum():,} bytes together, and the buffer {nbytes:,}: choose other --keys, "
            "or leave keys out"
        )
    if len(sizes) < n_servers:
        raise NotServedError(
            f"{n_servers} servers are more than the {len(sizes)} keys: choose fewer servers, or leave keys "
            "out"
        )
    return sizes


def assigned(layout: Layout, sizes: Sequence[int] | Nbytes, n_servers: int) -> Owners:
    """The server of each key, by `layout.assign`.

    Largest first is Graham's LPT, at most 4/3 of the best (SIAM J. Appl. Math. 1969).
    """
    owners = np.arange(len(sizes)) % n_servers
    if layout.assign == "largest-first":
        load = np.zeros(n_servers, np.int64)
        for key in np.argsort(-np.asarray(sizes), kind="stable").tolist():
            owners[key] = int(load.argmin())
            load[owners[key]] += sizes[key]
    return owners


def largest_share(layout: Layout, n_servers: int, nbytes: int, hints: Hints) -> float:
    """Of the buffer, the part of the server that has most; 1/K where no keys say otherwise."""
    if not layout.keys:
        return 1 / n_servers
    sizes = _key_nbytes(nbytes, n_servers, hints)
    return float(np.bincount(assigned(layout, sizes, n_servers), sizes).max() / nbytes)


def _busiest(layout: Layout, n_servers: int, nbytes: int, hints: Hints) -> tuple[float, float]:
    """Of the server that takes longest its share of the buffer, and that of its largest piece in this; 1
    without overlap.
    """
    if not nbytes:
        return 1 / n_servers, 1.0
    owners, cuts = _pieces(layout, n_servers, nbytes, hints)
    loads, pieces = totals(owners, np.diff(cuts), n_servers), np.zeros(n_servers, np.int64)
    np.maximum.at(pieces, owners, np.diff(cuts))
    one_way = pieces if layout.overlap else loads
    server = int((loads + one_way).argmax())
    return float(loads[server] / nbytes), float(one_way[server] / loads[server])


@dataclass(frozen=True, slots=True)
class _Form:
    """The formula of a layout for a person, in pieces and in one, and how much of S beta it is in each.

    Of w workers in all, or m with each of r servers, whose cables are n times as fast as a worker's; the
    server that takes longest has a share s of the buffer, and its largest piece a share q of that.
    """

    in_pieces: str
    in_one: str
    overlapped: Callable[["_Sizes"], float]  # of pieces that take no time
    serial: Callable[["_Sizes"], float]


class _Sizes(NamedTuple):
    w: int
    s: float
    n: float
    r: int
    m: int


_FORMS: dict[Kind, _Form] = {
    "servers": _Form(
        "2α + (1+q) max(1, ws/n)·Sβ",
        "2α + 2 max(1, ws/n)·Sβ",
        lambda x: max(1, x.w * x.s / x.n),
        lambda x: 2 * max(1, x.w * x.s / x.n),
    ),
    "colocated": _Form(
        "2α + ((1−q)(1 + s(w−2)) + 2q max((w−1)s, 1−s))·Sβ",
        "2α + 2 max((w−1)s, 1−s)·Sβ",
        lambda x: 1 + x.s * (x.w - 2),
        lambda x: 2 * max((x.w - 1) * x.s, 1 - x.s),
    ),
    "hierarchical": _Form(
        "4α (2α if r = 1) + ((1−q) max(1, (m + 2(r−1)/r)/n) + q (2 max(1, m/n) + 2(r−1)/(rn)))·Sβ",
        "4α (2α if r = 1) + (2 max(1, m/n) + 2(r−1)/(rn))·Sβ",
        lambda x: max(1, (x.m + 2 * (x.r - 1) / x.r) / x.n),
        lambda x: 2 * max(1, x.m / x.n) + 2 * (x.r - 1) / (x.r * x.n),
    ),
}


def server_s(layout: Layout, p: int, nbytes: int, alpha: float, beta: float, hints: Hints) -> float:
    """T = 2 alpha + f S beta, 4 alpha where servers exchange; f is derived (`_FORMS`).

    Pushes and pulls overlap, but for the first push and the last pull of a piece: so f is 1-q of that of
    pieces that take no time, and q of that of one piece, which is pushed and then pulled.  A worker that
    serves sends (1-s) S to others and s S to each of p-1.  Without overlap q is 1.
    """
    groups = layout.groups(p, hints)
    s, q = _busiest(layout, len(groups), nbytes, hints)
    most_workers = max(len(group.workers) for group in groups)
    sizes = _Sizes(p, s, _faster(groups, p, hints), len(groups), most_workers)
    form = _FORMS[layout.kind]
    factor = (1 - q) * form.overlapped(sizes) + q * form.serial(sizes)
    exchange = layout.kind == "hierarchical" and len(groups) > 1
    return (4 if exchange else 2) * alpha + factor * nbytes * beta


def closed_form(layout: Layout) -> str:
    """`server_s` for a person."""
    form = _FORMS[layout.kind]
    is_one = not layout.overlap or (layout.chunk_nbytes is None and not layout.keys)
    return f"{form.in_one if is_one else form.in_pieces} (Luo et al. 2018, derived)"


def _faster(groups: Sequence[Group], p: int, hints: Hints) -> float:
    """How many times as fast the slowest server's cable is as the slowest worker's; 1 if not known."""
    if not hints.rates_bps:
        return 1.0
    return min(hints.rates_bps[group.server] for group in groups) / min(hints.rates_bps[:p])
