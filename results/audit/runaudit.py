"""Compares a run's folder with its plan: counters at the end, and the ports' counters over time."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pydantic import TypeAdapter

from gradwire.controller.counters import load_counters
from gradwire.emu.events import OF_AN_AGGREGATION, Events, load_events
from gradwire.emu.options import RunOptions
from gradwire.emu.records import CONTROL_FILE, Repeat
from gradwire.planning.fabrics.fabric import Egress, interface, link_name
from gradwire.planning.model.wire import HEADERS_NBYTES
from gradwire.planning.plan import ADAPTIVE, Plan
from gradwire.planning.runfiles import read_json, read_table
from gradwire.results.audit.agreement import Agreement, agreement, strayed
from gradwire.results.audit.disagreements import Finding
from gradwire.results.audit.treecounts import Again, due_packets
from gradwire.results.audit.windows import Moments, Readings, Window, windows
from gradwire.results.outages import control_lines
from gradwire.traces.units import show_count, show_nbytes

MOVES_PER_FAILURE = 4
MAX_FOREIGN = 0.02  # of what a link was to carry, or of the mean link if that is more
_OPTIONS = TypeAdapter(RunOptions)
OVS_LATE_S = 1.0  # twice max-revalidator, how often it brings counts home (ovs-vswitchd.conf.db(5))


@dataclass(frozen=True)
class RunAudit:
    """`windows` are of one repeat; `resolution_s` is the usual time between two readings of the ports."""

    plan: Plan
    agreement: Agreement
    repeats: int
    repeat: int
    windows: tuple[Window, ...]
    resolution_s: float | None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*self.agreement.findings, *_window_findings(self.plan, self.windows))

    @property
    def agrees(self) -> bool:
        return not self.findings

    @property
    def foreign(self) -> tuple[str, ...]:
        """Why the run is not the plan's alone: a link carried much that nobody planned; empty if none did."""
        planned = sum(link.expected_nbytes for link in self.agreement.held) / max(1, len(self.agreement.held))
        over = [
            (link.off_nbytes - link.spare_nbytes, link)
            for link in self.agreement.held
            if link.off_nbytes - link.spare_nbytes > MAX_FOREIGN * max(planned, link.expected_nbytes)
        ]
        if not over or self.agreement.moved:
            return ()
        nbytes, worst = max(over, key=lambda pair: pair[0])
        name = link_name(self.plan.fabric, worst.egress)
        return (f"{name} carried {show_nbytes(nbytes)} that are not the plan's: keep other traffic off",)

    @property
    def sentence(self) -> str:
        """Whether the counters agree with the plan, in one sentence."""
        if self.findings:
            count = len(self.findings)
            more = f" and {show_count(count - 1, 'more finding')}" if count > 1 else ""
            return f"Counted bytes do not agree with the plan: {self.findings[0]}{more}."
        n_links = len(self.agreement.held)
        if self.agreement.moved:
            text = f"Counted bytes agree with the plan on the hosts' {n_links} links"
            moved = len({flow for flow, _ in strayed(self.plan, self.agreement)})
            text += f"; between switches flows could move, and {moved or 'none'} did"
        else:
            text = f"Counted bytes agree with the plan on all {n_links} links{self._flows()}"
        return f"{text}{self._sums()}; {self._farthest()}."

    def _flows(self) -> str:
        n_flows = len(self.agreement.flows)
        if not n_flows:
            return ""
        return f", and of all {n_flows} flows at every switch of their paths and nowhere else"

    def _sums(self) -> str:
        """What of the trees was held, and how many packets more there were for something sent again."""
        sums = [one for one in self.agreement.sums if one.counted]
        if not sums:
            return ""
        n_trees = len(self.plan.trees)
        trees = "the tree at each of its" if n_trees == 1 else f"all {n_trees} trees at each of their"
        more = sum(one.counted.packets - one.expected.packets for one in sums if one.counted)
        exactly = f"{more:,} packets more, for what was sent again" if more else "to the packet"
        return f", and of {trees} switches, {exactly}"

    def _farthest(self) -> str:
        worst = self.agreement.worst
        if worst is None or not worst.off_nbytes:
            return "to the byte"
        what = "more, sent again or in TCP's options" if worst.off_nbytes > 0 else "not yet counted"
        name = link_name(self.plan.fabric, worst.egress)
        return f"farthest: {name}, {show_nbytes(abs(worst.off_nbytes))} {what}"


def middle(repeats: Sequence[Repeat]) -> int:
    """The number of the undisturbed repeat with the median time, of two the faster."""
    if not repeats:
        raise ValueError("no repeat finished")
    good = [number for number, repeat in enumerate(repeats) if repeat.counts]
    order = sorted(good or range(len(repeats)), key=lambda number: repeats[number].time_s)
    return order[(len(order) - 1) // 2]


def audit_run(folder: Path, plan: Plan, repeats: Sequence[Repeat], number: int) -> RunAudit | None:
    """Compare a run's folder with its plan; phases are looked at in repeat `number`.

    None for a folder without the switches' counters.  Raise OSError, or ValueError for files that cannot be
    used.
    """
    if not (folder / "switches.json").exists():
        return None
    moved = plan.flows_may_move
    resent = [sum(counts) for counts in zip(*(repeat.retransmits for repeat in repeats), strict=True)]
    compared = agreement(
        plan,
        load_counters(folder / "switches.json"),
        resent,
        len(repeats),
        late_s=OVS_LATE_S if _switch(folder) == "ovs" else 0.0,
        moved=moved,
        n_moves=_n_moves(folder / CONTROL_FILE, plan, len(repeats)),
        again=again_of(plan, repeats),
    )
    readings = {} if moved else _readings(folder / "links.parquet", plan, number)
    moments = _moments(folder, plan, number) if readings else {}
    whole = len(moments) == len(plan.schedule.sends) + len(plan.schedule.aggregations)
    resent_in_repeat, loads = repeats[number].retransmits, compared.of_trees
    phase_windows = tuple(windows(plan, moments, readings, resent_in_repeat, loads)) if whole else ()
    return RunAudit(plan, compared, len(repeats), number, phase_windows, _resolution_s(readings))


def again_of(plan: Plan, repeats: Sequence[Repeat]) -> Again:
    """What the ranks' workers say that they sent, and got, beyond what their sums need."""
    if not plan.trees:
        return Again()
    sent, received = [0] * plan.n_ranks, [0] * plan.n_ranks
    for repeat in repeats:
        for rank, figures in enumerate(repeat.aggregated):
            sent[rank] += figures.sent + figures.retransmitted
            received[rank] += figures.received + figures.duplicates + figures.statuses
    due = [due_packets(plan, rank, len(repeats)) for rank in range(plan.n_ranks)]
    return Again(
        [max(0, counted - wanted) for counted, wanted in zip(sent, due, strict=True)],
        [max(0, counted - wanted) for counted, wanted in zip(received, due, strict=True)],
    )


def _window_findings(plan: Plan, some: Sequence[Window]) -> list[Finding]:
    return [
        Finding(
            "less" if window.counted_nbytes < window.least_nbytes else "more",
            f"{link_name(plan.fabric, window.egress)} in phase {window.key}",
            f"{window.counted_nbytes} bytes passed, not {window.least_nbytes} to {window.most_nbytes}",
        )
        for window in some
        if not window.agrees
    ]


def _n_moves(path: Path, plan: Plan, repeats: int) -> int:
    """How often a flow can have gone from path to path in a run.

    In each repeat, when a cable fails, the switch's group leads the flow to its backup and then the
    controller to its new path; when the cable is back, the same again.  Adaptive routes move a flow
    at most once for each `rebalanced` in the control log, and lead it back after the repeat.
    """
    n_moves = MOVES_PER_FAILURE * len(plan.failures) * repeats
    if plan.routes == ADAPTIVE:
        n_moves += repeats + sum(line.event == "rebalanced" for line in control_lines(path))
    return n_moves


def _switch(folder: Path) -> str:
    path = folder / "options.json"
    return read_json(path, _OPTIONS).switch if path.exists() else "gradwire"


def _readings(path: Path, plan: Plan, repeat: int) -> dict[Egress, Readings]:
    """Of each switch port; empty without the file."""
    if not path.exists():
        return {}
    columns = ["time_ns", "interface", "tx_bytes", "tx_packets"]
    table = read_table(path, columns, repeat).sort_by("time_ns")
    names = {interface(egress.node, egress.port): egress for egress in plan.fabric.peers}
    times: dict[Egress, list[int]] = {}
    counts: dict[Egress, list[int]] = {}
    for time_ns, name, nbytes, packets in zip(*(table[name].to_pylist() for name in columns), strict=True):
        if (egress := names.get(name)) is not None:
            times.setdefault(egress, []).append(time_ns)
            counts.setdefault(egress, []).append(nbytes - HEADERS_NBYTES * packets)
    return {egress: Readings(times[egress], counts[egress]) for egress in times}


def _resolution_s(readings: Mapping[Egress, Readings]) -> float | None:
    for one in readings.values():
        if len(one.times_ns) > 1:
            return median(b - a for a, b in zip(one.times_ns, one.times_ns[1:], strict=False)) / 1e9
    return None


def _moments(folder: Path, plan: Plan, repeat: int) -> dict[int, Moments]:
    """Of each send that was queued and arrived in this repeat; after the sends, of each aggregation that all
    its ranks finished, the moments of all aggregations of its operation together.
    """
    events = load_events(folder, plan, repeat)
    queued, arrived = (events.of(name).send_ns for name in ("queued", "arrived"))
    begun, summed = (_by_operation(events.of(name)) for name in OF_AN_AGGREGATION)
    wanted = Counter[int]()
    for each in plan.schedule.aggregations:
        wanted[each.op] += len(each.members)
    for number, each in enumerate(plan.schedule.aggregations, start=len(plan.schedule.sends)):
        if len(begun[each.op]) == len(summed[each.op]) == wanted[each.op]:
            queued[number], arrived[number] = min(begun[each.op]), max(summed[each.op])
    return {number: Moments(queued[number], arrived[number]) for number in queued.keys() & arrived.keys()}


def _by_operation(events: Events) -> defaultdict[int, list[int]]:
    """When, by operation."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for op, t_ns in zip(events.op.tolist(), events.t_ns.tolist(), strict=True):
        found[op].append(t_ns)
    return found
