"""MultiTree: an allreduce along as many spanning trees as ranks, grown together for one network.

Huang, Majumder, Kim, Muzahid, Yum, Kim, "Communication Algorithm-Architecture Co-Design for Distributed Deep
Learning", ISCA 2021.  Each rank is the root of a tree that carries one p-th of the buffer.  In a step of the
construction no link is taken more often than it can carry, so the schedule meets no contention.
"""

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from gradwire.traces.schedules.algorithm import check_ranks
from gradwire.traces.schedules.algorithms.graph import Graph
from gradwire.traces.schedules.algorithms.steps import Steps, Transfer
from gradwire.traces.schedules.kinds import chunk_starts, piece_cuts
from gradwire.traces.schedules.sends import Send

NO_LINK = -1


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
    cut, steps = chunk_starts(nbytes, trees.n_ranks), Steps()
    complete = {(rank, rank): into for rank, into in _up(trees, steps, cut).items()}
    _down(trees, steps, cut, complete)
    return steps.made


def reduce_scatter(graph: Graph, nbytes: int, *, reference: bool = False) -> list[Send]:
    """Up the trees: rank r ends with the sum of chunk r, in tau steps."""
    trees, steps = grow(graph, reference=reference), Steps()
    _up(trees, steps, chunk_starts(nbytes, trees.n_ranks))
    return steps.made


def all_gather(graph: Graph, nbytes: int, *, reference: bool = False) -> list[Send]:
    """Down the trees: rank r begins with chunk r and ends with all, in tau steps."""
    trees, steps = grow(graph, reference=reference), Steps()
    _down(trees, steps, piece_cuts(nbytes, trees.n_ranks), {})
    return steps.made


Into = dict[tuple[int, int], tuple[int, ...]]
"""By root and rank: ids of what the rank was sent of the root's chunk."""


def _up(trees: Trees, steps: Steps, cut: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """The ids of what each root is sent of its chunk."""
    into: Into = {}
    for edges in reversed(_by_step(trees)):
        _step(steps, [(edge.root, edge.child, edge.parent) for edge in edges], cut, into, reduce=True)
    return {root: ids for (root, rank), ids in into.items() if root == rank}


def _down(trees: Trees, steps: Steps, cut: Sequence[int], into: Into) -> None:
    for edges in _by_step(trees):
        _step(steps, [(edge.root, edge.parent, edge.child) for edge in edges], cut, into, reduce=False)


def _by_step(trees: Trees) -> list[list[Edge]]:
    at: list[list[Edge]] = [[] for _ in range(trees.n_steps)]
    for edge in trees.edges:
        at[edge.step].append(edge)
    return at


def _step(
    steps: Steps, gives: Sequence[tuple[int, int, int]], cut: Sequence[int], into: Into, *, reduce: bool
) -> None:
    """A step of (root, source, destination)."""
    made = steps.step(
        [
            Transfer(src, dst, cut[root], cut[root + 1] - cut[root], into.get((root, src), ()))
            for root, src, dst in gives
        ],
        reduce=reduce,
    )
    for (root, _, dst), number in zip(gives, made, strict=True):
        if number is not None:
            into[root, dst] = (*into.get((root, dst), ()), number)


def multitree_s(trees: Trees, nbytes: int, alpha: float, beta: float) -> float:
    """T = 2 (tau S/p beta + D alpha): both halves."""
    return 2 * half_s(trees, nbytes, alpha, beta)


def half_s(trees: Trees, nbytes: int, alpha: float, beta: float) -> float:
    """T = tau S/p beta + D alpha: only hops that depend on each other pay alpha, and there are D.

    Derived from the paper's schedule; `beta` is of a link that carries one message a step.
    """
    return trees.n_steps * nbytes / trees.n_ranks * beta + trees.depth * alpha


def fills_links(trees: Trees) -> bool:
    """Whether a rank sends in every step over its one link; else early sends of a step fill gaps of another,
    and the time is at most that of the steps.
    """
    return trees.n_steps == trees.n_ranks - 1


@lru_cache(maxsize=2)  # a plan asks for the sends and for their closed form, of 128 ranks a second each
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
        search.begin_step()
        parents = [tree[::-1] for tree in trees]
        goes_on = True
        while goes_on:
            goes_on = False
            for root, tree in enumerate(trees):
                edge = search.edge(root, parents[root], step)
                if edge is not None:
                    tree.append(edge.child)
                    edges.append(edge)
                goes_on = edge is not None or (goes_on and not reference)
        if len(edges) == n_before:
            raise ValueError(search.refusal(trees))
        step += 1
    return Trees(graph.n_ranks, tuple(edges))


class _Search:
    """Ways over links that are free, by the numbers of links; and which ranks each tree does not have yet.

    They pass through nodes without hosts only, apart from the first and the last: where switches that have
    hosts are passed as well, the trees get in each other's way.
    """

    def __init__(self, graph: Graph) -> None:
        hosts = set(graph.hosts)
        self._graph = graph
        self._links = tuple(graph.capacity)
        self._rank = {host: rank for rank, host in enumerate(graph.ranks)}
        self._ranks_beside: dict[str, list[tuple[int, int]]] = {node: [] for node in graph.nodes}
        self._inner_beside: dict[str, list[tuple[int, str]]] = {node: [] for node in graph.nodes}
        for link, (a, b) in enumerate(graph.capacity):
            if b in self._rank:
                self._ranks_beside[a].append((link, self._rank[b]))
            elif b not in hosts:
                self._inner_beside[a].append((link, b))
        self._has_hosts = {a for a, b in graph.capacity if b in hosts}
        self._outside = [set(range(graph.n_ranks)) - {root} for root in range(graph.n_ranks)]
        out = Counter[str]()
        for (host, _), capacity in graph.capacity.items():
            out[host] += capacity
        self._all_out = [out[host] for host in graph.ranks]
        self.begin_step()

    def begin_step(self) -> None:
        """All links are free again."""
        self._free = list(self._graph.capacity.values())
        self._out = self._all_out.copy()  # how many more messages leave each rank

    def edge(self, root: int, parents: list[int], step: int) -> Edge | None:
        """The tree's next edge, whose links are taken from those that are free.

        `parents` are asked from the last on.  Who finds no way is dropped: until the next step links are
        only taken and ranks only join, so there will be none.
        """
        outside = self._outside[root]
        while outside and parents:
            parent = parents[-1]
            path = self._path(self._graph.ranks[parent], outside) if self._out[parent] else []
            if path:
                self._out[parent] -= 1
                for link in path:
                    self._free[link] -= 1
                nodes = (self._links[path[0]][0], *(self._links[link][1] for link in path))
                child = self._rank[nodes[-1]]
                outside.remove(child)
                return Edge(root, parent, child, step, nodes)
            parents.pop()
        return None

    def _path(self, start: str, outside: Collection[int]) -> list[int]:
        """Links from a host to the nearest of a rank outside; none if there is no way."""
        free, came = self._free, {start: NO_LINK}
        reached = deque([start])
        while reached:
            here = reached.popleft()
            for link, rank in self._ranks_beside[here]:
                if free[link] and rank in outside:
                    return self._way(came, link)
            if here in self._has_hosts and here != start and self._links[came[here]][0] != start:
                continue
            for link, node in self._inner_beside[here]:
                if free[link] and node not in came:
                    came[node] = link
                    reached.append(node)
        return []

    def _way(self, came: Mapping[str, int], last: int) -> list[int]:
        """The links up to the last one; `came` has the link by which each node was reached."""
        way = [last]
        while (link := came[self._links[way[-1]][0]]) != NO_LINK:
            way.append(link)
        return way[::-1]

    def refusal(self, trees: list[list[int]]) -> str:
        """Why trees stopped growing although all links were free."""
        graph = self._graph
        root, tree = next((root, tree) for root, tree in enumerate(trees) if len(tree) < graph.n_ranks)
        out = next(rank for rank in range(graph.n_ranks) if rank not in tree)
        reached = {graph.ranks[rank] for rank in tree}
        ends = {node for host in reached for _, node in self._inner_beside[host]}
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
                new = [node for _, node in self._inner_beside[here] if node not in found]
                found.update(new)
                stack += new
        return [node for node in self._graph.nodes if node in found and node not in ends]
