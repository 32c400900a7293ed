"""How much of what switches add up can wait at a port: the windows of the trees that pass it."""

from collections import Counter
from collections.abc import Sequence

from planning.fabrics.fabric import Egress, Fabric, interface
from planning.trees.tree import Tree, child_ports

_TIMES = 2  # each chunk of a window, and once more what was sent again because it waited


def windows_at(fabric: Fabric, trees: Sequence[Tree], may_move: bool) -> Counter[str]:
    """Bytes of frames by interface, hosts' own among them.

    If trees `may_move` during a run, each of them can come to any cable between switches.
    """
    found: Counter[str] = Counter()
    for tree in trees:
        ports = set(child_ports(tree))
        if may_move:
            ports |= {Egress(link.a, link.a_port) for link in fabric.inner_links}
        ends = ports | {fabric.peers[port] for port in ports}
        for end in ends:
            found[interface(*end)] += _TIMES * tree.slots * tree.frame_nbytes
    return found
