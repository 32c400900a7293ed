"""Whether the hosts' clocks agree, as the captures themselves show, and times put right where they do not.

Every packet that is in two hosts' files bounds how far their clocks are apart (clockbounds.py).  Most
hosts that agree are the reference; a host whose packets prove that its clock differs, since some arrive
before they were sent, is moved to it.  One that no packets of both ways connect to the others cannot be
compared.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from traces.packets.clockbounds import Bounds, Line, fit, joined_bounds, tightest
from traces.packets.clocksamples import Exchanged, exchanged
from traces.packets.directions import Rows, own_address, points
from traces.packets.packets import Packets

PLAUSIBLE_NS = 978_307_200 * 10**9  # 2001: before that a host has not set its clock
_NO_EXCHANGE = "its file and the others' have no packets of both ways in common"
_UNSTEADY = "no steady clock explains its packets' times, as if it had been set meanwhile"


@dataclass(frozen=True)
class HostClock:
    """How far the clock of `host` (None: a switch's, or of several hosts) is ahead of the reference.

    `offset_ns` is known within ±`uncertainty_ns`, wherever the host sent or received, and grows by
    `drift_ppm` µs each second.  `corrected`: its times were moved by it.  Hosts of different `group`s
    cannot be compared, since no packets connect them; each group has a reference of its own.  `comparable`
    are those of the group that most hosts of the job are in; `reason` is why another is not.
    """

    host: str | None
    files: tuple[str, ...]
    offset_ns: int
    uncertainty_ns: int
    drift_ppm: float
    corrected: bool
    group: int
    comparable: bool
    reason: str

    @property
    def error_ns(self) -> int:
        """How far the times that are used can be from the reference's."""
        return self.uncertainty_ns if self.corrected else abs(self.offset_ns) + self.uncertainty_ns


@dataclass(frozen=True)
class Clocks:
    """Of each point at which packets were captured; `spans_ns` are the first and last times of each."""

    hosts: tuple[HostClock, ...]
    spans_ns: tuple[tuple[int, int], ...] = ()

    @property
    def comparable(self) -> bool:
        return all(one.comparable for one in self.hosts)

    @property
    def why_not(self) -> str:
        """Empty if all are comparable."""
        some = [one for one in self.hosts if not one.comparable]
        if not some:
            return ""
        more = f" and {len(some) - 1} more" if len(some) > 1 else ""
        return f"the clock of {name(some[0])}{more} cannot be compared with the others': {some[0].reason}"

    @property
    def error_ns(self) -> int:
        """How far two hosts' times can be apart, at most, that were taken at the same instant."""
        errors = sorted(one.error_ns for one in self.hosts if one.comparable)
        return sum(errors[-2:]) if len(errors) > 1 else 0

    @property
    def apart(self) -> tuple[HostClock, ...]:
        """Those that have no place in time beside the rest: not comparable, and no instant in common."""
        pairs = list(zip(self.hosts, self.spans_ns, strict=True))
        known = [span for one, span in pairs if one.comparable]
        first_ns, last_ns = min(first for first, _ in known), max(last for _, last in known)
        return tuple(
            one for one, (first, last) in pairs if not one.comparable and (last < first_ns or first > last_ns)
        )

    def between(self, first: str, second: str) -> bool:
        """Whether times of two hosts can be compared; one that was not captured has no clock of its own."""
        return len({one.group for one in self.hosts if one.host in (first, second)}) < 2

    def of_job(self, addresses: Sequence[str]) -> "Clocks":
        """Those that saw the job of these hosts; other points' only where a host was not captured."""
        own = {one.host for one in self.hosts}
        needs_others = not own.issuperset(addresses)
        pairs = [
            (one, span)
            for one, span in zip(self.hosts, self.spans_ns, strict=True)
            if one.host in addresses or (one.host is None and needs_others)
        ]
        return Clocks(_compared([one for one, _ in pairs]), tuple(span for _, span in pairs))


ONE_CLOCK = Clocks(())


def name(clock: HostClock) -> str:
    """Its host, or its first file."""
    return clock.host or clock.files[0]


def compare_clocks(
    captures: Sequence[Packets], rows_of: Sequence[Rows]
) -> tuple[tuple[Packets, ...], Clocks]:
    """The captures in one time, as far as their clocks can be told, and what is known of these.

    `rows_of` are the captures' directions.  Packets are the same objects where nothing was corrected.
    """
    owners = [own_address(packets) for packets in captures]
    at_points = points(captures, owners)
    files: defaultdict[int, list[int]] = defaultdict(list)
    for file, point in enumerate(at_points):
        files[point].append(file)
    if len(files) < 2:
        return tuple(captures), ONE_CLOCK
    owner = {point: owners[some[0]] for point, some in files.items()}
    seen = exchanged(captures, rows_of, files, owner)
    settled, reasons = _settled(sorted(files), seen, _begins(captures, files))
    moved = list(captures)
    hosts = []
    spans = []
    for point, some in sorted(files.items(), key=lambda item: item[1]):
        line, is_moved, group = settled[point]
        for file in some if is_moved else ():
            packets = captures[file]
            moved[file] = replace(packets, time_ns=line.reference_ns(packets.time_ns))
        hosts.append(
            HostClock(
                host=owner[point],
                files=tuple(captures[file].path.name for file in some),
                offset_ns=line.ahead_ns,
                uncertainty_ns=line.uncertainty_ns,
                drift_ppm=round(line.drift * 1e6, 3),
                corrected=is_moved,
                group=group,
                comparable=True,
                reason=reasons.get(point, _NO_EXCHANGE),
            )
        )
        times = [moved[file].time_ns for file in some]
        spans.append((min(int(t.min()) for t in times), max(int(t.max()) for t in times)))
    return tuple(moved), Clocks(_compared(hosts), tuple(spans))


def _compared(hosts: Sequence[HostClock]) -> tuple[HostClock, ...]:
    """The same, with what is comparable among these."""
    sizes = Counter(one.group for one in hosts)
    main = max(sizes, key=lambda group: (sizes[group], -group), default=0)
    return tuple(
        replace(
            one, comparable=one.group == main, reason="" if one.group == main else one.reason or _NO_EXCHANGE
        )
        for one in hosts
    )


def _begins(captures: Sequence[Packets], files: Mapping[int, Sequence[int]]) -> dict[int, int]:
    return {point: min(int(captures[n].time_ns.min()) for n in some) for point, some in files.items()}


def _settled(
    nodes: Sequence[int], seen: Exchanged, begins: Mapping[int, int]
) -> tuple[dict[int, tuple[Line, bool, int]], dict[int, str]]:
    """For each point its line, whether it must be moved by it, and its group; why it was left alone, if it
    was not for lack of packets.
    """
    found: dict[int, tuple[Line, bool, int]] = {}
    reasons: dict[int, str] = {}
    while left := [node for node in nodes if node not in found]:
        group = len({number for _, _, number in found.values()})
        alone = [node for node in left if node in reasons]
        agreeing = _agreeing([node for node in left if node not in reasons] or alone[:1], seen, begins)
        # The reference is the agreeing hosts' common time: how far one may be from it, the others tell.
        settled = {node: Line(begins[node], 0, 0.0, 0) for node in agreeing}
        for node in agreeing:
            bounds = _bounds(node, seen, {other: line for other, line in settled.items() if other != node})
            found[node] = (bounds and fit(bounds)) or settled[node], False, group
        while candidates := {
            node: bounds
            for node in left
            if node not in settled and node not in reasons
            if (bounds := _bounds(node, seen, settled)) is not None and bounds.is_two_way
        }:
            node = max(candidates, key=lambda one: len(candidates[one].x_ns))
            line = fit(candidates[node])
            if line is None:
                reasons[node] = _UNSTEADY
            else:
                settled[node] = line
                found[node] = line, True, group
    return found, reasons


def _agreeing(nodes: Sequence[int], seen: Exchanged, begins: Mapping[int, int]) -> tuple[int, ...]:
    """The largest group found of hosts whose clocks need no correction to be one."""
    agree: defaultdict[int, set[int]] = defaultdict(set)
    for first in nodes:
        for second in seen.peers.get(first, ()):
            bounds = _bounds(first, seen, {second: Line(begins[second], 0, 0.0, 0)})
            if bounds is not None and bounds.is_two_way and bounds.allow_zero:
                agree[first].add(second)
    ranked = sorted(nodes, key=lambda n: (-len(agree[n]), begins[n] < PLAUSIBLE_NS, n))
    group = [ranked[0]]
    joined = True
    while joined:
        joined = False
        for node in ranked:
            if node in group or not agree[node] & set(group):
                continue
            bounds = _bounds(node, seen, {other: Line(begins[other], 0, 0.0, 0) for other in group})
            if bounds is not None and bounds.allow_zero:
                group.append(node)
                joined = True
    return tuple(sorted(group))


def _bounds(node: int, seen: Exchanged, settled: Mapping[int, Line]) -> Bounds | None:
    """What packets between `node` and the points that have a line say about its clock."""
    parts = []
    for other in seen.peers.get(node, ()):
        if other not in settled:
            continue
        line = settled[other]
        for is_upper, times in (
            (True, seen.times.get((other, node))),
            (False, seen.times.get((node, other))),
        ):
            if times is None:
                continue
            own, theirs = times[::-1] if is_upper else times
            x_ns = line.reference_ns(theirs)
            wider = line.uncertainty_ns if is_upper else -line.uncertainty_ns
            parts.append(Bounds(x_ns, own - x_ns + wider, np.full(len(own), is_upper)))
    return tightest(joined_bounds(parts)) if parts else None
