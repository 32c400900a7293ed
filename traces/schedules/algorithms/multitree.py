"""MultiTree: an allreduce along as many spanning trees as ranks, grown together for one network.

Huang, Majumder, Kim, Muzahid, Yum, Kim, "Communication Algorithm-Architecture Co-Design for Distributed Deep
Learning", ISCA 2021.  Each rank is the root of a tree that carries one p-th of the buffer.  In a step of the
construction no link is taken more often than it can carry, so the schedule meets no contention.
"""

from collections import defaultdict, deque
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from gradwire.traces.schedules.algorithm import check_ranks
from gradwire.traces.schedules.algorithms.graph import Graph
from gradwire.traces.schedules.algorithms.steps import Steps, Transfer
from gradwire.traces.schedules.kinds import chunk_starts
from gradwire.traces.schedules.sends import Send

Free = dict[tuple[str, str], int]
"""How many more messages each link carries in this step."""


@dataclass(frozen=True, slots=True)
class Edge:
    """In step `step` downwards `parent` hands the chunk of `root` to `child`; `path` are all nodes passed."""

    root: int
    parent: int
    child: int
    step: int
    path: tuple[str, ...]


@dataclass(frozen=True)
class Trees:
    """The trees of all roots, edges in the order in which they were added."""

    n_ranks: int
    edges: tuple[Edge, ...]

    @cached_property
    def n_steps(self) -> int:
        """Steps of one direction, the paper's tau."""
        return max(edge.step for edge in self.edges) + 1

    @cached_property
    def depth(self) -> int:
        """Edges from a root to the rank farthest from it."""
        below = {(root, root): 0 for root in range(self.n_ranks)}
        for edge in self.edges:
            below[edge.root, edge.child] = below[edge.root, edge.parent] + 1
        return max(below.values())


def multitree(graph: Graph, nbytes: int, *, reference: bool = False) -> list[Send]:
    """Reduce-scatter up the trees of `grow`, then all-gather down, in 2 tau steps.

    Each rank sends (p-1)/p S bytes up and is sent as many down.  What goes down in step t of tau goes up in
    step tau-1-t.  No link is shared while ranks keep to these steps, as the paper's network interfaces do.
    """
    trees = grow(graph, reference=reference)
    cut = chunk_starts(nbytes, trees.n_ranks)
    at: defaultdict[int, list[Edge]] = defaultdict(list)
    for edge in trees.edges:
        at[edge.step].append(edge)
    steps = Steps()
    into: defaultdict[tuple[int, int], tuple[int, ...]] = defaultdict(tuple)  # by root and rank
    for step in reversed(range(trees.n_steps)):
        _step(steps, [(edge.root, edge.child, edge.parent) for edge in at[step]], cut, into, reduce=True)
    into = defaultdict(tuple, {key: ids for key, ids in into.items() if key[0] == key[1]})
    for step in range(trees.n_steps):
        _step(steps, [(edge.root, edge.parent, edge.child) for edge in at[step]], cut, into, reduce=False)
    return steps.made


def _step(
    steps: Steps,
    gives: list[tuple[int, int, int]],
    cut: list[int],
    into: defaultdict[tuple[int, int], tuple[int, ...]],
    *,
    reduce: bool,
) -> None:
    """A step of (root, source, destination); `into` has what each rank was sent of each root's chunk."""
    made = steps.step(
        [
            Transfer(src, dst, cut[root], cut[root + 1] - cut[root], into[root, src])
            for root, src, dst in gives
        ],
        reduce=reduce,
    )
    for (root, _, dst), number in zip(gives, made, strict=True):
        if number is not None:
            into[root, dst] = (*into[root, dst], number)


def multitree_s(trees: Trees, nbytes: int, alpha: float, beta: float) -> float:
    """T = 2 (tau S/p beta + D alpha): only hops that depend on each other pay alpha, and there are D.

    Derived from the paper's schedule; `beta` is of a link that carries one message a step.
    """
    return 2 * (trees.n_steps * nbytes / trees.n_ranks * beta + trees.depth * alpha)


def grow(graph: Graph, *, reference: bool = False) -> Trees:
    """The paper's construction: in each step every tree in turn takes one more rank, until no link is left.

    A parent is a rank that had joined before this step, those that joined first are asked first; its child is
    the nearest rank that the tree does not have.  The authors' simulator (`reference`) ends a step when
    the last tree takes nothing in its turn, although others could go on; that costs a mesh some steps.
    Under one switch tau is p-1 for powers of two only: the first child that is free leaves others without.
    """
    check_ranks("MultiTree", graph.n_ranks)
    search = _Search(graph)
    trees = [[root] for root in range(graph.n_ranks)]
    edges: list[Edge] = []
    step = 0
    while any(len(tree) < graph.n_ranks for tree in trees):
        n_before = len(edges)
        free = dict(graph.capacity)
        parents = [tuple(tree) for tree in trees]
        goes_on = True
        while goes_on:
            goes_on = False
            for root, tree in enumerate(trees):
                edge = search.edge(free, root, parents[root], tree, step)
                if edge is not None:
                    tree.append(edge.child)
                    edges.append(edge)
                goes_on = edge is not None or (goes_on and not reference)
        if len(edges) == n_before:
            raise ValueError(search.refusal(trees))
        step += 1
    return Trees(graph.n_ranks, tuple(edges))


class _Search:
    """Ways over links that are free.

    They pass through nodes without hosts only, apart from the first and the last: where switches that have
    hosts are passed as well, the trees get in each other's way.
    """

    def __init__(self, graph: Graph) -> None:
        hosts = set(graph.hosts)
        self._graph = graph
        self._rank = {host: rank for rank, host in enumerate(graph.ranks)}
        self._ranks_beside: dict[str, list[str]] = {node: [] for node in graph.nodes}
        self._inner_beside: dict[str, list[str]] = {node: [] for node in graph.nodes}
        for a, b in graph.capacity:
            if b in self._rank:
                self._ranks_beside[a].append(b)
            elif b not in hosts:
                self._inner_beside[a].append(b)
        self._has_hosts = {a for a, b in graph.capacity if b in hosts}

    def edge(
        self, free: Free, root: int, parents: Collection[int], tree: Collection[int], step: int
    ) -> Edge | None:
        """The tree's next edge, whose links are taken from those that are free."""
        joined = set(tree)
        if len(joined) == self._graph.n_ranks:
            return None
        for parent in parents:
            path = self._path(free, self._graph.ranks[parent], joined)
            if path:
                for link in pairwise(path):
                    free[link] -= 1
                return Edge(root, parent, self._rank[path[-1]], step, path)
        return None

    def _path(self, free: Free, start: str, joined: Collection[int]) -> tuple[str, ...]:
        """From a host to the nearest of a rank that has not joined; empty if there is none."""
        paths: deque[tuple[str, ...]] = deque([(start,)])
        seen = {start}
        while paths:
            path = paths.popleft()
            here = path[-1]
            for host in self._ranks_beside[here]:
                if free[here, host] and self._rank[host] not in joined:
                    return (*path, host)
            if len(path) > 2 and here in self._has_hosts:
                continue
            for node in self._inner_beside[here]:
                if free[here, node] and node not in seen:
                    seen.add(node)
                    paths.append((*path, node))
        return ()

    def refusal(self, trees: list[list[int]]) -> str:
        """Why trees stopped growing although all links were free."""
        graph = self._graph
        root, tree = next((root, tree) for root, tree in enumerate(trees) if len(tree) < graph.n_ranks)
        out = next(rank for rank in range(graph.n_ranks) if rank not in tree)
        reached = {graph.ranks[rank] for rank in tree}
        ends = {node for host in reached for node in self._inner_beside[host]}
        borders = [node for node in self._border(ends) if node in self._has_hosts]
        what = f"MultiTree finds no way from rank {root} to rank {out}"
        if not borders:
            return f"{what}: the network does not connect them"
        return (
            f"{what}: it passes only switches without hosts, and {borders[0]} has hosts, "
            "none of them a rank's; give these hosts a rank each"
        )

    def _border(self, ends: Collection[str]) -> list[str]:
        """All nodes that paths from these reach, in the graph's order."""
        found, stack = set(ends), list(ends)
        while stack:
            here = stack.pop()
            if here in ends or here not in self._has_hosts:
                new = [node for node in self._inner_beside[here] if node not in found]
                found.update(new)
                stack += new
        return [node for node in self._graph.nodes if node in found and node not in ends]
