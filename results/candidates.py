"""Which changes to a captured job are worth a trial: faster links and ranks, other algorithms and fabrics.

Of slow ranks, one that computes as long as the others.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from math import ceil, isqrt
from statistics import fmean, median
from typing import NamedTuple

from gradwire.results.trials import Base, Trial
from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.analysis.spacing import SAME
from gradwire.traces.units import show_bps, show_count

LEAST_SAVED = 0.01  # of an iteration
LEAST_ITERATIONS = 3  # for a rank to be late in most of them
LEAST_FACTOR = Fraction(1, 10)
ALGORITHMS = {
    "ring": "allreduces by a ring",
    "halving-doubling": "allreduces by halving-doubling",
    "ina": "gradients added up by the switches",
}


class LateRank(NamedTuple):
    """The rank whose computing takes `factor` of its time when it is as fast as the others; or why none."""

    rank: int = -1
    factor: Fraction = Fraction(1)
    why_not: str = ""


def late_rank(analysis: Analysis) -> LateRank:
    """The rank that computes longest in most iterations, if the others are faster by LEAST_SAVED.

    `analysis` has `shares`.
    """
    shares, shape = analysis.shares, analysis.shape
    assert shares
    servers = set(shape.servers) - set(shape.workers) if shape is not None else set()
    times: defaultdict[int, dict[int, int]] = defaultdict(dict)  # by iteration and rank
    for one in analysis.exposures:
        if one.iteration >= shares.n_warm_up and one.iteration not in shares.long and one.rank not in servers:
            times[one.iteration][one.rank] = one.compute_ns
    if len(times) < LEAST_ITERATIONS:
        few = show_count(len(times), "iteration is", "iterations are")
        return LateRank(why_not=f"{few} too few to say what it costs")
    longest = Counter(max(by_rank, key=lambda rank: by_rank[rank]) for by_rank in times.values())
    rank, count = longest.most_common(1)[0]
    late_rank_ns = [by_rank[rank] for by_rank in times.values() if rank in by_rank]
    others_ns = [ns for by_rank in times.values() for other, ns in by_rank.items() if other != rank]
    if not others_ns or 2 * count <= len(times):
        return LateRank(why_not="no rank computes longest in most iterations")
    late_ns = fmean(late_rank_ns) - median(others_ns)
    if late_ns < LEAST_SAVED * shares.time_ns:
        return LateRank(why_not=f"none computes longer than the others by {LEAST_SAVED:.0%} of an iteration")
    factor = Fraction(round(1000 * median(others_ns) / fmean(late_rank_ns)), 1000)
    if factor < LEAST_FACTOR:
        return LateRank(why_not=f"rank {rank} computes ten times as long as the others: it does other work")
    return LateRank(rank, factor)


def rank_change(base: Base, late: LateRank) -> Trial:
    """The late rank, which there must be, computes `late.factor` times as long as it did."""
    what = f"rank {late.rank} computes like the others (×{float(late.factor):.3g})"
    return Trial("rank", what, base.spec, slow={late.rank: late.factor})


def network_changes(base: Base, analysis: Analysis) -> Iterator[Trial]:
    """The links that bounded the job made faster, the other algorithms, the other families of fabrics."""
    yield from _faster_links(base, analysis)
    yield from _algorithms(base, analysis)
    yield from _fabrics(base)


def _faster_links(base: Base, analysis: Analysis) -> Iterator[Trial]:
    """Those that bounded the job twice as fast."""
    from gradwire.planning.fabrics.spec import parse_fabric, with_rates

    rate_bps = analysis.job_bound.rate_bps
    if analysis.job_bound.bound != "link" or rate_bps is None:
        return
    fabric = parse_fabric(base.spec)
    hosts, inner = fabric.host_rates_bps, fabric.inner_rates_bps
    near = {rate for rate in (*hosts, *inner) if abs(rate / rate_bps - 1) <= SAME}
    at_hosts, between = near & set(hosts), near & set(inner)
    if len(hosts) != 1 or len(inner) > 1 or not near:
        return
    host_bps, inner_bps = hosts[0], inner[0] if inner else None
    if at_hosts and (between or not inner):
        which = "every link"
    else:
        which = "the links between switches" if between else "the hosts' links"
    faster_bps = 2 * host_bps if at_hosts else host_bps
    faster_inner_bps = 2 * inner_bps if between and inner_bps else inner_bps
    bounding_bps = min(between or at_hosts)
    what = f"{which} twice as fast: {show_bps(2 * bounding_bps)}"
    yield Trial("link", what, with_rates(fabric, faster_bps, faster_inner_bps).spec)


def _algorithms(base: Base, analysis: Analysis) -> Iterator[Trial]:
    reduces = analysis.shape is not None and analysis.shape.kind == "allreduce"
    for name, what in ALGORITHMS.items():
        if reduces or name == "ina":
            yield Trial("algorithm", what, base.spec, name)


def _fabrics(base: Base) -> Iterator[Trial]:
    """Other families for as many ranks, their hosts' links like those of the capture's fabric."""
    from gradwire.planning.fabrics.fabric import DEFAULT_MTU_NBYTES
    from gradwire.planning.fabrics.spec import parse_fabric

    fabric = parse_fabric(base.spec)
    n_ranks, rates = base.workload.n_ranks, fabric.host_rates_bps
    if len(rates) != 1:
        return
    mtu = f",mtu={fabric.mtu_nbytes}" if fabric.mtu_nbytes != DEFAULT_MTU_NBYTES else ""
    radix = next(k for k in range(2, 2 * isqrt(2 * n_ranks) + 4, 2) if k * k // 2 >= n_ranks)
    per_half = max(1, ceil(n_ranks / 4))
    for what, sizes in (
        ("a star", f"star:hosts={n_ranks}"),
        ("a fat-tree", f"fat-tree:k={radix},levels=2"),
        ("a BiGraph", f"bigraph:n={2 * per_half},m=2"),
    ):
        spec = parse_fabric(f"{sizes},rate={rates[0]}{mtu}").spec
        if spec.partition(":")[0] != fabric.family:
            yield Trial("fabric", f"{what} of links of {show_bps(rates[0])}", spec)
