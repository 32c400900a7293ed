"""What trees are built on: a fabric with ranks, and the aggregation slots and idle cables left on it."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.plan import Plan
from gradwire.planning.routing.reroute import without
from gradwire.planning.trees.shape import Load, NoTree, tree_nodes
from gradwire.planning.trees.tree import (
    MAX_LARGE_SLOTS,
    MAX_POOLS,
    MAX_SMALL_SLOTS,
    SMALL_ELEMENTS,
    Node,
    Tree,
)
from gradwire.traces.schedules.schedule import ReduceGroup, Schedule


@dataclass
class Room:
    """`slots` by switch, of `switch_slots` each; `all_slots` and `pools` of the switches together.

    A pool are the slots of one tree at one switch.
    """

    switch_slots: int
    slots: dict[str, int]
    all_slots: int
    pools: int
    load: Load

    def copied(self) -> "Room":
        return Room(self.switch_slots, dict(self.slots), self.all_slots, self.pools, self.load.copied())

    def most_slots(self, nodes: Sequence[Node]) -> int:
        """How many slots a tree of these nodes can have."""
        return min(self.all_slots // len(nodes), *(self.slots[node.switch] for node in nodes))

    def take(self, fabric: Fabric, tree: Tree, nbytes: int) -> None:
        """The tree adds up sums of `nbytes` in all."""
        for node in tree.nodes:
            self.slots[node.switch] -= tree.slots
        self.all_slots -= tree.slots * len(tree.nodes)
        self.pools -= len(tree.nodes)
        self.load.add(fabric, tree.nodes, nbytes)


def empty_room(fabric: Fabric, switch_slots: int, elements: int) -> Room:
    """With no tree yet; `elements` are in a packet."""
    return Room(
        switch_slots,
        slots=dict.fromkeys(fabric.switches, switch_slots),
        all_slots=MAX_SMALL_SLOTS if elements <= SMALL_ELEMENTS else MAX_LARGE_SLOTS,
        pools=MAX_POOLS,
        load=Load(),
    )


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """A tree for hosts that give and hosts that take, for sums of `nbytes` in all, of `slots` at least."""

    givers: tuple[str, ...]
    takers: tuple[str, ...]
    nbytes: int
    slots: int


def nodes_with_room(fabric: Fabric, request: SlotRequest, room: Room, seed: int) -> tuple[Node, ...]:
    """The best tree past all switches that have too few slots left.  Raise NoTree if there is none."""
    full = {switch for switch, left in room.slots.items() if left < request.slots}
    nodes = _past(fabric, full, request, room, seed)
    short = next((node.switch for node in nodes if node.switch in full), None)
    if short is not None:
        left = f"{room.slots[short]:,} of {room.switch_slots:,} slots"
        raise NoTree(f"{short} has {left} left, {request.slots:,} are needed")
    if request.slots * len(nodes) > room.all_slots or len(nodes) > room.pools:
        raise NoTree(
            f"all switches together have {room.all_slots:,} slots in {room.pools:,} pools left, "
            f"and each of {len(nodes)} switches needs {request.slots:,}"
        )
    return nodes


def _past(
    fabric: Fabric, full: Collection[str], request: SlotRequest, room: Room, seed: int
) -> tuple[Node, ...]:
    """The best tree past these switches, or else the best one through them."""
    shut = [link for link in fabric.inner_links if link.a in full or link.b in full]
    asked = request.givers, request.takers, room.load, request.nbytes, seed
    try:
        return tree_nodes(without(fabric, shut) if shut else fabric, *asked)
    except NoTree:
        if not shut:
            raise
    return tree_nodes(fabric, *asked)


@dataclass(frozen=True, slots=True)
class Ground:
    """Rank r is on `placement[r]`; `nbytes` are those of all sums of a reduce group.

    Each switch has `switch_slots` aggregation slots.
    """

    fabric: Fabric
    placement: Sequence[str]
    nbytes: Mapping[ReduceGroup, int]
    switch_slots: int
    seed: int


def ground_of(plan: Plan) -> Ground:
    """What the plan's trees are built on."""
    return Ground(
        plan.fabric, plan.placement, reduce_group_nbytes(plan.schedule), plan.switch_slots, plan.seed
    )


def reduce_group_nbytes(schedule: Schedule) -> Counter[ReduceGroup]:
    """The bytes of all sums of each reduce group."""
    nbytes: Counter[ReduceGroup] = Counter()
    for each in schedule.aggregations:
        nbytes[each.givers, each.takers] += schedule.ops[each.op].nbytes
    return nbytes
