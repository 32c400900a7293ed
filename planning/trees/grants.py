"""Which reduce groups of a schedule get a tree, and how many aggregation slots: trees share a switch's slots.

A tree's slots are to it what a window is to TCP: with fewer than fill a round trip its cables run idle, and
more only wait in queues.  Here a round trip is made of the pauses of processes that share the processors,
which are as long at any rate.  So what is wanted is a time, and the slots follow from the slowest cable, as
TCP's buffers do (`planning.transport`): the default of 128 at 100 Mb/s.

Where a plan has failures, a tree must find its slots elsewhere when a cable of it is down.  If more jobs can
have trees with fewer slots for all, they get fewer.  A job whose tree has no place at some time even so gets
none.  Trees are not led past cables because these will fail: what happens then is what such a run is for.

Trees that failures in the plan would leave without a place are found before anything runs.  What the
controller does about a failure depends on what it did before, and on which of two failures it hears of
first.  But where a tree finds no room it tries once more as if all cables that are down had failed at once
(`controller.intent`), and that depends on nothing else: so it is enough to look at that, for each set of
cables that are down together.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from gradwire.planning.fabrics.fabric import Egress, Fabric, Link
from gradwire.planning.failures import Failure, cable_name, outages
from gradwire.planning.transport import longest_round_trip_s
from gradwire.planning.trees.capacity import (
    Ground,
    Room,
    SlotRequest,
    empty_room,
    nodes_with_room,
    reduce_group_nbytes,
)
from gradwire.planning.trees.relocation import cables, lacks_room, moved
from gradwire.planning.trees.shape import NoTree
from gradwire.planning.trees.tree import (
    DEFAULT_ELEMENTS,
    LEAST_SLOTS,
    MAX_SWITCH_SLOTS,
    SWITCH_SLOTS,
    Tree,
    child_ports,
)
from gradwire.planning.trees.treecheck import check_elements
from gradwire.traces.framing.aggregation import FIRST_PORT
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.units import show_first

WINDOW_S = 0.010
LEAST_WANTED = 32  # fills the hops of a deep tree at any rate, each of which holds a whole frame
MOST_WANTED = SWITCH_SLOTS // 4  # so that at least four trees have what they want
LAST_PORT = 65_535

_Job = tuple[int, ...]
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Stage:
    """From `due_ns` on the cables at these ports are down, and no others."""

    due_ns: int
    ports: tuple[Egress, ...]
    down: frozenset[Link]


@dataclass(frozen=True, slots=True)
class Terms:
    """`slots` that a tree wants, None: as `slots_for` says; `elements` in a packet.

    `failures` are those of the plan: what is granted must be there in each of them, too.
    """

    switch_slots: int = SWITCH_SLOTS
    slots: int | None = None
    elements: int = DEFAULT_ELEMENTS
    failures: tuple[Failure, ...] = ()


DEFAULT_TERMS = Terms()


@dataclass(frozen=True)
class Grants:
    """`trees[i]` serves the schedule's i-th reduce group, None: no tree; `refused` says why a job has none.

    A job is one of `Schedule.jobs`.  It has trees for all its reduce groups or for none.
    """

    trees: tuple[Tree | None, ...]
    refused: Mapping[_Job, str]


def granted(fabric: Fabric, placement: Sequence[str], schedule: Schedule, terms: Terms, seed: int) -> Grants:
    """The trees of a schedule whose rank r is on `placement[r]`; reduce groups are served in their order.

    Raise ValueError for terms that make no sense.
    """
    _check_terms(fabric, terms)
    ground = Ground(fabric, placement, reduce_group_nbytes(schedule), terms.switch_slots, seed)
    planter = _Planter(ground, schedule, terms)
    at_first = planter.planted(MAX_SWITCH_SLOTS)
    failing = tuple(stages(fabric, terms.failures))
    best = planter.lasting(at_first, failing)
    for most_slots in _fewer(max((tree.slots for tree in at_first.trees if tree), default=0)):
        if len(best.refused) <= len(at_first.refused):
            break
        smaller = planter.lasting(planter.planted(most_slots), failing)
        best = min(smaller, best, key=lambda grants: len(grants.refused))  # the reasons with the fewest slots
    return best


def _fewer(slots: int) -> Iterator[int]:
    """Half of `slots`, and so on to the least that a tree can have."""
    while slots > LEAST_SLOTS:
        slots = max(LEAST_SLOTS, slots // 2)
        yield slots


@dataclass(frozen=True)
class _Planter:
    ground: Ground
    schedule: Schedule
    terms: Terms

    def planted(self, most_slots: int) -> Grants:
        """As many jobs as there is room for while nothing fails; no tree has more than `most_slots`."""
        numbers_of: defaultdict[_Job, list[int]] = defaultdict(list)
        for number, job in enumerate(self._job_of_reduce_group()):
            numbers_of[job].append(number)
        room = empty_room(self.ground.fabric, self.terms.switch_slots, self.terms.elements)
        trees: dict[int, Tree] = {}
        refused = {}
        for job, numbers in numbers_of.items():
            attempt = room.copied()
            try:
                trees |= {number: self._plant(number, attempt, most_slots) for number in numbers}
            except NoTree as error:
                refused[job] = str(error)
            else:
                room = attempt
        return Grants(tuple(trees.get(number) for number in range(len(self.schedule.groups))), refused)

    def lasting(self, grants: Grants, failing: Sequence[Stage]) -> Grants:
        """The grants without the jobs that lose a tree at any of these stages."""
        jobs = self._job_of_reduce_group()
        while lost := first_lost(self.ground, [tree for tree in grants.trees if tree], failing):
            tree, reason = lost
            job = jobs[grants.trees.index(tree)]
            pairs = zip(jobs, grants.trees, strict=True)
            left = tuple(None if each == job else tree for each, tree in pairs)
            grants = Grants(left, {**grants.refused, job: reason})
        return grants

    def _job_of_reduce_group(self) -> list[_Job]:
        job_of = {rank: job for job in self.schedule.jobs for rank in job}
        return [job_of[givers[0]] for givers, _ in self.schedule.groups]

    def _plant(self, number: int, room: Room, most_slots: int) -> Tree:
        """The tree of a reduce group, with its slots taken from the room.  Raise NoTree if there is none."""
        ground = self.ground
        if FIRST_PORT + number > LAST_PORT:
            raise NoTree(
                f"there are UDP ports for {LAST_PORT - FIRST_PORT + 1:,} trees, and this plan needs more"
            )
        reduce_group = self.schedule.groups[number]
        givers, takers = (tuple(ground.placement[rank] for rank in ranks) for ranks in reduce_group)
        request = SlotRequest(givers, takers, ground.nbytes[reduce_group], LEAST_SLOTS)
        tree = Tree(
            job=number + 1,
            givers=reduce_group[0],
            takers=reduce_group[1],
            udp_port=FIRST_PORT + number,
            slots=LEAST_SLOTS,
            elements=self.terms.elements,
            nodes=nodes_with_room(ground.fabric, request, room, ground.seed),
        )
        wanted = slots_for(ground.fabric, tree) if self.terms.slots is None else self.terms.slots
        tree = replace(tree, slots=min(wanted, most_slots, room.most_slots(tree.nodes)))
        room.take(ground.fabric, tree, request.nbytes)
        return tree


def slots_for(fabric: Fabric, tree: Tree) -> int:
    """The slots in which the tree's slowest cable sends for WINDOW_S and for what the cables delay on top.

    A power of two; never more than fit an explicit queue, which would drop the others.
    """
    cables = [fabric.cables[port] for port in child_ports(tree)]
    window_s = WINDOW_S + longest_round_trip_s(fabric)
    n_frames = ceil(min(cable.rate_bps for cable in cables) * window_s / 8 / tree.frame_nbytes)
    wanted = min(max(1 << (n_frames - 1).bit_length(), LEAST_WANTED), MOST_WANTED)
    queues = [cable.queue_nbytes for cable in cables if cable.queue_nbytes is not None]
    fitting = min(queues, default=MOST_WANTED * tree.frame_nbytes) // tree.frame_nbytes
    return max(LEAST_SLOTS, min(wanted, fitting))


def _check_terms(fabric: Fabric, terms: Terms) -> None:
    check_elements(fabric, terms.elements)
    if terms.slots is not None and not LEAST_SLOTS <= terms.slots <= MAX_SWITCH_SLOTS:
        raise ValueError(f"a tree needs {LEAST_SLOTS} to {MAX_SWITCH_SLOTS:,} slots, got {terms.slots}")
    if not 0 <= terms.switch_slots <= MAX_SWITCH_SLOTS:
        raise ValueError(f"a switch can have 0 to {MAX_SWITCH_SLOTS:,} slots, got {terms.switch_slots}")


def stages(fabric: Fabric, failures: Sequence[Failure]) -> Iterator[Stage]:
    """Each set of cables that are down together, once; those of hosts are left out."""
    inner = frozenset(fabric.inner_links)
    seen: set[Collection[Link]] = {frozenset()}
    for due_ns, failed in outages(fabric, failures):
        ports = tuple(port for port in failed if fabric.cables[port] in inner)
        down = frozenset(fabric.cables[port] for port in ports)
        if down not in seen:
            seen.add(down)
            yield Stage(due_ns, ports, down)


def first_lost(ground: Ground, trees: Sequence[Tree], failing: Sequence[Stage]) -> tuple[Tree, str] | None:
    """The first tree for which there is no room at some stage although cables join its hosts, and why."""
    used = {cable for tree in trees for cable in cables(ground.fabric, tree)}
    for stage in failing:
        if not used.isdisjoint(stage.down):
            for tree, outcome in zip(trees, moved(ground, trees, stage.down), strict=True):
                if lacks_room(outcome):
                    return tree, f"{_stage_words(ground.fabric, stage)} {outcome}"
    return None


def _stage_words(fabric: Fabric, stage: Stage) -> str:
    names = [cable_name(fabric, port) for port in stage.ports]
    return f"at {stage.due_ns / 1e9:g} s, with {show_first(names, _SHOWN)} down,"
