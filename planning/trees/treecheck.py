"""Checks trees before anything is built from them, as a plan may come from a file that somebody wrote."""

from collections import Counter
from collections.abc import Sequence

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.trees.tree import ELEMENTS, MAX_CHILDREN, Child, Node, Tree, mtu_needed
from gradwire.traces.schedules.schedule import ReduceGroup

_U16 = range(1 << 16)
_PORTS = range(1, 1 << 16)


def check_trees(
    fabric: Fabric,
    placement: Sequence[str],
    groups: Sequence[ReduceGroup],
    trees: Sequence[Tree],
    switch_slots: int,
) -> None:
    """Raise ValueError with what is wrong and where; `placement` must be sound."""
    if len(trees) != len(groups):
        raise ValueError(f"trees: {len(groups)} reduce groups need {len(groups)} trees, got {len(trees)}")
    if switch_slots not in _U16:
        raise ValueError(f"switch_slots: a switch can have 0 to {_U16[-1]}, got {switch_slots}")
    for number, (tree, group) in enumerate(zip(trees, groups, strict=True)):
        if (tree.givers, tree.takers) != group:
            raise ValueError(
                f"tree {number}: its givers and takers differ from those of reduce group {number}"
            )
        try:
            _check_numbers(fabric, tree)
            _check_nodes(fabric, tree)
            _check_members(fabric, placement, tree)
        except ValueError as error:
            raise ValueError(f"tree {number}: {error}") from error
    for what in ("job", "udp_port"):
        used = Counter(getattr(tree, what) for tree in trees)
        value, times = max(used.items(), key=lambda item: item[1], default=(0, 0))
        if times > 1:
            raise ValueError(f"trees: {times} trees have {what} {value}; each needs its own")
    _check_slots(trees, switch_slots)


def check_elements(fabric: Fabric, elements: int) -> None:
    """Raise ValueError for a number of elements in a packet that no tree of the fabric may have."""
    if elements not in ELEMENTS:
        *known, last = map(str, ELEMENTS)
        raise ValueError(f"a packet cannot have {elements} elements: choose {', '.join(known)} or {last}")
    if mtu_needed(elements) > fabric.mtu_nbytes:
        raise ValueError(
            f"{elements} elements in a packet need an mtu of at least {mtu_needed(elements)}, "
            f"but {fabric.spec} has mtu={fabric.mtu_nbytes}"
        )


def ranks_below(fabric: Fabric, placement: Sequence[str], tree: Tree) -> dict[Egress, tuple[int, ...]]:
    """The ranks that contribute through each of the ports of the tree's children, ascending."""
    rank_at = {host: rank for rank, host in enumerate(placement)}
    of_switch: dict[str, tuple[int, ...]] = {}
    below: dict[Egress, tuple[int, ...]] = {}
    for node in reversed(tree.nodes):
        for child in node.children:
            port = Egress(node.switch, child.port)
            peer = fabric.peers[port].node
            below[port] = (rank_at[peer],) if peer in rank_at else of_switch[peer]
        ranks = (below[Egress(node.switch, child.port)] for child in node.children)
        of_switch[node.switch] = tuple(sorted(sum(ranks, ())))
    return below


def _check_numbers(fabric: Fabric, tree: Tree) -> None:
    if tree.job not in _U16 or tree.epoch not in _U16 or tree.udp_port not in _PORTS:
        raise ValueError(f"job {tree.job}, epoch {tree.epoch} or UDP port {tree.udp_port} is out of range")
    check_elements(fabric, tree.elements)
    if tree.slots < 1:
        raise ValueError(f"it has {tree.slots} slots and needs at least one")


def _check_nodes(fabric: Fabric, tree: Tree) -> None:
    """Every port is there, and every node but the root hangs on one before it by the one cable they name."""
    if not tree.nodes or tree.nodes[0].parent_port is not None:
        raise ValueError("its first node must be its root, without a parent")
    parents: dict[str, Egress] = {}  # by switch: the port above that leads to it
    seen: set[str] = set()
    for node in tree.nodes:
        _check_node(fabric, node)
        if node.switch in seen:
            raise ValueError(f"{node.switch} appears twice")
        if seen:
            above = parents.get(node.switch)
            if above is None or node.parent_port != fabric.peers[above].port:
                raise ValueError(
                    f"port {node.parent_port} of {node.switch} does not lead to its parent, which must "
                    f"come before it"
                )
        seen.add(node.switch)
        for child in node.children:
            port = Egress(node.switch, child.port)
            peer = fabric.peers[port].node
            if peer in seen or peer in parents:
                raise ValueError(f"{peer} is below two nodes")
            if peer not in fabric.host_set:
                parents[peer] = port
    hanging = parents.keys() - seen
    if hanging:
        raise ValueError(f"{min(hanging)} is a child but is not among the nodes")


def _check_node(fabric: Fabric, node: Node) -> None:
    if node.switch not in fabric.switches:
        raise ValueError(f"{node.switch!r} is not a switch of {fabric.spec}")
    if not 1 <= len(node.children) <= MAX_CHILDREN:
        raise ValueError(f"{node.switch} has {len(node.children)} children; a node has 1 to {MAX_CHILDREN}")
    ports = [child.port for child in node.children]
    if node.parent_port is not None:
        ports.append(node.parent_port)
    for port in ports:
        if Egress(node.switch, port) not in fabric.peers:
            raise ValueError(f"{node.switch} has no port {port}")
    if len(set(ports)) != len(ports):
        raise ValueError(f"{node.switch} names a port twice")


def _check_members(fabric: Fabric, placement: Sequence[str], tree: Tree) -> None:
    """The hosts are those of the members, each once; a child gives or takes if anybody below it does."""
    rank_at = {host: rank for rank, host in enumerate(placement)}
    hosts = [
        peer
        for node in tree.nodes
        for child in node.children
        if (peer := fabric.peers[Egress(node.switch, child.port)].node) in fabric.host_set
    ]
    if Counter(hosts) != Counter(placement[rank] for rank in tree.members):
        wrong = sorted({*hosts} ^ {placement[rank] for rank in tree.members}) or sorted(hosts)
        raise ValueError(
            f"each of its {len(tree.members)} members' hosts must be in it exactly once: see {wrong[0]}"
        )
    assert set(hosts) <= rank_at.keys()
    givers, takers = set(tree.givers), set(tree.takers)
    below = ranks_below(fabric, placement, tree)
    for node in tree.nodes:
        for child in node.children:
            ranks = below[Egress(node.switch, child.port)]
            due = Child(child.port, not givers.isdisjoint(ranks), not takers.isdisjoint(ranks))
            if child != due:
                raise ValueError(
                    f"port {child.port} of {node.switch}: gives {child.gives}, takes {child.takes}; "
                    f"for the ranks below it this must be gives {due.gives}, takes {due.takes}"
                )


def _check_slots(trees: Sequence[Tree], switch_slots: int) -> None:
    granted: Counter[str] = Counter()
    for tree in trees:
        for node in tree.nodes:
            granted[node.switch] += tree.slots
    for switch, slots in granted.items():
        if slots > switch_slots:
            raise ValueError(f"trees: {switch} grants {slots:,} slots but has only {switch_slots:,}")
