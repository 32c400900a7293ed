"""Plans whose sums are made by switches, with trees written by hand."""

from collections.abc import Sequence
from dataclasses import replace

from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.losses import parse_loss
from gradwire.planning.plan import Flow, Plan, Prediction
from gradwire.planning.transport import fabric_transport
from gradwire.planning.trees.tree import Child, Node, Tree
from gradwire.traces.framing.aggregation import FIRST_PORT
from gradwire.traces.schedules.schedule import Aggregation, Gate, Op, Schedule
from tests.made_plans import unchecked_plan

ELEMENTS = 64
TWO_LEVELS = "leaf-spine:leaves=2,spines=1,hosts=2"


def star_tree(
    members: Sequence[int],
    server: int | None = None,
    slots: int = 8,
    number: int = 0,
    elements: int = ELEMENTS,
) -> Tree:
    """At `star:hosts=N`'s one switch, where rank r is on host r: all give and take.

    With a server all others give and it alone takes.
    """
    givers = tuple(rank for rank in members if rank != server)
    takers = tuple(members) if server is None else (server,)
    children = tuple(Child(rank + 1, rank in givers, rank in takers) for rank in members)
    nodes = (Node("switch0", children),)
    return Tree(number + 1, givers, takers, FIRST_PORT + number, slots, elements, nodes)


def two_level_tree(slots: int = 8, elements: int = ELEMENTS) -> Tree:
    """In TWO_LEVELS: spine0 above leaf0 (h0, h1) and leaf1 (h2, h3), whose third ports lead up."""
    below = (Child(1), Child(2))
    nodes = (
        Node("spine0", (Child(1), Child(2))),
        Node("leaf0", below, parent_port=3),
        Node("leaf1", below, parent_port=3),
    )
    ranks = (0, 1, 2, 3)
    return Tree(1, ranks, ranks, FIRST_PORT, slots, elements, nodes)


def summed(tree: Tree, n_ranks: int, sizes: Sequence[int], gap_ns: int = 0) -> Schedule:
    """Operations of this many bytes, one after the other, that the tree's switches do alone."""
    everybody = tree.givers == tree.takers
    root = 0 if everybody else tree.takers[0]
    return Schedule.of(
        n_ranks,
        tuple(
            Op(
                "allreduce" if everybody else "reduce",
                nbytes,
                tag=number,
                root=root,
                members=tree.members,
                givers=tree.givers,
            )
            for number, nbytes in enumerate(sizes)
        ),
        (),
        tuple(Gate(op, rank, (op - 1,), gap_ns) for op in range(1, len(sizes)) for rank in tree.members),
        tuple(Aggregation(op, tree.givers, tree.takers) for op in range(len(sizes))),
    )


def tree_plan(spec: str, schedule: Schedule, trees: Sequence[Tree], loss: str = "0%") -> Plan:
    """Rank r is on the fabric's r-th host."""
    fabric = parse_fabric(spec)
    return Plan(
        fabric=fabric,
        algorithm="ina",
        placement_name="linear",
        placement=fabric.hosts[: schedule.n_ranks],
        routes="ecmp",
        seed=1,
        schedule=schedule,
        flows=_flows(spec, schedule),
        transport=fabric_transport(fabric),
        prediction=Prediction(0.1, 0.1),
        trees=tuple(trees),
        losses=parse_loss(loss, fabric),
    )


def _flows(spec: str, schedule: Schedule) -> tuple[Flow, ...]:
    """Those of the schedule's sends."""
    return unchecked_plan(spec, replace(schedule, aggregations=()), seed=1).flows if schedule.sends else ()
