"""The verdict: how long an iteration is, who is late, how near the line rate it came and what bounded it.

Three sentences, every one computed: a figure that the captures do not hold is said to be missing.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import median, median_low

from traces.analysis.analysis import Analysis
from traces.analysis.flows import Flow
from traces.analysis.transfers import Transfer
from traces.framing.plain import Plain
from traces.units import show_bps, show_s

NEAR = 0.7  # of what a cause would allow: then it is taken for the bound
LARGE = 0.1  # of the largest flow: a limit of smaller ones bounds nothing
MSS_NBYTES = 1448  # TCP's payload in an Ethernet frame with timestamps
MOST_NAMED = 3  # ranks that were late less often than another
LATE_SHARE = 0.01  # of an iteration: less is no lateness worth a name


@dataclass(frozen=True)
class Shares:
    """How long iterations are, for their median rank, and what all ranks' time in the median one went to."""

    n_iterations: int
    time_ns: float
    least_ns: float
    most_ns: float
    compute: float
    exposed: float
    wait: float


def sentences(analysis: Analysis) -> tuple[str, str, str]:
    """The verdict, for people."""
    if analysis.missing:
        return (_nothing(analysis), _largest_flow(analysis), _rate(analysis))
    if analysis.incomparable:
        refused = f"Iterations, waiting and who is late cannot be told: {analysis.incomparable}."
        return (refused, _largest_flow(analysis), _rate(analysis))
    if analysis.framing == Plain.name:
        return (_guess(analysis), "Who was late cannot be told from bursts.", _rate(analysis))
    return (_length(analysis), _late(analysis), _rate(analysis))


def _nothing(analysis: Analysis) -> str:
    """Why there is no training; where switches do all of the work, hosts need no connections."""
    if not analysis.aggregations:
        return f"No training was recognised: {analysis.missing}."
    told = "; ".join(
        f"job {job.job}: {len(job.hosts)} hosts, {job.chunks:,} chunks, {job.again:,} contributions again"
        for job in analysis.aggregations[:MOST_NAMED]
    )
    more = len(analysis.aggregations) - MOST_NAMED
    return (
        f"Switches added gradients up ({told}{f'; {more} more' if more > 0 else ''}); "
        "beside it no training was recognised."
    )


def _guess(analysis: Analysis) -> str:
    """Bursts show when something was sent, not which message of which iteration it was."""
    seen = "No framing was recognised, so messages are guessed from bursts; iterations, if these are any, "
    found = shares(analysis)
    if found is None:
        return f"{seen}were not seen."
    return f"{seen}repeat every {show_s(found.time_ns / 1e9)} (median of {found.n_iterations})."


def shares(analysis: Analysis) -> Shares | None:
    """None if no iteration was found."""
    by_iteration = defaultdict(list)
    for one in analysis.exposures:
        by_iteration[one.iteration].append(one)
    if not by_iteration:
        return None
    times = {number: median(one.time_ns for one in some) for number, some in by_iteration.items()}
    middle = median_low(times.values())
    some = next(by_iteration[number] for number, time_ns in times.items() if time_ns == middle)
    whole = sum(one.time_ns for one in some) or 1
    return Shares(
        n_iterations=len(times),
        time_ns=middle,
        least_ns=min(times.values()),
        most_ns=max(times.values()),
        compute=sum(one.compute_ns for one in some) / whole,
        exposed=sum(one.exposed_ns for one in some) / whole,
        wait=sum(one.wait_ns for one in some) / whole,
    )


def _length(analysis: Analysis) -> str:
    found = shares(analysis)
    if found is None:
        return "No iterations were recognised in what was sent."
    spread = ""
    if found.n_iterations > 1:
        least, most = show_s(found.least_ns / 1e9), show_s(found.most_ns / 1e9)
        spread = f" (median of {found.n_iterations}, {least} to {most})"
    return (
        f"An iteration takes {show_s(found.time_ns / 1e9)}{spread}: of the ranks' time in it "
        f"{found.compute:.0%} is compute, {found.exposed:.0%} communication that no compute hides, "
        f"and {found.wait:.0%} waiting for a later rank."
    )


def _late(analysis: Analysis) -> str:
    found = shares(analysis)
    last = max(analysis.stragglers, key=lambda one: (one.times_last, one.mean_late_ns), default=None)
    if found is None or last is None or not last.times_last:
        return "Which rank is late cannot be told: there is no operation that all ranks begin by themselves."
    counted = sum(one.times_last for one in analysis.stragglers)
    late = f"{show_s(last.mean_late_ns / 1e9)} after the others on average"
    where = f"rank {last.rank} ({analysis.addresses[last.rank]})"
    if last.mean_late_ns < analysis.clock_error_ns:
        known = f"hosts' clocks are known to ± {show_s(analysis.clock_error_ns / 1e9)} only"
        return f"Which rank is late cannot be told: {where} is last most often, but only {late}, and {known}."
    if last.mean_late_ns < LATE_SHARE * found.time_ns:
        return f"No rank is late: {where} is last in {last.times_last} of {counted}, but only {late}."
    others = sorted((one for one in analysis.stragglers if one is not last), key=lambda one: -one.times_last)
    if counted <= len(analysis.stragglers) or 2 * last.times_last <= counted:
        ranks = ", ".join(f"rank {one.rank} in {one.times_last}" for one in others[:MOST_NAMED])
        also = f"; {ranks}" if ranks else ""
        return f"No one rank is always late: {where} is last in {last.times_last} of {counted}, {late}{also}."
    return f"{where[0].upper()}{where[1:]} is the late one: last in {last.times_last} of {counted}, {late}."


def _largest_flow(analysis: Analysis) -> str:
    if not analysis.flows:
        return "No connection carried any payload."
    flow = max(analysis.flows, key=lambda one: one.payload_nbytes)
    count = len(analysis.flows)
    which = f"The largest of {count:,} flows" if count > 1 else "The only flow"
    speed = f", at {show_bps(flow.goodput_bps)}" if flow.goodput_bps else ""
    return (
        f"{which} is {flow.src}:{flow.sport} to "
        f"{flow.dst}:{flow.dport}: {flow.payload_nbytes:,} bytes in {show_s(flow.duration_ns / 1e9)}{speed}."
    )


def _rate(analysis: Analysis) -> str:
    line = analysis.line_rate
    if line is None:
        return "How far from line rate it was cannot be told: no host's packets were seen."
    known = (
        f"the line rate of {show_bps(line.bps)}"
        if line.told
        else f"{show_bps(line.bps)}, the fastest 1 ms seen, taken as a floor of the line rate"
    )
    n_flows = 1
    rates = [t for t in analysis.transfers if t.busbw_Bps and t.kind == "allreduce" and t.iteration >= 0]
    if rates:
        achieved_bps = _by_bytes(rates) * 8
        what = f"Allreduces reached a bus bandwidth of {show_bps(achieved_bps)} (the median byte's)"
    else:
        mean = _busiest(analysis)
        if mean is None:
            return f"Nothing was sent by training; compare with {known}."
        achieved_bps, host, direction = mean
        n_flows = _large_at(analysis, host, direction)
        what = f"The busiest 100 ms, {direction} at {host}, carried {show_bps(achieved_bps)}"
    return f"{what}, {achieved_bps / line.bps:.0%} of {known}; {_bound(analysis, achieved_bps, n_flows)}."


def _by_bytes(rates: Sequence[Transfer]) -> float:
    """The bus bandwidth of the transfer that holds the median byte, by falling rates."""
    ordered = sorted(rates, key=lambda t: -(t.busbw_Bps or 0.0))
    left = sum(t.nbytes for t in ordered) / 2
    for transfer in ordered:
        left -= transfer.nbytes
        if left <= 0:
            return transfer.busbw_Bps or 0.0
    return 0.0


def _busiest(analysis: Analysis) -> tuple[float, str, str] | None:
    some = [one for one in analysis.burstiness if one.window_ns == 10**8]
    best = max(some, key=lambda one: one.peak_bps, default=None)
    return None if best is None else (best.peak_bps, best.host, best.direction)


def _large_at(analysis: Analysis, host: str, direction: str) -> int:
    """How many large flows end there, which together make its rate."""
    ends = [(flow.src if direction == "out" else flow.dst, flow.payload_nbytes) for flow in analysis.flows]
    largest = max((nbytes for _, nbytes in ends), default=0)
    return max(1, sum(end == host and nbytes >= LARGE * largest for end, nbytes in ends))


def _bound(analysis: Analysis, achieved_bps: float, n_flows: int) -> str:
    """Of link, windows and loss the one that explains the rate of `n_flows` together, else what is left."""
    line = analysis.line_rate
    is_full = line is not None and achieved_bps >= NEAR * line.bps
    if is_full and line is not None and line.told:
        return f"the link bounded it, with {_resent(analysis)}"
    known = _limits_bps(analysis, n_flows)
    least = min(known, key=lambda name: known[name], default=None)
    if least is not None and achieved_bps >= NEAR * known[least]:
        allowed = show_bps(known[least])
        return f"{least} bounded it: over the round-trip time at most {allowed} ({_resent(analysis)})"
    if is_full:
        return f"whether the link bounded it takes --line-rate to tell ({_resent(analysis)})"
    said = {"loss": f"loss ({_resent(analysis)})", "the receivers' windows": "the receivers' windows"}
    others = [said[name] for name in ("the receivers' windows", "loss") if name in known or name == "loss"]
    left = "what the hosts do" if analysis.missing else "the hosts and the steps of the algorithm"
    not_it = ", nor ".join(others)
    return f"neither the link bounded it, nor {not_it}: that leaves {left}"


def _limits_bps(analysis: Analysis, n_flows: int) -> dict[str, float]:
    """What each cause allows `n_flows` like the median of the large ones, if it limits them at all."""
    some = [flow for flow in analysis.flows if flow.training or analysis.missing]
    largest = max((flow.payload_nbytes for flow in some), default=0)
    large = [flow for flow in some if flow.payload_nbytes >= LARGE * largest]
    limits = {"the receivers' windows": map(window_bps, large), "loss": map(loss_bps, large)}
    found = {
        name: n_flows * median(values) for name, some_bps in limits.items() if (values := list(some_bps))
    }
    return {name: bps for name, bps in found.items() if bps < inf}


def _resent(analysis: Analysis) -> str:
    losses = analysis.losses
    return f"{losses.retransmitted:,} of {losses.data_packets:,} data packets sent again"


def window_bps(flow: Flow) -> float:
    """What the median window allows over the median round-trip time; inf if one of them is not known."""
    if flow.window_nbytes is None or flow.rtt_ns is None or flow.rtt_ns.p50 <= 0:
        return inf
    return flow.window_nbytes.p50 * 8e9 / flow.rtt_ns.p50


def loss_bps(flow: Flow) -> float:
    """What loss allows: MSS / RTT · sqrt(3/2) / sqrt(p) (Mathis et al. 1997, equation 3); inf without any."""
    if not flow.retransmitted or not flow.payload_nbytes or flow.rtt_ns is None or flow.rtt_ns.p50 <= 0:
        return inf
    share = flow.retransmitted * MSS_NBYTES / flow.payload_nbytes
    return MSS_NBYTES * 8e9 / flow.rtt_ns.p50 * sqrt(1.5 / share)
