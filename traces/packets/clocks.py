"""Whether the hosts' clocks agree, as the captures show, and a correction of times where they do not.

Every packet that is in two hosts' files bounds how far their clocks are apart (clockbounds.py).  Most
hosts that agree are the reference; a host whose packets prove that its clock differs, since some arrive
before they were sent, is moved to it; one that was set once meanwhile is moved by two lines.  One that no
packets of both ways connect to the others cannot be compared.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradwire.traces.packets.clockbounds import Bounds, ClockStep, Line, fit, fit_step, joined_bounds
from gradwire.traces.packets.clocksamples import Exchanged, exchanged
from gradwire.traces.packets.cover import Ints
from gradwire.traces.packets.directions import Rows, own_address, points
from gradwire.traces.packets.packets import Packets
from gradwire.traces.packets.timestamps import DISORDER_NS
from gradwire.traces.units import show_first

PLAUSIBLE_NS = 978_307_200 * 10**9  # 2001: before that a host has not set its clock
_NO_EXCHANGE = "its file and the others' have no packets of both ways in common"
_UNSTEADY = (
    "no steady clock explains its packets' times, as if it had been set meanwhile, more than once or where "
    "its packets do not show the place"
)


@dataclass(frozen=True)
class HostClock:
    """How far the clock of `host` (None: a switch's, or of several hosts) is ahead of the reference.

    `offset_ns` is known within ±`uncertainty_ns`, wherever the host sent or received, and grows by
    `drift_ppm` µs each second.  `corrected`: its times were moved by it.  Hosts of different `group`s
    cannot be compared, since no packets connect them; each group has a reference of its own.  `comparable`
    are those of the group that most hosts of the job are in; `reason` is why another is not.  A clock that
    was set while it was captured was set by `set_ns` (below 0: back; known to twice the uncertainty), between
    packets `set_before` - 1 and `set_before`, from 0, of its file; the offset is then that before.
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
    set_ns: int = 0
    set_before: int | None = None

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
        names = show_first([name(one) for one in some], 1)
        return f"the clock of {names} cannot be compared with the others': {some[0].reason}"

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
        with_clock = {one.host for one in self.hosts}
        needs_others = not with_clock.issuperset(addresses)
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
    """The captures in one time, as far as their clocks are known, and what is known of these.

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
    own_ns = {point: _times(captures, some) for point, some in files.items()}
    settled, reasons = _settled(files, seen, own_ns)
    moved = list(captures)
    hosts = []
    spans = []
    for point, some in sorted(files.items(), key=lambda item: item[1]):
        found = settled[point]
        for file in some if found.is_moved else ():
            packets = captures[file]
            moved[file] = replace(packets, time_ns=found.reference_ns(packets.time_ns))
        hosts.append(
            HostClock(
                host=owner[point],
                files=tuple(captures[file].path.name for file in some),
                offset_ns=found.line.ahead_ns,
                uncertainty_ns=found.uncertainty_ns(own_ns[point]),
                drift_ppm=round(found.line.drift * 1e6, 3),
                corrected=found.is_moved,
                group=found.group,
                comparable=True,
                reason=reasons.get(point, _NO_EXCHANGE),
                set_ns=found.step.set_ns if found.step else 0,
                set_before=found.set_before,
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


@dataclass(frozen=True)
class _Settled:
    """What is known of a point's clock, and whether its times must be moved by that."""

    line: Line
    is_moved: bool
    group: int
    step: ClockStep | None = None
    set_before: int | None = None

    def reference_ns(self, time_ns: Ints) -> Ints:
        if self.step is None:
            return self.line.reference_ns(time_ns)
        parts = time_ns[: self.set_before], time_ns[self.set_before :]
        return np.concatenate(
            [line.reference_ns(part) for line, part in zip((self.line, self.step.after), parts, strict=True)]
        )

    def uncertainty_ns(self, own_ns: Ints) -> int:
        """Of times that are left as they are, the drift is part of what is not known."""
        if self.step is not None:
            return self.step.uncertainty_ns
        left = 0.0 if self.is_moved else abs(self.line.drift) * (int(own_ns.max()) - int(own_ns.min()))
        return self.line.uncertainty_ns + round(left)


def _times(captures: Sequence[Packets], files: Sequence[int]) -> Ints:
    """Of all packets at a point, a file after the other."""
    return np.concatenate([captures[file].time_ns for file in files])


def _was_set_back(own_ns: Ints) -> bool:
    return int(np.diff(own_ns).min(initial=0)) < -DISORDER_NS


def _settled(
    files: Mapping[int, Sequence[int]], seen: Exchanged, own_ns: Mapping[int, Ints]
) -> tuple[dict[int, _Settled], dict[int, str]]:
    """For each point what is known of its clock; why it was left alone, if it was not for lack of packets."""
    nodes = sorted(files)
    begins = {node: int(own_ns[node].min()) for node in nodes}
    # Acknowledgements of data from before that instant are not known again: bounds alone may not show it.
    set_back = {node for node in nodes if len(files[node]) == 1 and _was_set_back(own_ns[node])}
    found: dict[int, _Settled] = {}
    reasons: dict[int, str] = {}
    while left := [node for node in nodes if node not in found]:
        group = len({one.group for one in found.values()})
        alone = [node for node in left if node in reasons]
        steady = [node for node in left if node not in reasons and node not in set_back]
        agreeing = _agreeing(steady or alone[:1] or left[:1], seen, begins)
        # The reference is the agreeing hosts' common time: the others show how far one may be from it.
        settled = {node: Line(begins[node], 0, 0.0, 0) for node in agreeing}
        for node in agreeing:
            bounds = _bounds(node, seen, {other: line for other, line in settled.items() if other != node})
            known = (bounds and fit(bounds, own_ns[node])) or settled[node]
            found[node] = _Settled(known, is_moved=False, group=group)
        while candidates := {
            node: bounds
            for node in left
            if node not in found and node not in reasons
            if (bounds := _bounds(node, seen, settled)) is not None and bounds.is_two_way
        }:
            node = max(candidates, key=lambda one: len(candidates[one].x_ns))
            line = fit(candidates[node], own_ns[node])
            if line is not None and node not in set_back:
                settled[node] = line
                found[node] = _Settled(line, is_moved=True, group=group)
            # A clock that was set does not help to compare others: its times are not in order.
            elif len(files[node]) == 1 and (step := fit_step(candidates[node], own_ns[node])):
                place = step.place(own_ns[node])
                found[node] = _Settled(step.before, is_moved=True, group=group, step=step, set_before=place)
            else:
                reasons[node] = _UNSTEADY
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
    return joined_bounds(parts) if parts else None
