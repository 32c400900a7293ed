"""The summary: how long an iteration takes, who is late, how near to line rate it comes and what bounds it.

Three sentences, every one computed: a figure that the captures do not hold is said to be missing.
"""

from collections.abc import Sequence
from math import inf, sqrt
from statistics import median

from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.analysis.flows import FlowFigures
from gradwire.traces.analysis.linerate import LineRate
from gradwire.traces.analysis.shares import LONG, Shares
from gradwire.traces.analysis.transfers import Transfer
from gradwire.traces.framing.plain import Plain
from gradwire.traces.units import show_bps, show_count, show_first, show_s

NEAR = 0.7  # of what a cause would allow: then it is taken for the bound
LARGE = 0.1  # of the largest flow: a limit of smaller ones bounds nothing
MSS_NBYTES = 1448  # TCP's payload in an Ethernet frame with timestamps
MOST_ABSENT = 8  # hosts without a capture that are named
MOST_NAMED = 3  # ranks that were late less often than another
LEAST_SHARE = 0.005  # of an iteration: less is not mentioned
LATE_SHARE = 0.01  # of an iteration: less is not a lateness worth a name


def sentences(analysis: Analysis) -> tuple[str, str, str]:
    """The summary, for people."""
    if analysis.missing:
        return (_nothing(analysis), _largest_flow(analysis), _rate(analysis))
    if analysis.incomparable:
        refused = f"Iterations, waiting and who is late are unknown: {analysis.incomparable}."
        return (refused, _largest_flow(analysis), _rate(analysis))
    if analysis.framing == Plain.name:
        return (_guess(analysis), "Bursts do not show who was late.", _rate(analysis))
    return (_length(analysis), _late(analysis), _rate(analysis))


def _nothing(analysis: Analysis) -> str:
    """Why there is no training; where switches do all of the work, hosts need no connections."""
    if not analysis.aggregations:
        return f"No training was recognised: {analysis.missing}."
    jobs = [
        f"job {job.job}: {show_count(len(job.hosts), 'host')}, {show_count(job.chunks, 'chunk')}, "
        f"{show_count(job.again, 'contribution')} again"
        for job in analysis.aggregations
    ]
    return (
        f"Switches added gradients up ({show_first(jobs, MOST_NAMED, '; ')}); "
        "beside it no training was recognised."
    )


def _guess(analysis: Analysis) -> str:
    """Bursts show when something was sent, not which message of which iteration it was."""
    seen = "No framing was recognised, so messages are guessed from bursts; iterations, if these are any, "
    shares = analysis.shares
    if shares is None or shares.n_warm_up + shares.n_iterations < 2:
        return f"{seen}were not seen."
    return f"{seen}repeat every {show_s(shares.time_ns / 1e9)} (median of {shares.n_iterations})."


def _length(analysis: Analysis) -> str:
    shares = analysis.shares
    if shares is None and analysis.shares_refused:
        why = " and ".join(analysis.shares_refused)
        return f"Iterations, and where their time goes, are not said, because {why}."
    if shares is None:
        return "No iterations were recognised in what was sent."
    said = f"An iteration takes {show_s(shares.time_ns / 1e9)}{_spread(shares)}"
    if analysis.shares_refused:
        return f"Where the time goes is not said, because {' and '.join(analysis.shares_refused)}. {said}."
    compute = f"{shares.compute:.0%} is compute{_hidden(shares)}{_unseen(analysis)}"
    if analysis.seen_from:
        others = f"{shares.exposed + shares.wait:.0%} communication or waiting for other ranks"
        return (
            f"Seen from {_seen_from(analysis)} only: {said[0].lower()}{said[1:]}, of which {compute}, "
            f"and {others}, which only their captures tell apart.{_long(shares)}"
        )
    return (
        f"{said}: of the ranks' time in it {compute}, {shares.exposed:.0%} communication that no compute "
        f"hides, and {shares.wait:.0%} waiting for a later rank.{_long(shares)}"
    )


def _long(shares: Shares) -> str:
    """What the parts leave out, as a sentence of its own."""
    if not shares.long:
        return ""
    named = show_first([f"iteration {number}" for number in shares.long], MOST_NAMED)
    return f" The parts are without {named}, which took more than {LONG} times as long."


def _seen_from(analysis: Analysis) -> str:
    return ", ".join(f"rank {rank} ({analysis.addresses[rank]})" for rank in analysis.seen_from)


def _hidden(shares: Shares) -> str:
    if shares.hidden < LEAST_SHARE:
        return ""
    return f" ({shares.hidden:.0%} with communication hidden under it)"


def _unseen(analysis: Analysis) -> str:
    """Where ranks do not wait for a link, threads may wait for a processor, which leaves no packets."""
    if analysis.job_bound.bound == "link":
        return ""
    return " or a busy host's own time, which packets do not tell apart"


def _spread(shares: Shares) -> str:
    """Over how many iterations, and which were left out."""
    some = []
    if shares.n_iterations > 1:
        least, most = show_s(shares.least_ns / 1e9), show_s(shares.most_ns / 1e9)
        some.append(f"median of {shares.n_iterations}, {least} to {most}")
    elif not shares.n_warm_up:
        some.append("the only one seen, perhaps with the job's set-up in it")
    if shares.n_warm_up:
        left = "the first" if shares.n_warm_up == 1 else f"the first {shares.n_warm_up}"
        some.append(f"without {left}, the warm-up")
    return f" ({'; '.join(some)})" if some else ""


def _late(analysis: Analysis) -> str:
    shares = analysis.shares
    if analysis.seen_from:
        absent = [a for rank, a in enumerate(analysis.addresses) if rank not in analysis.seen_from]
        missing = show_first(absent, MOST_ABSENT)
        return f"Who is late, and a replay, need the captures of the other hosts too: {missing}."
    if analysis.shape is not None and analysis.shape.synchronous is False and not analysis.stragglers:
        return "No rank is the late one: asynchronous servers wait for no worker."
    last = max(analysis.stragglers, key=lambda one: (one.times_last, one.mean_late_ns), default=None)
    if shares is None or last is None or not last.times_last:
        return "Which rank is late is unknown: there is no operation that all ranks begin by themselves."
    counted = sum(one.times_last for one in analysis.stragglers)
    late = f"{show_s(last.mean_late_ns / 1e9)} after the others on average"
    where = f"rank {last.rank} ({analysis.addresses[last.rank]})"
    if last.mean_late_ns < analysis.clock_error_ns:
        known = f"hosts' clocks are known to ± {show_s(analysis.clock_error_ns / 1e9)} only"
        return f"Which rank is late is unclear: {where} is last most often, but only {late}, and {known}."
    if last.mean_late_ns < LATE_SHARE * shares.time_ns:
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
    if not analysis.burstiness:
        return "Its distance from the line rate is unknown: no host's packets were seen."
    n_flows = 1
    reduced = [t for t in analysis.transfers if t.kind == "allreduce" and t.iteration >= 0]
    rates = [t for t in reduced if t.busbw_Bps]
    if 2 * sum(t.nbytes for t in rates) < sum(t.nbytes for t in reduced):
        why = "as read, more than half of their bytes exceed the line rate or take no time"
        return (
            f"The allreduces' bus bandwidth is unknown: {why}; {analysis.job_bound.evidence} "
            f"({_resent(analysis)})."
        )
    if rates:
        achieved_bps = _by_bytes(rates) * 8
        what = f"Allreduces reached a bus bandwidth of {show_bps(achieved_bps)} (the median byte's)"
    else:
        mean = _busiest(analysis)
        if mean is None:
            return "Nothing was sent by training."
        achieved_bps, host, direction = mean
        n_flows = _large_at(analysis, host, direction)
        what = f"The busiest 100 ms, {direction} at {host}, carried {show_bps(achieved_bps)}"
    return f"{what}{_share(achieved_bps, line)}; {_bound(analysis, achieved_bps, n_flows)}."


def _share(achieved_bps: float, line: LineRate | None) -> str:
    """Of the line rate; more than all of it is a short window's."""
    if line is None:
        return "; the line rate is not known (--line-rate)"
    share = min(1.0, achieved_bps / line.bps)
    return f", {share:.0%} of the {'' if line.is_known else 'measured '}line rate of {show_bps(line.bps)}"


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
    """Of link, windows and loss the one that explains the rate of `n_flows` together, else what is left.

    That a link bounded it takes packets that show its rate, or a known line rate that was nearly reached;
    that none did takes packets that show no rate at all.
    """
    line, bound = analysis.line_rate, analysis.job_bound
    if bound.bound == "link":
        return f"{bound.evidence} ({_resent(analysis)})"
    if line is not None and line.is_known and achieved_bps >= NEAR * line.bps:
        return f"the link bounded it, with {_resent(analysis)}"
    known = _limits_bps(analysis, n_flows)
    least = min(known, key=lambda name: known[name], default=None)
    if least is not None and achieved_bps >= NEAR * known[least]:
        allowed = show_bps(known[least])
        return f"{least} bounded it: over the round-trip time at most {allowed} ({_resent(analysis)})"
    if bound.bound == "unknown":
        return f"{bound.evidence} ({_resent(analysis)})"
    said = {"loss": f"loss ({_resent(analysis)})", "the receivers' windows": "the receivers' windows"}
    others = [said[name] for name in ("the receivers' windows", "loss") if name in known or name == "loss"]
    left = "what the hosts do" if analysis.missing else "the hosts and the steps of the algorithm"
    not_it = ", nor did ".join(others)
    no_link, _, why = bound.evidence.partition(": ")
    return f"{no_link} ({why}), nor did {not_it}: that leaves {left}"


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


def window_bps(flow: FlowFigures) -> float:
    """What the median window allows over the median round-trip time; inf if one of them is not known."""
    if flow.window_nbytes is None or flow.rtt_ns is None or flow.rtt_ns.p50 <= 0:
        return inf
    return flow.window_nbytes.p50 * 8e9 / flow.rtt_ns.p50


def loss_bps(flow: FlowFigures) -> float:
    """What loss allows: MSS / RTT · sqrt(3/2) / sqrt(p) (Mathis et al. 1997, equation 3); inf without any."""
    if not flow.retransmitted or not flow.payload_nbytes or flow.rtt_ns is None or flow.rtt_ns.p50 <= 0:
        return inf
    share = flow.retransmitted * MSS_NBYTES / flow.payload_nbytes
    return MSS_NBYTES * 8e9 / flow.rtt_ns.p50 * sqrt(1.5 / share)
