"""Which groups of a schedule get a tree, and how many slots: a switch has so many for all of its trees.

A tree's slots are to it what a window is to TCP: with fewer than fill a round trip its cables run idle, and
more only stand in queues.  Here a round trip is made of the pauses of processes that share the processors,
which are as long at any rate.  So what is wanted is a time, and the slots follow from the slowest cable, as
TCP's buffers do (`emu.network.transport`): the default of 128 at 100 Mb/s.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from controller.aggregation.room import Request, Room, empty_room, nodes_with_room
from controller.aggregation.shape import NoTree
from emu.aggregation.tree import DEFAULT_ELEMENTS, LEAST_SLOTS, SWITCH_SLOTS, Tree
from emu.aggregation.treecheck import check_elements
from emu.fabrics.fabric import Egress, Fabric
from emu.network.transport import longest_round_trip_s
from traces.framing.aggregation import FIRST_PORT
from traces.schedules.schedule import Group, Schedule

WINDOW_S = 0.010
LEAST_WANTED = 32  # fills the hops of a deep tree at any rate, each of which holds a whole frame
MOST_WANTED = SWITCH_SLOTS // 4  # so that at least four trees have what they want
MOST_SLOTS = 65_535  # a flow entry has 16 bits for them
LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Terms:
    """`slots` that a tree wants, None: as `slots_for` says; `elements` in a packet."""

    switch_slots: int = SWITCH_SLOTS
    slots: int | None = None
    elements: int = DEFAULT_ELEMENTS


DEFAULT_TERMS = Terms()


@dataclass(frozen=True)
class Grants:
    """`trees[i]` serves the schedule's i-th group, None: no tree; `refused` has why, for jobs that get none.

    A job is one of `Schedule.jobs`.  It has trees for all its groups or for none.
    """

    trees: tuple[Tree | None, ...]
    refused: Mapping[tuple[int, ...], str]


def granted(fabric: Fabric, placement: Sequence[str], schedule: Schedule, terms: Terms, seed: int) -> Grants:
    """The trees of a schedule whose rank r is on `placement[r]`, served in the order of the jobs' groups.

    Raise ValueError for terms that make no sense.
    """
    _check_terms(terms)
    job_of = {rank: job for job in schedule.jobs for rank in job}
    numbers_of: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for number, (givers, _) in enumerate(schedule.groups):
        numbers_of[job_of[givers[0]]].append(number)
    planter = _Planter(fabric, placement, schedule, terms, seed)
    room = empty_room(fabric, terms.switch_slots, terms.elements)
    trees: dict[int, Tree] = {}
    refused = {}
    for job, numbers in numbers_of.items():
        attempt = room.copied()
        try:
            trees |= {number: planter.plant(number, attempt) for number in numbers}
        except NoTree as error:
            refused[job] = str(error)
        else:
            room = attempt
    return Grants(tuple(trees.get(number) for number in range(len(schedule.groups))), refused)


def group_nbytes(schedule: Schedule) -> Counter[Group]:
    """The bytes of all sums of each group."""
    nbytes: Counter[Group] = Counter()
    for each in schedule.aggregations:
        nbytes[each.givers, each.takers] += schedule.ops[each.op].nbytes
    return nbytes


@dataclass(frozen=True)
class _Planter:
    fabric: Fabric
    placement: Sequence[str]
    schedule: Schedule
    terms: Terms
    seed: int

    @cached_property
    def nbytes(self) -> Counter[Group]:
        return group_nbytes(self.schedule)

    def plant(self, number: int, room: Room) -> Tree:
        """The tree of a group, with its slots taken from the room.  Raise NoTree if there is none."""
        if FIRST_PORT + number > LAST_PORT:
            raise NoTree(f"there are UDP ports for {LAST_PORT - FIRST_PORT + 1:,} trees, this is one more")
        group = self.schedule.groups[number]
        givers, takers = (tuple(self.placement[rank] for rank in ranks) for ranks in group)
        request = Request(givers, takers, self.nbytes[group], LEAST_SLOTS)
        tree = Tree(
            job=number + 1,
            givers=group[0],
            takers=group[1],
            udp_port=FIRST_PORT + number,
            slots=LEAST_SLOTS,
            elements=self.terms.elements,
            nodes=nodes_with_room(self.fabric, request, room, self.seed),
        )
        wanted = slots_for(self.fabric, tree) if self.terms.slots is None else self.terms.slots
        tree = replace(tree, slots=min(wanted, room.most_slots(tree.nodes)))
        room.take(self.fabric, tree, request.nbytes)
        return tree


def slots_for(fabric: Fabric, tree: Tree) -> int:
    """The slots in which the tree's slowest cable sends for WINDOW_S and for what the cables delay on top.

    A power of two; never more than fit an explicit queue, which would drop the others.
    """
    cables = [
        fabric.cables[Egress(node.switch, child.port)] for node in tree.nodes for child in node.children
    ]
    window_s = WINDOW_S + longest_round_trip_s(fabric)
    n_frames = ceil(min(cable.rate_bps for cable in cables) * window_s / 8 / tree.frame_nbytes)
    wanted = min(max(1 << (n_frames - 1).bit_length(), LEAST_WANTED), MOST_WANTED)
    queues = [cable.queue_nbytes for cable in cables if cable.queue_nbytes is not None]
    fitting = min(queues, default=MOST_WANTED * tree.frame_nbytes) // tree.frame_nbytes
    return max(LEAST_SLOTS, min(wanted, fitting))


def _check_terms(terms: Terms) -> None:
    check_elements(terms.elements)
    if terms.slots is not None and not LEAST_SLOTS <= terms.slots <= MOST_SLOTS:
        raise ValueError(f"a tree has {LEAST_SLOTS} to {MOST_SLOTS:,} slots, got {terms.slots}")
    if not 0 <= terms.switch_slots <= MOST_SLOTS:
        raise ValueError(f"a switch has 0 to {MOST_SLOTS:,} slots, got {terms.switch_slots}")
