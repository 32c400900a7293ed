"""What the charts of the analysis page draw, as one JSON value, bounded whatever was captured."""

import heapq
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.analysis.bursts import WindowRates
from gradwire.traces.analysis.transfers import Transfer
from gradwire.traces.units import show_bps, show_nbytes, show_s

KINDS = ("compute", "communication", "wait")  # a kind's number in the page
MAX_SPANS = 60_000
MAX_MOVED = 3_000
MAX_POINTS = 240_000  # of all rates together
MAX_LANES = 4  # of collectives that overlap
COLOURS = ("dim", "line", "page", "compute", "communication", "wait", "moved", "out", "in")  # of inspect.css


def chart_data(analysis: Analysis) -> dict[str, Any]:
    """Times in µs from the trace's origin, rates in Mb/s."""
    spans, moved, hosts = analysis.spans[:MAX_SPANS], _moved(analysis), _shown_hosts(analysis)
    drawn = [(span.start_ns, span.end_ns) for span in spans]
    drawn += [(one.start_ns, one.start_ns + one.time_ns) for one in moved]
    ends = drawn or [
        (r.start_ns, r.start_ns + len(r.bps) * r.window_ns) for rates in hosts.values() for r in rates
    ]
    in_order = sorted(spans, key=lambda span: span.start_ns)
    at, rates = _rates(analysis, hosts)
    lanes = _lanes(moved) if spans else []
    return {
        "begin": min((start for start, _ in ends), default=0) / 1e3,
        "end": max((end for _, end in ends), default=1000) / 1e3,
        "ranks": [f"rank {rank} ({address})" for rank, address in enumerate(analysis.addresses)],
        "short": [f"rank {rank}" for rank in range(len(analysis.addresses))],
        "spans": {
            "rank": [span.rank for span in in_order],
            "iteration": [span.iteration for span in in_order],
            "kind": [KINDS.index(span.kind) for span in in_order],
            "start": [span.start_ns / 1e3 for span in in_order],
            "time": [(span.end_ns - span.start_ns) / 1e3 for span in in_order],
        },
        "iterations": _iterations(analysis),
        "lane_name": "collectives" if any(one.busbw_Bps for one in moved) else "messages",
        "lanes": max((lane + 1 for lane, _ in lanes), default=0),
        "moved": [_bar(lane, transfer) for lane, transfer in lanes],
        "colours": COLOURS,
        "at": at,
        "window": f"{show_s(analysis.rates[0].window_ns / 1e9)} windows" if analysis.rates else "",
        "rates": rates,
        "most_rate": _most_rate(at, rates, _training_us(analysis)),
    }


def chart_notes(analysis: Analysis) -> list[str]:
    """What the charts leave out, and what they say in words of their own."""
    notes = []
    hosts, shown = _hosts(analysis), _shown_hosts(analysis)
    if analysis.rates:
        window = show_s(analysis.rates[0].window_ns / 1e9)
        notes.append(f"Rates count whole frames, in windows of {window}, all hosts on one scale.")
        at, rates = _rates(analysis, shown)
        most, in_training = (_most_rate(at, rates, begin) for begin in (-math.inf, _training_us(analysis)))
        if most > in_training:
            notes.append(f"The scale fits the training; set-up went up to {show_bps(most * 1e6)}.")
    if len(shown) < len(hosts):
        notes.append(f"The {len(shown)} hosts that moved most are drawn of {len(hosts)}; --csv has all.")
    if len(analysis.spans) > MAX_SPANS:
        notes.append(f"The first {MAX_SPANS:,} of {len(analysis.spans):,} spans are drawn; --csv has all.")
    if analysis.spans and len(analysis.transfers) > MAX_MOVED:
        notes.append(f"The largest {MAX_MOVED:,} of {len(analysis.transfers):,} collectives are drawn.")
    return notes


def _iterations(analysis: Analysis) -> list[tuple[int, float, float]]:
    """Number, begin and end over all ranks, computing included; at most as many as a list can offer."""
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    for span in analysis.spans[:MAX_SPANS]:
        begin[span.iteration] = min(span.start_ns, begin.get(span.iteration, span.start_ns))
        end[span.iteration] = max(span.end_ns, end.get(span.iteration, span.end_ns))
    return [(n, begin[n] / 1e3, end[n] / 1e3) for n in sorted(begin) if n >= 0]


def _moved(analysis: Analysis) -> list[Transfer]:
    largest = heapq.nlargest(MAX_MOVED, analysis.transfers, key=lambda one: one.nbytes)
    return sorted(largest, key=lambda one: one.start_ns)


def _lanes(moved: Iterable[Transfer]) -> list[tuple[int, Transfer]]:
    """Each transfer in the first free lane; a transfer that finds none shares the last."""
    free_ns: list[int] = []
    placed = []
    for one in moved:
        lane = next((n for n, ns in enumerate(free_ns) if ns <= one.start_ns), len(free_ns))
        lane = min(lane, MAX_LANES - 1)
        if lane == len(free_ns):
            free_ns.append(0)
        free_ns[lane] = max(free_ns[lane], one.start_ns + one.time_ns)
        placed.append((lane, one))
    return placed


def _bar(lane: int, one: Transfer) -> tuple[int, float, float, str, str, str]:
    """Lane, start, time, size, what its tooltip says, and kind."""
    label = show_nbytes(one.nbytes)
    where = "set-up" if one.iteration < 0 else f"iteration {one.iteration}"
    speed = f", busbw {show_nbytes(one.busbw_Bps)}/s" if one.busbw_Bps else ""
    return (
        lane,
        one.start_ns / 1e3,
        one.time_ns / 1e3,
        label,
        f"{one.kind} {label}, {where}, {one.algorithm}{speed}",
        one.kind,
    )


def _hosts(analysis: Analysis) -> dict[str, list[WindowRates]]:
    by_host: defaultdict[str, list[WindowRates]] = defaultdict(list)
    for rates in analysis.rates:
        by_host[rates.host].append(rates)
    return by_host


def _shown_hosts(analysis: Analysis) -> dict[str, list[WindowRates]]:
    """As many of those that moved most as MAX_POINTS allows, in their own order."""
    hosts = _hosts(analysis)
    if not hosts:
        return {}
    _, _, n_windows = _windows(analysis.rates)
    count = max(1, MAX_POINTS // (2 * n_windows))
    moved = {host: sum(sum(one.bps) for one in some) for host, some in hosts.items()}
    kept = set(heapq.nlargest(count, moved, key=lambda host: moved[host]))
    return {host: some for host, some in hosts.items() if host in kept}


def _rates(
    analysis: Analysis, hosts: dict[str, list[WindowRates]]
) -> tuple[list[float], list[dict[str, Any]]]:
    """The windows' begins, and every host's two series on them."""
    some = [one for rates in hosts.values() for one in rates]
    if not some:
        return [], []
    begin_ns, window_ns, count = _windows(some)
    ranks = {address: rank for rank, address in enumerate(analysis.addresses)}
    host_series = []
    for host, rates in hosts.items():
        by_way = {one.direction: one for one in rates}
        name = f"rank {ranks[host]} ({host})" if host in ranks else host
        series = {way: _on(by_way.get(way), begin_ns, count) for way in ("out", "in")}
        host_series.append({"name": name, **series})
    return [(begin_ns + n * window_ns) / 1e3 for n in range(count)], host_series


def _windows(some: Sequence[WindowRates]) -> tuple[int, int, int]:
    """When the first window of any series begins, the length that the windows of all have, and how many there
    are to the last of any.
    """
    window_ns = some[0].window_ns
    begin_ns = min(one.start_ns for one in some)
    return begin_ns, window_ns, max((one.start_ns - begin_ns) // window_ns + len(one.bps) for one in some)


def _training_us(analysis: Analysis) -> float:
    """When the training begins: with its first iteration, or, if none is known, at once."""
    return min((one.start_ns for one in analysis.iterations), default=-math.inf) / 1e3


def _most_rate(at: Sequence[float], rates: Sequence[dict[str, Any]], begin_us: float) -> float:
    """The highest rate of any host in the windows from `begin_us` on; of all windows if there are none."""
    first = bisect_left(at, begin_us) % max(1, len(at))
    shown = (mbps for host in rates for way in ("out", "in") for mbps in host[way][first:])
    return max((mbps for mbps in shown if mbps is not None), default=0.0) or 1e-6


def _on(rates: WindowRates | None, begin_ns: int, count: int) -> Sequence[float | None]:
    """The series from `begin_ns` on, 0 where nothing was seen, None if that direction was not captured."""
    if rates is None:
        return [None] * count
    before = (rates.start_ns - begin_ns) // rates.window_ns
    after = count - before - len(rates.bps)
    return [0] * before + [round(bps / 1e6, 2) if bps else 0 for bps in rates.bps] + [0] * after
