"""What a plan's trees should put on their cables, and what the switches counted of it.

The plan says it to the packet.  Each chunk of a tree's stream (see docs/aggregation.md) goes up once on every
cable of the tree and comes down once; a stream has one chunk when the run begins, and in each repeat, for
each sum, one for the exponents and then those with the elements.  A switch adds each child's once, whatever
gets lost.  More packets are possible by what was sent again: the ranks' workers counted what they repeated,
and the switches what they answered.  A host that has waited long asks its switch with a bare packet of
another epoch whether the tree still exists; the switch counts these.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradwire.controller.counters import Counters, WireCount
from gradwire.planning.fabrics.fabric import HOST_PORT, Egress
from gradwire.planning.model.wire import HEADERS_NBYTES
from gradwire.planning.openflow.extension import JobCounts
from gradwire.planning.plan import Plan
from gradwire.planning.trees.tree import Node, Tree
from gradwire.traces.framing.aggregation import ELEMENT_NBYTES

STREAM_BEGINS = 1  # chunks that say where a stream begins


@dataclass(frozen=True, slots=True)
class Again:
    """Packets of each rank beyond what its sums need: contributions that it sent, results that it got."""

    sent: Sequence[int] = ()
    received: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class SumCount:
    """What came in for a tree's sums at a switch through the cable from `egress`, a child's or the parent's.

    `expected` is by the plan if nothing is sent again; `again` is how many packets were, at most.  `counted`
    None: the switch has no rule for it.  `tree_index` is the position of the tree in the plan.
    """

    tree_index: int
    egress: Egress
    expected: WireCount
    again: int
    counted: WireCount | None


@dataclass(frozen=True, slots=True)
class TreeLoad:
    """What trees put on one direction of a cable: payload by the plan, and what it may be more."""

    payload_nbytes: int = 0
    spare_nbytes: int = 0

    def __add__(self, other: "TreeLoad") -> "TreeLoad":
        return TreeLoad(self.payload_nbytes + other.payload_nbytes, self.spare_nbytes + other.spare_nbytes)


def due(plan: Plan, tree_index: int, repeats: int) -> WireCount:
    """Packets of the stream of a tree on each cable, and their bytes where they carry elements."""
    tree, schedule = plan.trees[tree_index], plan.schedule
    sizes = [
        schedule.ops[each.op].nbytes
        for each in schedule.aggregations
        if (each.givers, each.takers) == schedule.groups[tree_index]
    ]
    packets = STREAM_BEGINS + repeats * sum(1 + tree.n_chunks(nbytes) for nbytes in sizes)
    return WireCount(packets, packets * HEADERS_NBYTES + repeats * sum(sizes))


def due_packets(plan: Plan, rank: int, repeats: int) -> int:
    """Packets that a rank sends, and gets, for all its sums if none is sent again."""
    return sum(
        due(plan, tree_index, repeats).packets
        for tree_index, tree in enumerate(plan.trees)
        if rank in tree.members
    )


def plan_pools(plan: Plan, counters: Counters) -> Iterator[tuple[Node, JobCounts]]:
    """The nodes of the plan's trees that did not move, with what their switches counted for them."""
    for tree in plan.trees:
        for node in tree.nodes:
            if (pool := pool_of(tree, node.switch, counters)) is not None:
                yield node, pool


@dataclass(frozen=True, slots=True)
class Joints:
    """One tree's cables: what its switches counted, and what they should have."""

    plan: Plan
    counters: Counters
    again: Again
    tree_index: int
    due: WireCount

    @property
    def tree(self) -> Tree:
        return self.plan.trees[self.tree_index]

    def pool(self, switch: str) -> JobCounts | None:
        return pool_of(self.tree, switch, self.counters)

    def expected(self, *, whole: bool) -> WireCount:
        """On a cable whose packets carry elements, or none."""
        return self.due if whole else WireCount(self.due.packets, self.due.packets * HEADERS_NBYTES)

    def sums(self, node: Node) -> Iterator[SumCount]:
        """What came in at the node: its children's contributions, and what its parent sent."""
        for child in node.children:
            again = self._sent_again(node, child.port) + self._asked(node, child.port)
            yield self._sum(Egress(node.switch, child.port), again, child.gives)
        if node.parent_port is not None:
            port = Egress(node.switch, node.parent_port)
            takes = any(child.takes for child in node.children)
            yield self._sum(port, self._answered(self.plan.fabric.peers[port].node), takes)

    def _sum(self, port: Egress, again: int, whole: bool) -> SumCount:
        counted = self.counters.sums.get((port, self.tree.udp_port))
        return SumCount(
            self.tree_index, self.plan.fabric.peers[port], self.expected(whole=whole), again, counted
        )

    def loads(self, node: Node) -> Iterator[tuple[Egress, TreeLoad]]:
        """On the cables to the node's children, both ways."""
        for child in node.children:
            down = Egress(node.switch, child.port)
            up = self.plan.fabric.peers[down]
            answered = self._answered(node.switch)
            if self.plan.failures and up.port == HOST_PORT:
                answered = self._of_host(up, self.again.received)
            yield up, self._load(self._sent_again(node, child.port), child.gives)
            yield down, self._load(answered, child.takes)

    def _load(self, again: int, whole: bool) -> TreeLoad:
        if not whole:
            return TreeLoad()
        payload = self.due.nbytes - self.due.packets * HEADERS_NBYTES
        return TreeLoad(payload, again * self.tree.elements * ELEMENT_NBYTES)

    def _sent_again(self, node: Node, port: int) -> int:
        """Contributions beyond the due ones that a child has sent, at most."""
        child = self.plan.fabric.peers[Egress(node.switch, port)]
        if self.is_host(node, port):
            return self._of_host(child, self.again.sent)
        pool = self.pool(child.node)
        return max(0, pool.counts["partials"] - self.due.packets) if pool else 0

    def _asked(self, node: Node, port: int) -> int:
        """Bare packets by which a host asks whether the tree still exists, at most."""
        pool = self.pool(node.switch) if self.is_host(node, port) else None
        return pool.counts["other_epoch"] if pool else 0

    def is_host(self, node: Node, port: int) -> bool:
        """Whether the port leads to a host."""
        return self.plan.fabric.peers[Egress(node.switch, port)].port == HOST_PORT

    def _of_host(self, host: Egress, packets: Sequence[int]) -> int:
        return packets[self.plan.placement.index(host.node)] if packets else 0

    def _answered(self, switch: str) -> int:
        """Packets beyond the due ones that a switch has sent to any one child, at most."""
        pool = self.pool(switch)
        if pool is None:
            return 0
        results = pool.counts["results"] - pool.n_children * self.due.packets
        return max(0, results) + pool.counts["statuses"]


def pool_of(tree: Tree, switch: str, counters: Counters) -> JobCounts | None:
    """None if the switch has not counted the tree, or only what it became when it moved."""
    pool = counters.pools.get((switch, tree.job))
    return pool if pool is not None and pool.epoch == tree.epoch else None
