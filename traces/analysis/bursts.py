"""How bursty the traffic of each host was: bytes on the wire in windows of several lengths."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gradwire.traces.analysis.flows import origin
from gradwire.traces.packets.cover import Ints
from gradwire.traces.packets.directions import own_address, points
from gradwire.traces.packets.packets import Packets
from gradwire.traces.trace import Trace

Way = Literal["in", "out"]
WINDOWS_NS = (10**6, 10**7, 10**8, 10**9)
MOST_HOSTS = 64  # of captures without ranks
MAX_WINDOWS = 20_000  # from the first packet of any host to the last; a page has all of them


@dataclass(frozen=True)
class Burstiness:
    """The busiest window of one length, beside the mean over the whole time in which the host was seen.

    Windows are aligned to the trace's origin.  `peak_at_ns` is when the busiest one begins, from the origin.
    """

    host: str
    direction: Way
    window_ns: int
    mean_bps: float
    peak_bps: float
    peak_to_mean: float
    peak_at_ns: int


@dataclass(frozen=True)
class WindowRates:
    """Bits per second in consecutive windows, the first of which begins `start_ns` after the origin.

    All rates of one analysis have the same `window_ns`, and begin at multiples of it.
    """

    host: str
    direction: Way
    window_ns: int
    start_ns: int
    bps: tuple[float, ...]


class Series(NamedTuple):
    """Packets of one host in one direction, each once: times from the trace's origin (ascending), sizes."""

    host: str
    direction: Way
    time_ns: Ints
    nbytes: Ints


def burstiness(series: Iterable[Series]) -> tuple[Burstiness, ...]:
    """For each host of the job, both directions and each of WINDOWS_NS; nothing for what was not seen."""
    found = []
    for host, direction, time_ns, nbytes in series:
        duration_ns = int(time_ns.max() - time_ns.min())
        for window_ns in WINDOWS_NS:
            windows, sums = _sums(time_ns, nbytes, window_ns)
            busiest = int(np.argmax(sums))
            mean_bps = float(nbytes.sum()) * 8e9 / max(duration_ns, window_ns)
            peak_bps = float(sums[busiest]) * 8e9 / window_ns
            at_ns = int(windows[busiest]) * window_ns
            found.append(
                Burstiness(host, direction, window_ns, mean_bps, peak_bps, peak_bps / mean_bps, at_ns)
            )
    return tuple(found)


def rates(series: Iterable[Series], window_ns: int) -> tuple[WindowRates, ...]:
    """Each host's rates over time, all in windows of one length: `window_ns`, or ten times that, and so on,
    where the time from the first packet of any host to the last would need more than MAX_WINDOWS.
    """
    series = tuple(series)
    width_ns = _width_ns(series, window_ns)
    found = []
    for host, direction, time_ns, nbytes in series:
        windows, sums = _sums(time_ns, nbytes, width_ns)
        first, last = int(windows[0]), int(windows[-1])
        bps = np.zeros(last - first + 1)
        bps[windows - first] = sums * 8e9 / width_ns
        found.append(WindowRates(host, direction, width_ns, first * width_ns, tuple(bps.tolist())))
    return tuple(found)


def _width_ns(series: Sequence[Series], window_ns: int) -> int:
    first_ns = min((int(one.time_ns[0]) for one in series), default=0)
    last_ns = max((int(one.time_ns[-1]) for one in series), default=0)
    width_ns = window_ns
    while (last_ns - first_ns) // width_ns + 2 > MAX_WINDOWS:
        width_ns *= 10
    return width_ns


def _sums(time_ns: Ints, nbytes: Ints, window_ns: int) -> tuple[Ints, npt.NDArray[np.float64]]:
    """The numbers of the windows in which anything was seen, ascending, and the bytes in each."""
    window = time_ns // window_ns
    first = np.flatnonzero(np.diff(window, prepend=window[0] - 1))
    return window[first], np.add.reduceat(nbytes, first).astype(np.float64)


def host_series(trace: Trace) -> tuple[Series, ...]:
    """Each host's packets, as seen at the host itself, or else at the point that saw most of them."""
    return tuple(_series(trace))


def _series(trace: Trace) -> Iterator[Series]:
    owners = [own_address(packets) for packets in trace.captures]
    at_points = points(trace.captures, owners)
    files_at: defaultdict[int, list[int]] = defaultdict(list)
    for file, point in enumerate(at_points):
        files_at[point].append(file)
    origin_ns = origin(trace)
    for host in trace.addresses or _hosts(trace, owners):
        own_files = [files for files in files_at.values() if owners[files[0]] == host]
        ways: tuple[Way, ...] = ("out", "in")
        for direction in ways:
            seen = [
                _packets_of(host, direction, [trace.captures[file] for file in files])
                for files in own_files or files_at.values()
            ]
            time_ns, nbytes = max(seen, key=lambda one: len(one[0]))
            if len(time_ns):
                yield Series(host, direction, time_ns - origin_ns, nbytes)


def _hosts(trace: Trace, owners: Sequence[str | None]) -> Sequence[str]:
    """Whose rates to report where there are no ranks: captures' own hosts, or else those that sent most."""
    owned = sorted({owner for owner in owners if owner})
    sent: Counter[str] = Counter()
    for packets in trace.captures if not owned else ():
        is_ip = packets.protocol != 0
        nbytes = np.bincount(packets.src[is_ip], packets.wire_nbytes[is_ip], len(packets.addresses))
        sent.update(dict(zip(packets.addresses, nbytes.tolist(), strict=True)))
    return owned or [host for host, _ in sent.most_common(MOST_HOSTS)]


def _packets_of(host: str, direction: Way, captures: list[Packets]) -> tuple[Ints, Ints]:
    times, sizes, numbers = [], [], []
    for packets in captures:
        if host not in packets.addresses:
            continue
        column = packets.src if direction == "out" else packets.dst
        rows = np.flatnonzero((column == packets.addresses.index(host)) & (packets.protocol != 0))
        times.append(packets.time_ns[rows])
        sizes.append(packets.wire_nbytes[rows].astype(np.int64))
        numbers.append(packets.seq[rows])
    if not times:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    time_ns, nbytes, seq = np.concatenate(times), np.concatenate(sizes), np.concatenate(numbers)
    order = np.lexsort((seq, nbytes, time_ns)) if len(times) > 1 else np.argsort(time_ns, kind="stable")
    time_ns, nbytes, seq = time_ns[order], nbytes[order], seq[order]
    if len(times) > 1:  # files of one host may overlap: the same packet then has the same time
        differs = [np.diff(column, prepend=column[:1]) != 0 for column in (time_ns, nbytes, seq)]
        keep = np.logical_or.reduce(differs)
        keep[:1] = True
        time_ns, nbytes = time_ns[keep], nbytes[keep]
    return time_ns, nbytes
